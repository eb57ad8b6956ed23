"""What came of checking a bundle: findings, counts, the exit code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.core.canonical_json import JsonObject
from app.core.errors import CoreError

GOOD: Final = 0
FINDINGS: Final = 1
UNREADABLE: Final = 2
SIGNER_UNKNOWN: Final = 3
MOST_FINDINGS: Final = 200
_OUTCOMES: Final = {
    GOOD: "good",
    FINDINGS: "findings",
    UNREADABLE: "unreadable",
    SIGNER_UNKNOWN: "consistent, signer not established",
}


@dataclass(slots=True, kw_only=True)
class Verification:
    """What came of it.

    Attributes:
        findings: the first of them; `finding_count` is how many there are.
        established: the signer is the one whose fingerprint was given.
    """

    findings: list[CoreError] = field(default_factory=list)
    finding_count: int = 0
    readable: bool = True
    established: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    facts: JsonObject = field(default_factory=dict)

    def report(self, finding: CoreError) -> None:
        """Take a finding."""
        self.finding_count += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    @property
    def exit_code(self) -> int:
        """0 good, 1 findings, 2 unreadable, 3 signer not established."""
        if not self.readable:
            return UNREADABLE
        if self.finding_count:
            return FINDINGS
        return GOOD if self.established else SIGNER_UNKNOWN

    @property
    def outcome(self) -> str:
        """The exit code in words."""
        return _OUTCOMES[self.exit_code]

    def to_document(self) -> JsonObject:
        """One JSON object."""
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "bundle": self.facts,
            "counts": dict(self.counts),
            "finding_count": self.finding_count,
            "findings": [
                {"subject": one.subject, "expected": one.expected, "found": one.found}
                for one in self.findings
            ],
        }
