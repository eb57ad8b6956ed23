"""One named profile of a contract: its fields, their form, and nothing taken from a parent
(profile-contract §3.1).
"""

import re
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.fields import Fields
from app.core.profiles.references import OWN_FOLDER, Base, resolve
from app.core.qualify.activation_bounds import PROFILE_NAME

MOST_PROFILES: Final = 256
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
TP2_TRANSPORT: Final = "tp2-rocenante-adaptive"
TP4_TRANSPORT: Final = "sparkring-rocenante-mesh"
_TRANSPORTS: Final = {2: (TP2_TRANSPORT,), 4: (TP4_TRANSPORT,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What a profile says of serving (§3.1, ``serving``)."""

    max_num_seqs: int
    max_num_batched_tokens: int
    prefill_schedule_interval: int
    images_per_prompt: int
    videos_per_prompt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """A profile as the contract has it; what is absent is none, and never a parent's."""

    name: str
    value: dict[str, ExactValue]
    template: str
    inherits: str | None
    tensor_parallel_size: int
    decode_context_parallel_size: int
    node_count: int
    transport: str
    transport_manifest: str | None
    transport_manifest_sha256: Digest | None
    mesh_pins: str | None
    mesh_pins_sha256: Digest | None
    sparkcache: bool
    kv_cache_memory_bytes: int
    cudagraph_capture_sizes: tuple[int, ...]
    lifecycle: str
    load_format: str | None
    plugins: str | None
    continuation_coalescing: bool | None
    capability_file: str | None
    required_capabilities: tuple[str, ...]
    reference_kv_cache_memory_bytes: int | None
    serving: Serving | None

    @property
    def is_tp4(self) -> bool:
        """Whether the profile is one of the four-node ring."""
        return self.tensor_parallel_size == 4


def read_entries(top: Fields) -> dict[str, ProfileEntry]:
    """Every profile of a contract, by name; offences go to the problems of ``top``."""
    profiles = top.object("profiles")
    if len(profiles.value) > MOST_PROFILES:
        found = f"{len(profiles.value)} profiles"
        top.problems.add("/profiles", expected=f"at most {MOST_PROFILES}", found=found, code="DOC_TOO_LARGE")
        return {}
    if top.value.get("profiles") == {}:
        top.problems.add("/profiles", expected="at least one profile", found="none")
    return {
        name: _entry(name, Fields.of(value, problems=top.problems, at=profiles.place(name)))
        for name, value in profiles.value.items()
    }


def _entry(name: str, fields: Fields) -> ProfileEntry:
    if PROFILE_NAME.fullmatch(name) is None:
        fields.problems.add(
            fields.at, expected=f"a name of the form {PROFILE_NAME.pattern}", found=shown(name)
        )
    tp = _degree(fields, "tensor_parallel_size", permitted=(2, 4))
    nodes = fields.integer("node_count", minimum=1, maximum=1024)
    if fields.has("node_count") and fields.has("tensor_parallel_size") and nodes != tp:
        expected = f"the tensor-parallel degree, {tp}"
        fields.problems.add(fields.place("node_count"), expected=expected, found=shown(nodes))
    fields.text("host_domains", one_of=("dual",))
    if tp == 2:
        fields.integer("physical_dacs_per_rank", minimum=1, maximum=1)
    manifest, manifest_sha256 = _pinned(fields, "transport_manifest", needed=tp == 2)
    pins, pins_sha256 = _pinned(fields, "mesh_pins", needed=tp == 4)
    return ProfileEntry(
        name=name,
        value=fields.value,
        template=_sibling(fields, "template"),
        inherits=fields.text("inherits") if fields.has("inherits") else None,
        tensor_parallel_size=tp,
        decode_context_parallel_size=_degree(fields, "decode_context_parallel_size", permitted=(1, 2, 4)),
        node_count=nodes,
        transport=fields.text("transport", one_of=_TRANSPORTS.get(tp, (TP2_TRANSPORT, TP4_TRANSPORT))),
        transport_manifest=manifest,
        transport_manifest_sha256=manifest_sha256,
        mesh_pins=pins,
        mesh_pins_sha256=pins_sha256,
        sparkcache=fields.boolean("sparkcache"),
        kv_cache_memory_bytes=fields.integer("kv_cache_memory_bytes", minimum=1),
        cudagraph_capture_sizes=fields.integers("cudagraph_capture_sizes", minimum=1, maximum_count=1024),
        lifecycle=fields.text("lifecycle"),
        load_format=_optional_text(fields, "load_format"),
        plugins=_optional_text(fields, "plugins"),
        continuation_coalescing=_optional_boolean(fields, "continuation_coalescing"),
        capability_file=_capability_file(fields),
        required_capabilities=_capabilities(fields),
        reference_kv_cache_memory_bytes=_reference_bytes(fields),
        serving=_serving(fields.object("serving")) if fields.has("serving") else None,
    )


def _degree(fields: Fields, name: str, *, permitted: tuple[int, ...]) -> int:
    value = fields.integer(name, minimum=1)
    if fields.has(name) and type(fields.value[name]) is int and value not in permitted:
        expected = " or ".join(str(one) for one in permitted)
        fields.problems.add(fields.place(name), expected=expected, found=shown(value))
    return value


def _sibling(fields: Fields, name: str) -> str:
    """The name of a file beside the contract. What leads out of the parent of its folder is no path at all
    (§18.1)."""
    written = fields.value.get(name)
    if isinstance(written, str) and written:
        try:
            resolve(written, base=Base.CONTRACT, folder=OWN_FOLDER, pointer=fields.place(name))
        except ProfileDocumentError as error:
            fields.problems.found.extend(error.findings)
            return ""
    return fields.text(name, pattern=_FILE_NAME)


def _pinned(fields: Fields, name: str, *, needed: bool) -> tuple[str | None, Digest | None]:
    """A path with its digest: both or neither, and both where the transport needs them."""
    pin = f"{name}_sha256"
    if not needed and not fields.has(name) and not fields.has(pin):
        return None, None
    return fields.text(name), fields.digest(pin)


def _optional_text(fields: Fields, name: str) -> str | None:
    return fields.text(name) if fields.has(name) else None


def _optional_boolean(fields: Fields, name: str) -> bool | None:
    return fields.boolean(name) if fields.has(name) else None


def _capability_file(fields: Fields) -> str | None:
    if not fields.has("capability_file") and not fields.has("required_capabilities"):
        return None
    return _sibling(fields, "capability_file")


def _capabilities(fields: Fields) -> tuple[str, ...]:
    """Names and the document that shows them: both or neither."""
    if not fields.has("capability_file") and not fields.has("required_capabilities"):
        return ()
    return fields.texts("required_capabilities")


def _reference_bytes(fields: Fields) -> int | None:
    name = "reference_kv_cache_memory_bytes"
    return fields.integer(name, minimum=1) if fields.has(name) else None


def _serving(fields: Fields) -> Serving:
    limits = fields.object("limit_mm_per_prompt")
    return Serving(
        max_num_seqs=fields.integer("max_num_seqs", minimum=1),
        max_num_batched_tokens=fields.integer("max_num_batched_tokens", minimum=1),
        prefill_schedule_interval=fields.integer("prefill_schedule_interval", minimum=1),
        images_per_prompt=limits.integer("image", minimum=0),
        videos_per_prompt=limits.integer("video", minimum=0),
    )
