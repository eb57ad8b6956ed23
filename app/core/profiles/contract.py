"""The contract document, parsed: image, model, native libraries, common environment, profiles
(profile-contract §2, §3).

Every field of a contract is judged by form here; whether contract and template agree is ``entry_checks``.
"""

import re
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import (
    DocumentKind,
    ProfileDocument,
    ProfileDocumentError,
    read_profile_document,
)
from app.core.profiles.fields import Fields, Problems
from app.core.profiles.profile_entry import ProfileEntry, read_entries
from app.core.profiles.references import OWN_FOLDER, Base, Reference, resolve
from app.core.profiles.template import MAX_TEMPLATE_KEYS, has_control, is_variable
from app.core.qualify.pointer import step

COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PLATFORM: Final = re.compile(r"[a-z0-9]+/[a-z0-9]+(?:/v[0-9]+)?")
_ABSOLUTE: Final = re.compile(r"/[^\x00\\]+")
MOST_SOURCES: Final = 1_000
_COUNTED_SOURCE: Final = "vllm_status_lines"
"""The one source that is a number and no identity (§2.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequirement:
    """What an image receipt must say (§2.2); ``value`` is the object as it stands."""

    value: dict[str, ExactValue]
    artifact_lock: str
    artifact_lock_sha256: Digest
    required_platform: str
    required_sources: dict[str, ExactValue]
    required_receipts: tuple[str, ...]
    required_nccl_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model a contract is about (§2.3); ``value`` is the object as it stands."""

    value: dict[str, ExactValue]
    repository: str
    revision: str
    max_model_len: int
    load_format: str
    num_speculative_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """The native libraries of the cache (§2.4); paths are those inside the image."""

    source_commit: str
    source_tree: str
    placement_path: str
    placement_sha256: Digest
    snapshot_path: str
    snapshot_sha256: Digest
    vllm_root: str
    lease_contract: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A contract whose every field has its form; ``value`` is the whole document as it stands."""

    sha256: Digest
    byte_count: int
    value: dict[str, ExactValue]
    status: str
    image: ImageRequirement
    model: Model
    sparkcache_native: Native
    common_environment: dict[str, str]
    profiles: dict[str, ProfileEntry]


def read_contract(source: bytes | ProfileDocument, *, subject: str = "profile contract") -> Contract:
    """Parse a contract.

    Raises: ProfileDocumentError: as ``read_profile_document``; CT_FIELD_MISSING, CT_FIELD_VALUE or
    DOC_PATH_UNSAFE with the pointer, every offence among its findings.
    """
    if isinstance(source, bytes):
        source = read_profile_document(source, subject=subject, kind=DocumentKind.CONTRACT)
    problems = Problems(
        subject=subject, sha256=source.sha256, missing="CT_FIELD_MISSING", wrong="CT_FIELD_VALUE"
    )
    top = Fields.of(source.value, problems=problems)
    contract = Contract(
        sha256=source.sha256,
        byte_count=source.byte_count,
        value=source.value,
        status=top.text("status", one_of=("research-only",)),
        image=_image(top.object("image")),
        model=_model(top.object("model")),
        sparkcache_native=_native(top.object("sparkcache_native")),
        common_environment=_environment(top),
        profiles=read_entries(top),
    )
    _check_paths(contract, problems)
    problems.refuse()
    return contract


def references(contract: Contract, name: str | None = None) -> tuple[Reference, ...]:
    """Every file a contract names, or those of one profile and the artifact lock, resolved.

    The contract lies in a folder ``profiles``; that name stands for its own folder whatever it is called.
    """
    pinned = contract.image.artifact_lock_sha256
    lock = _resolved(contract.image.artifact_lock, pointer="/image/artifact_lock", sha256=pinned)
    entries = [entry for entry in contract.profiles.values() if name in (None, entry.name)]
    named = [reference for entry in entries for reference in entry_references(entry)]
    return (lock, *named)


def entry_references(entry: ProfileEntry) -> tuple[Reference, ...]:
    """Template, capability file, transport manifest and mesh pins of one profile."""
    at = f"/profiles{step(entry.name)}"
    found = [_resolved(entry.template, pointer=f"{at}/template")]
    if entry.capability_file is not None:
        found.append(_resolved(entry.capability_file, pointer=f"{at}/capability_file"))
    for field, pinned in (
        ("transport_manifest", entry.transport_manifest_sha256),
        ("mesh_pins", entry.mesh_pins_sha256),
    ):
        written: str | None = getattr(entry, field)
        if written is not None:
            found.append(_resolved(written, pointer=f"{at}/{field}", base=Base.ASSETS, sha256=pinned))
    return tuple(found)


def ancestors(contract: Contract, name: str) -> tuple[str, ...]:
    """The parents of a profile, nearest first; ends at an unknown one or where the chain comes back."""
    chain: list[str] = []
    seen = {name}
    entry = contract.profiles.get(name)
    while entry is not None and entry.inherits is not None and entry.inherits not in seen:
        seen.add(entry.inherits)
        chain.append(entry.inherits)
        entry = contract.profiles.get(entry.inherits)
    return tuple(chain)


def _image(fields: Fields) -> ImageRequirement:
    fields.text("selection", one_of=("external-immutable-receipt",))
    sources = fields.object("required_sources")
    _check_count(sources, MOST_SOURCES)
    for name, value in sources.value.items():
        is_identity = isinstance(value, str) and COMMIT.fullmatch(value) is not None
        is_count = name == _COUNTED_SOURCE
        if not (type(value) is int if is_count else is_identity):
            expected = "an integer" if is_count else "40 or 64 lower-case hexadecimal characters"
            fields.problems.add(sources.place(name), expected=expected, found=shown(value))
    return ImageRequirement(
        value=fields.value,
        artifact_lock=fields.text("artifact_lock"),
        artifact_lock_sha256=fields.digest("artifact_lock_sha256"),
        required_platform=fields.text("required_platform", pattern=_PLATFORM),
        required_sources=sources.value,
        required_receipts=fields.texts("required_receipts"),
        required_nccl_version=fields.text("required_nccl_version"),
    )


def _model(fields: Fields) -> Model:
    loader = fields.object("loader")
    loader.text("instanttensor_commit", pattern=COMMIT)
    loader.text("backend_selection", one_of=("automatic",))
    needed = loader.object("required_environment")
    if needed.value:
        found = f"{len(needed.value)} variables"
        loader.problems.add(needed.at, expected="an empty object", found=found)
    speculation = fields.object("speculation")
    for name in ("method", "attention_backend", "moe_backend"):
        speculation.text(name)
    return Model(
        value=fields.value,
        repository=fields.text("repository"),
        revision=fields.text("revision", pattern=COMMIT),
        max_model_len=fields.integer("max_model_len", minimum=1),
        load_format=loader.text("load_format"),
        num_speculative_tokens=speculation.integer("num_speculative_tokens", minimum=0, maximum=64),
    )


def _native(fields: Fields) -> Native:
    return Native(
        source_commit=fields.text("source_commit", pattern=COMMIT),
        source_tree=fields.text("source_tree", pattern=COMMIT),
        placement_path=fields.text("placement_path", pattern=_ABSOLUTE),
        placement_sha256=fields.digest("placement_sha256"),
        snapshot_path=fields.text("snapshot_path", pattern=_ABSOLUTE),
        snapshot_sha256=fields.digest("snapshot_sha256"),
        vllm_root=fields.text("vllm_root", pattern=_ABSOLUTE),
        lease_contract=fields.text("lease_contract", pattern=_ABSOLUTE),
    )


def _environment(top: Fields) -> dict[str, str]:
    pairs = top.pairs("common_environment")
    _check_count(top.object("common_environment"), MAX_TEMPLATE_KEYS)
    for key, value in pairs.items():
        place = f"/common_environment{step(key)}"
        if not is_variable(key):
            top.problems.add(place, expected="a key of A-Z, 0-9 and _", found=shown(key))
        if has_control(value):
            top.problems.add(place, expected="a value without control characters", found=shown(value))
    return pairs


def _check_count(fields: Fields, most: int) -> None:
    if len(fields.value) > most:
        expected, found = f"at most {most} members", f"{len(fields.value)}"
        fields.problems.add(fields.at, code="DOC_TOO_LARGE", expected=expected, found=found)


def _check_paths(contract: Contract, problems: Problems) -> None:
    """A reference that leads out is an offence of the document, whoever would follow it."""
    if problems.found:
        return
    for name in ("", *contract.profiles):
        try:
            references(contract, name)
        except ProfileDocumentError as error:
            problems.found.extend(error.findings)
            return


def _resolved(
    written: str, *, pointer: str, base: Base = Base.CONTRACT, sha256: Digest | None = None
) -> Reference:
    folder = OWN_FOLDER if base is Base.CONTRACT else ""
    path = resolve(written, base=base, folder=folder, pointer=pointer)
    return Reference(base=base, path=path, written=written, pointer=pointer, sha256=sha256)
