"""An image receipt against a contract (profile-contract §9.3, §11.2 steps 2 and 3, §18.4, §18.16).

It may stand alone or inside an activation receipt; nothing of it is taken for granted, whatever its shape.
"""

import re
from collections.abc import Iterator
from typing import Final

from app.core.canonical_json import ExactValue, encode_exact
from app.core.digest import Digest, sha256
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.qualify.activation_bounds import (
    BUNDLE_FILE,
    CONFIG_ID,
    HEX64,
    IMAGE_FALSE_FLAGS,
    IMAGE_RECEIPT_SCHEMA,
    IMAGE_TRUE_FLAGS,
    REFERENCE,
)
from app.core.qualify.pointer import step

_PUBLICATION_SCHEMA: Final = "sparkring-ghcr-publication/v1"
_CAPABILITY_FOLDER: Final = "/opt/sparkring/profile-contract/"


def image_receipt_findings(
    value: ExactValue,
    *,
    contract: Contract,
    profile: str | None = None,
    pointer: str = "",
    document_sha256: Digest | None = None,
) -> tuple[ProfileFinding, ...]:
    """Every rule in the order of §11.2; a rule that holds is a passed check.

    Args:
        profile: decides whether capabilities are required; none, or one the contract lacks: not applicable.
        pointer: where the receipt stands in its document.
    """
    receipt = _Receipt(value, at=pointer, document_sha256=document_sha256)
    return tuple(_findings(receipt, contract=contract, profile=profile))


class _Receipt:
    """Members of the receipt by name, and findings at their place."""

    def __init__(self, value: ExactValue, *, at: str, document_sha256: Digest | None) -> None:
        self.members: dict[str, ExactValue] = value if isinstance(value, dict) else {}
        self.value = value
        self._at = at
        self._document = document_sha256

    def part(self, name: str) -> dict[str, ExactValue]:
        """An object inside; an empty one where there is none."""
        value = self.members.get(name)
        return value if isinstance(value, dict) else {}

    def checked_file(self, path: str) -> ExactValue:
        """The digest the image's verifier found for a file."""
        files = self.part("verification").get("checked_files")
        return files.get(path) if isinstance(files, dict) else None

    def say(
        self, code: str, good: bool, *steps: str, expected: object = "", found: object = ""
    ) -> ProfileFinding:
        """One check at one place."""
        return finding(
            code,
            CheckResult.PASS if good else CheckResult.FAIL,
            pointer=self._at + "".join(step(one) for one in steps),
            expected=expected,
            found=found,
            document_sha256=self._document,
        )


def _findings(receipt: _Receipt, *, contract: Contract, profile: str | None) -> Iterator[ProfileFinding]:
    schema = receipt.members.get("schema")
    if schema != IMAGE_RECEIPT_SCHEMA:
        publication = schema == _PUBLICATION_SCHEMA
        code = "IMG_PUBLICATION_AS_RECEIPT" if publication else "DOC_SCHEMA_UNKNOWN"
        yield receipt.say(code, False, "schema", expected=IMAGE_RECEIPT_SCHEMA, found=schema)
        if not receipt.members:
            return
    wanted, members = contract.image, receipt.members
    yield from _flags(receipt)
    platform = members.get("platform")
    yield receipt.say(
        "IMG_PLATFORM",
        platform == wanted.required_platform,
        "platform",
        expected=wanted.required_platform,
        found=platform,
    )
    yield from _identity(receipt)
    lock = members.get("artifact_lock_sha256")
    yield receipt.say(
        "CT_LOCK_HASH",
        lock == wanted.artifact_lock_sha256,
        "artifact_lock_sha256",
        expected=wanted.artifact_lock_sha256,
        found=lock,
    )
    yield _sources(receipt, wanted=wanted.required_sources)
    yield _component_receipts(receipt, wanted=wanted.required_receipts)
    source_lock = members.get("source_lock_sha256")
    yield receipt.say(
        "SL_HASH",
        _is_hex64(source_lock),
        "source_lock_sha256",
        expected="64 lower-case hexadecimal characters",
        found=source_lock,
    )
    nccl = members.get("nccl_version")
    yield receipt.say(
        "IMG_NCCL",
        nccl == wanted.required_nccl_version,
        "nccl_version",
        expected=wanted.required_nccl_version,
        found=nccl,
    )
    bundle = members.get("bundle_manifest_sha256")
    checked = receipt.checked_file(BUNDLE_FILE)
    yield receipt.say(
        "IMG_BUNDLE_BIND",
        _is_hex64(bundle) and bundle == checked,
        "bundle_manifest_sha256",
        expected=f"the digest of {BUNDLE_FILE}: {checked}",
        found=bundle,
    )
    yield from _capabilities(receipt, contract=contract, profile=profile)


