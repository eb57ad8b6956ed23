"""A contract with its templates and all it refers to, checked as a whole (profile-contract §2 to §4, §9.3).

Whoever reads files hands in a ``Lookup``. What is not there is named by the checks that need it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.digest import Digest
from app.core.profiles.contract import Contract, entry_references
from app.core.profiles.documents import ProfileDocumentError, refusal
from app.core.profiles.effective import EffectiveProfile, effective_profile
from app.core.profiles.entry_checks import PinnedDigests, entry_findings
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.guards.native import native_findings
from app.core.profiles.image_receipt import image_receipt_findings
from app.core.profiles.profile_entry import ProfileEntry
from app.core.profiles.references import Lookup, Reference
from app.core.profiles.release import ReleaseSelection, unpinned_finding
from app.core.profiles.template import Template, read_template

MOST_TEMPLATE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """An image receipt as a JSON value with the digest of its document."""

    value: ExactValue
    sha256: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTemplates:
    """The templates that could be read, and what was wrong with the others."""

    by_name: Mapping[str, Template] = field(default_factory=dict)
    findings: tuple[ProfileFinding, ...] = ()


def load_templates(
    contract: Contract, *, lookup: Lookup, known: Mapping[str, Template] | None = None
) -> LoadedTemplates:
    """Every template the contract names.

    Args: known: templates that were read already, by file name; they go before what ``lookup`` finds.
    """
    by_name: dict[str, Template] = {}
    findings: list[ProfileFinding] = []
    byte_count = 0
    for entry in {entry.template: entry for entry in contract.profiles.values()}.values():
        if known is not None and entry.template in known:
            by_name[entry.template] = known[entry.template]
            continue
        try:
            raw = lookup(_template_reference(entry))
            if raw is not None:
                byte_count += len(raw)
                _check_sum(byte_count, entry)
                by_name[entry.template] = read_template(raw, name=entry.template)
        except ProfileDocumentError as error:
            findings.extend(error.findings)
    return LoadedTemplates(by_name=by_name, findings=tuple(findings))


def check_contract(
    contract: Contract,
    *,
    lookup: Lookup,
    templates: LoadedTemplates,
    only: str | None = None,
    receipt: Receipt | None = None,
) -> tuple[ProfileFinding, ...]:
    """Everything the files show of a contract, or of one of its profiles.

    Inheritance, templates against entries, pinned digests, and the image receipt if there is one. A
    reference that is refused is a finding; nothing is raised for it.

    Raises: ProfileDocumentError: CT_PROFILE_UNKNOWN for ``only``.
    """
    names = [only] if only is not None else list(contract.profiles)
    resolved = [effective_profile(contract, name, templates=templates.by_name) for name in names]
    found: list[ProfileFinding] = list(templates.findings)
    pinned = PinnedDigests(lookup)
    for effective in resolved:
        found.extend(_profile_findings(effective, contract, pinned))
    found.extend(_receipt_findings(contract, [one.entry for one in resolved], receipt))
    return tuple(dict.fromkeys(found))


def superseded_finding(contract: Contract, newer: Sequence[Contract]) -> ProfileFinding:
    """CT_VERSION_SUPERSEDED: no other contract for the same image came later (§18.16).

    Args: newer: contracts registered after this one; the same image is the same pinned artifact lock.
    """
    pinned = contract.image.artifact_lock_sha256
    later = [one for one in newer if one.image.artifact_lock_sha256 == pinned]
    others = [one.sha256 for one in later if one.sha256 != contract.sha256]
    return finding(
        "CT_VERSION_SUPERSEDED",
        CheckResult.FAIL if others else CheckResult.PASS,
        expected="no later contract for the same artifact lock",
        found=", ".join(others),
        document_sha256=contract.sha256,
    )


def pinned_findings(
    contract: Contract, receipt: Receipt | None, selections: tuple[ReleaseSelection, ...]
) -> tuple[ProfileFinding, ...]:
    """DOC_UNPINNED of contract and image receipt; not tested without a release selection."""
    documents = [("profile contract", contract.sha256)]
    if receipt is not None and receipt.sha256 is not None:
        documents.append(("image receipt", receipt.sha256))
    if not selections:
        detail = "not given: release selection"
        return (finding("DOC_UNPINNED", CheckResult.NOT_TESTED, detail=detail),)
    return tuple(unpinned_finding(digest, name=name, selections=selections) for name, digest in documents)


def _check_sum(byte_count: int, entry: ProfileEntry) -> None:
    """Every template is within its limit, and yet many of them may be too much."""
    if byte_count > MOST_TEMPLATE_BYTES:
        raise refusal(
            entry.template,
            code="DOC_TOO_LARGE",
            expected=f"at most {MOST_TEMPLATE_BYTES} bytes of templates together",
            found=f"{byte_count} bytes",
        )


def _template_reference(entry: ProfileEntry) -> Reference:
    return next(one for one in entry_references(entry) if one.pointer.endswith("/template"))


def _profile_findings(
    effective: EffectiveProfile, contract: Contract, pinned: PinnedDigests
) -> Iterator[ProfileFinding]:
    yield from effective.findings
    try:
        yield from entry_findings(effective, contract, pinned=pinned)
    except ProfileDocumentError as error:
        yield from error.findings


def _receipt_findings(
    contract: Contract, entries: list[ProfileEntry], receipt: Receipt | None
) -> Iterator[ProfileFinding]:
    if receipt is None:
        yield finding("IMG_FLAGS", CheckResult.NOT_TESTED, detail="not given: image receipt")
        return
    for entry in entries:
        yield from image_receipt_findings(
            receipt.value, contract=contract, profile=entry.name, document_sha256=receipt.sha256
        )
        if entry.sparkcache:
            yield from native_findings(contract, entry, receipt=receipt.value, document_sha256=receipt.sha256)
