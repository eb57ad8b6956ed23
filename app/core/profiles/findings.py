"""What a check of a profile document says: code, result, severity and the place (profile-contract §15).

What a code means stands in ``codes.py`` and nowhere else; a finding may carry another severity than its
code's usual one only where §15 or §18.5 says so (``ACT_EXTRA_SHAPE``, ``ACT_DCP_UNBOUND``,
``KV_POOL_WINDOW``, ``SL_FILE_DRIFT``).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.errors import shown
from app.core.profiles.codes import CODES, Severity


class CheckResult(StrEnum):
    """What came of one check (§15)."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    NOT_TESTED = "not_tested"
    """Something the check needs is not there; ``detail`` names it (§18.14)."""
    INDETERMINATE = "indeterminate"
    """Everything is there and the rules still give no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFinding:
    """One check of one thing.

    Attributes:
        code: a name of ``CODES``.
        pointer: JSON pointer in the judged document; for a template or an environment ``/KEY``; for a file
            its relative path.
        detail: one sentence or a missing name, for people.
        expected, found: bounded text; never the value of a secret.
        rank: the rank it is about, if it is about one.
        document_sha256: the document the pointer belongs to.
        reason: the kind of drift of ``SL_FILE_DRIFT`` (§18.3), else empty.
    """

    code: str
    result: CheckResult
    severity: Severity
    pointer: str = ""
    detail: str = ""
    expected: str = ""
    found: str = ""
    rank: int | None = None
    document_sha256: Digest | None = None
    reason: str = ""

    @property
    def blocks(self) -> bool:
        """Whether this finding alone keeps the judged thing from being used."""
        return self.result is CheckResult.FAIL and self.severity is Severity.BLOCKS


def finding(
    code: str,
    result: CheckResult,
    *,
    severity: Severity | None = None,
    pointer: str = "",
    detail: str = "",
    expected: object = "",
    found: object = "",
    rank: int | None = None,
    document_sha256: Digest | None = None,
    reason: str = "",
) -> ProfileFinding:
    """A finding with the usual severity of its code; values that are no text are shown bounded.

    Raises: KeyError: the code is not in the table; that is a fault of the caller.
    """
    return ProfileFinding(
        code=code,
        result=result,
        severity=severity or CODES[code].severity,
        pointer=pointer,
        detail=detail,
        expected=_text(expected),
        found=_text(found),
        rank=rank,
        document_sha256=document_sha256,
        reason=reason,
    )


def blocking(findings: Iterable[ProfileFinding]) -> tuple[ProfileFinding, ...]:
    """Those that block, in their order; the first is the one to name."""
    return tuple(found for found in findings if found.blocks)


def overall(findings: Iterable[ProfileFinding]) -> CheckResult:
    """One word for many findings.

    Fail if one blocks; else indeterminate if a blocking check had no answer; else pass if any check passed;
    else not tested. Warnings never fail, and a check that could not be made is no failure: it stays in
    the list.
    """
    taken = tuple(findings)
    if blocking(taken):
        return CheckResult.FAIL
    unanswered = (f.result is CheckResult.INDETERMINATE and f.severity is Severity.BLOCKS for f in taken)
    if any(unanswered):
        return CheckResult.INDETERMINATE
    passed = any(found.result is CheckResult.PASS for found in taken)
    return CheckResult.PASS if passed else CheckResult.NOT_TESTED


def finding_object(found: ProfileFinding) -> JsonObject:
    """A finding as JSON, every member always there."""
    return {
        "code": found.code,
        "result": found.result.value,
        "severity": found.severity.value,
        "pointer": found.pointer,
        "detail": found.detail,
        "expected": found.expected,
        "found": found.found,
        "rank": found.rank,
        "document_sha256": found.document_sha256,
        "reason": found.reason,
    }


def _text(value: object) -> str:
    """Text as it is if it is short, anything else shown bounded."""
    return value if isinstance(value, str) and len(value) <= 200 else shown(value)
