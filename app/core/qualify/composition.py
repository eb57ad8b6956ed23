"""Many receipts about one scope to one verdict (evidence-model §7.5).

More passing receipts never outvote one mismatch; supersession is explicit. What was qualified for another
scope is not looked at: nothing transfers.

A scope may have any number of receipts, and not all of them are looked at. Receipts of one `saying` decide
alike: of these the first `MOST_OF_A_SAYING` by digest are taken, one more than a verdict names, and what is
left out could change nothing but a place where a finding stands or a sentence of its document.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.canonical_json import JsonValue, encode_canonical
from app.core.digest import sha256
from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Outcome, Row
from app.core.qualify.scope import ScopeKey
from app.core.qualify.values import Basis
from app.core.qualify.verdict import SEVERITY, Verdict

MOST_NAMED: Final = 100
"""So many receipts are named in one list; a scope may have any number."""
MOST_OF_A_SAYING: Final = MOST_NAMED + 1
MOST_SAYINGS: Final = 200
"""So many sayings of one scope are looked at, in the order in which they decide; rules know fewer."""
_NEGATIVE = (Outcome.UNSUPPORTED, Outcome.REJECTED)
_FIRST = (*_NEGATIVE, *(one for one in reversed(SEVERITY) if one not in _NEGATIVE))
_GRADES = (None, Basis.ATTESTED, Basis.SELF_CONSISTENT, Basis.DEMONSTRATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One receipt's verdict over one case. ``superseded_by`` is the SHA-256 of the receipt that explicitly
    replaces it: the same path, image and schema family at a later commit, or one that names it."""

    sha256: str
    verdict: Verdict
    superseded_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """The verdict about a scope. ``receipts`` are those that decided it, ``beside`` those that were looked
    at and did not, ``superseded`` those that no longer count."""

    scope: ScopeKey
    capability: Capability
    outcome: Outcome
    row: Row
    reason: str
    deployable: bool
    deployable_reason: str
    evidence_grade: Basis | None
    findings: tuple[Finding, ...]
    established: tuple[str, ...]
    not_established: tuple[str, ...]
    receipts: tuple[str, ...]
    beside: tuple[str, ...]
    superseded: tuple[str, ...]


def saying(verdict: Verdict) -> str:
    """What a verdict says but for places and values: two of one saying decide alike about their scope.

    Sayings sort as they decide: by outcome, grade and whether it is deployable, then by a digest of the row,
    the findings by name and the gates. Lower-case digits and letters only, so that every collation agrees.
    """
    outcome = _FIRST.index(verdict.outcome)
    grade = len(_GRADES) - 1 - _GRADES.index(verdict.evidence_grade)
    gates: list[JsonValue] = [
        [one.gate.value, one.state.value, one.basis.value if one.basis else None, one.needed]
        for one in verdict.gates
    ]
    names: list[JsonValue] = sorted({one.name for one in verdict.findings})  # type: ignore[assignment]
    told = encode_canonical([int(verdict.row), verdict.deployable_reason, names, gates])
    return f"{outcome}{grade}{int(not verdict.deployable)}{sha256(told)[:29]}"


def compose(
    receipts: Sequence[Receipt], *, scope: ScopeKey, capability: Capability = Capability.RESTORE
) -> Composed | None:
    """The verdict over every receipt of exactly this scope and capability; none where there is no receipt.

    Drills are left out: a fault put in on purpose says nothing about what ran.
    Any row-1 or row-2 finding that is not superseded wins; else the best qualified receipt, with all that
    is established, all that is not and all warnings; else the least severe of the rest.
    """
    ours = [one for one in receipts if one.verdict.scope == scope and one.verdict.capability is capability]
    ours = [one for one in ours if one.verdict.outcome is not Outcome.NONE and not one.verdict.is_drill]
    if not ours:
        return None
    standing = [one for one in ours if not one.superseded_by] or ours
    first = _deciding(standing)
    against = _against(standing, first)
    outcome = first.verdict.outcome
    same = [one for one in standing if one.verdict.outcome is outcome]
    return Composed(
        scope=scope,
        capability=capability,
        outcome=outcome,
        row=first.verdict.row,
        reason=first.verdict.reason,
        deployable=against == "",
        deployable_reason=against,
        evidence_grade=first.verdict.evidence_grade,
        findings=tuple(dict.fromkeys(found for one in standing for found in one.verdict.findings)),
        established=_union(one.verdict.established for one in same),
        not_established=_union(one.verdict.not_established for one in same),
        receipts=tuple(one.sha256 for one in same),
        beside=tuple(one.sha256 for one in standing if one.verdict.outcome is not outcome),
        superseded=tuple(one.sha256 for one in ours if one.superseded_by) if standing is not ours else (),
    )


def _deciding(standing: Sequence[Receipt]) -> Receipt:
    negative = [one for one in standing if one.verdict.outcome in _NEGATIVE]
    if negative:
        return min(negative, key=lambda one: SEVERITY.index(one.verdict.outcome))
    return max(
        standing,
        key=lambda one: (SEVERITY.index(one.verdict.outcome), _GRADES.index(one.verdict.evidence_grade)),
    )


def _against(standing: Sequence[Receipt], first: Receipt) -> str:
    """The first thing against deployment; empty where the deciding receipt, or one as good, has none."""
    outcome = first.verdict.outcome
    if any(one.verdict.deployable for one in standing if one.verdict.outcome is outcome):
        return ""
    return first.verdict.deployable_reason


def _union(every: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for one in every for text in one))