def _flags(receipt: _Receipt) -> Iterator[ProfileFinding]:
    """Five flags are true; eight, which describe the time of construction, are false."""
    for name in IMAGE_TRUE_FLAGS:
        flag = receipt.members.get(name)
        yield receipt.say("IMG_FLAGS", flag is True, name, expected="true", found=flag)
    for part, names in IMAGE_FALSE_FLAGS.items():
        for name in names:
            flag = receipt.part(part).get(name)
            yield receipt.say("IMG_FLAGS", flag is False, part, name, expected="false", found=flag)


def _identity(receipt: _Receipt) -> Iterator[ProfileFinding]:
    image_id, reference = (receipt.members.get(name) for name in ("image_id", "image_reference"))
    yield receipt.say(
        "IMG_ID_FORM",
        _fits(CONFIG_ID, image_id),
        "image_id",
        expected="sha256: and 64 hexadecimal characters",
        found=image_id,
    )
    yield receipt.say(
        "IMG_ID_FORM",
        _fits(REFERENCE, reference) or (isinstance(reference, str) and reference == image_id),
        "image_reference",
        expected="a reference that ends in @sha256: and 64 characters, or the image id",
        found=reference,
    )


def _sources(receipt: _Receipt, *, wanted: dict[str, ExactValue]) -> ProfileFinding:
    """Equal member by member, and of the same type: 35 is not 35.0."""
    found = receipt.part("sources")
    for name in sorted(wanted.keys() | found.keys()):
        mine, theirs = wanted.get(name), found.get(name)
        if type(mine) is not type(theirs) or mine != theirs:
            return receipt.say("CT_SOURCES", False, "sources", name, expected=mine, found=theirs)
    return receipt.say("CT_SOURCES", True, "sources", expected=f"{len(wanted)} sources")


def _component_receipts(receipt: _Receipt, *, wanted: tuple[str, ...]) -> ProfileFinding:
    found = receipt.part("component_receipts")
    for name in sorted(set(wanted) | found.keys()):
        if name not in wanted or not _is_hex64(found.get(name)):
            expected = "64 lower-case hexadecimal characters" if name in wanted else "no such receipt"
            return receipt.say(
                "CT_RECEIPT_NAMES",
                False,
                "component_receipts",
                name,
                expected=expected,
                found=found.get(name),
            )
    return receipt.say(
        "CT_RECEIPT_NAMES", True, "component_receipts", expected=f"{len(set(wanted))} receipts"
    )


def _capabilities(receipt: _Receipt, *, contract: Contract, profile: str | None) -> Iterator[ProfileFinding]:
    """The document's own digest, the stated one and the one the image's verifier found are the same; every
    value of ``checks`` is ``implemented`` (§18.16)."""
    entry = contract.profiles.get(profile or "")
    if entry is None or not entry.required_capabilities:
        yield finding("IMG_CAPABILITY", CheckResult.NOT_APPLICABLE, detail="no capability is required")
        return
    bound = receipt.part("runtime_capabilities")
    document = bound.get("document")
    stated = bound.get("sha256")
    computed = _canonical_digest(document)
    file = f"{_CAPABILITY_FOLDER}{entry.capability_file}"
    at = ("runtime_capabilities", "sha256")
    for expected in (computed, receipt.checked_file(file)):
        good = _is_hex64(stated) and stated == expected
        yield receipt.say("IMG_CAPABILITY", good, *at, expected=expected, found=stated)
    checks = document.get("checks") if isinstance(document, dict) else None
    states = checks if isinstance(checks, dict) else {}
    for name in dict.fromkeys((*entry.required_capabilities, *states)):
        yield receipt.say(
            "IMG_CAPABILITY",
            states.get(name) == "implemented",
            "runtime_capabilities",
            "document",
            "checks",
            name,
            expected="implemented",
            found=states.get(name),
        )


def _canonical_digest(document: ExactValue) -> str:
    """Over sorted keys, compact, with a closing newline; nothing where there is no such form."""
    try:
        return sha256(encode_exact(document) + b"\n") if isinstance(document, dict) else ""
    except (ValueError, OverflowError):
        return ""


def _is_hex64(value: ExactValue) -> bool:
    return _fits(HEX64, value)


def _fits(pattern: re.Pattern[str], value: ExactValue) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
