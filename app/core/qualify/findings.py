"""Outcomes, gates and findings: the words a verdict is made of (evidence-model §5, §7.3).

A finding is a stable code with the place it was read from. What a code does to the outcome is its row in
``codes.py`` and nowhere else.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from app.core.errors import shown
from app.core.qualify.values import Basis, Found, Missing


class Outcome(StrEnum):
    """What the rules make of one case (§7.3). No scale: implemented is not a lower qualified."""

    QUALIFIED = "qualified"
    REJECTED = "rejected"
    RESEARCH_ONLY = "research-only"
    IMPLEMENTED = "implemented"
    UNSUPPORTED = "unsupported"
    INCOMPLETE = "incomplete"
    NONE = "none"
    """Carries no verdict: no receipt, or of a kind that is none (§3, last row)."""


class Row(IntEnum):
    """Row of the table of §7.3; the first with a blocking finding decides. From ``SUPPORT`` on nothing
    blocks."""

    NO_VERDICT = 0
    UNSUPPORTED = 1
    REJECTED = 2
    DECLARED = 3
    CEILING = 4
    INCOMPLETE = 5
    RESEARCH = 6
    QUALIFIED = 7
    SUPPORT = 8
    WARNING = 9
    NOTE = 10

    @property
    def blocks(self) -> bool:
        """Whether a finding of this row keeps a case from being qualified."""
        return self < Row.QUALIFIED


class Gate(StrEnum):
    """The gates of §5, and what stands beside them."""

    IDENTITY = "identity"
    STRUCTURAL = "structural"
    PLACEMENT = "placement"
    SEMANTIC = "semantic"
    CONTROL = "control"
    ROLLBACK = "rollback"
    RESTART = "restart"
    FAULT = "fault"
    ISOLATION = "isolation"
    DRAIN = "drain"
    READINESS = "readiness"
    ADMISSION = "admission"
    DECLARED = "declared"
    """What the document says of itself (§2.3)."""
    KIND = "kind"
    """What its kind can carry at most (§3)."""
    LIFECYCLE = "lifecycle"
    """What other documents say of it (§7.5, §8)."""
    INTEGRITY = "integrity"
    """Digests inside and between documents (§7.2)."""


class GateState(StrEnum):
    """State of one gate, judged alone (§5)."""

    DEMONSTRATED = "demonstrated"
    ATTESTED = "attested"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_TESTED = "not tested"
    NOT_APPLICABLE = "not applicable"

    @property
    def holds(self) -> bool:
        """Whether a capability that needs the gate may be qualified."""
        return self in (GateState.DEMONSTRATED, GateState.ATTESTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """State and basis of one gate of one case; ``says`` is one sentence for people."""

    gate: Gate
    state: GateState
    basis: Basis | None = None
    pointer: str = ""
    says: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a rule found.

    Attributes:
        code: stable; ``detail`` is the part after the colon (``IDENTITY_INCOMPLETE:image``).
        pointer: JSON pointer in the judged document, or in ``document`` if that is set.
        value: what stood there, as bounded text.
        document: SHA-256 of another document the finding was read from; empty for the judged one.
        rule: name of the rule that found it.
    """

    code: str
    row: Row
    gate: Gate
    detail: str = ""
    pointer: str = ""
    value: str = ""
    document: str = ""
    rule: str = ""

    @property
    def name(self) -> str:
        """The code as it is written everywhere."""
        return f"{self.code}:{self.detail}" if self.detail else self.code


def said(fact: object) -> tuple[str, str]:
    """Pointer and bounded text of a fact, whether there is a value or a gap."""
    if isinstance(fact, Found):
        return fact.pointer, fact.value if isinstance(fact.value, str) else shown(fact.value)
    if isinstance(fact, Missing):
        return fact.pointer, fact.found or fact.gap.value
    return "", shown(fact)
