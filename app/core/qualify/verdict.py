"""Facts and surroundings to a verdict: every rule asked, the first row with a blocking finding decides
(evidence-model §7.3, §7.4, §16).

One verdict per case and capability; what a document as a whole gets for a capability is joined from its
cases. Nothing here reads a document, a clock or a database.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.qualify.codes import CODES
from app.core.qualify.deployable import GRADES, deployable_reason
from app.core.qualify.established import established, not_established
from app.core.qualify.facts import Capability, Carrier, CarrierLevel, Case, DocumentFacts, StatusClass
from app.core.qualify.findings import Finding, Gate, GateResult, Outcome, Row
from app.core.qualify.rules.admission import admission_gate
from app.core.qualify.rules.control import control_gate
from app.core.qualify.rules.counters import counter_gates
from app.core.qualify.rules.declared import declared
from app.core.qualify.rules.fault import fault_gate
from app.core.qualify.rules.identity import identity_gate
from app.core.qualify.rules.isolation import isolation_gate
from app.core.qualify.rules.placement import placement_gate
from app.core.qualify.rules.restart import restart_gate
from app.core.qualify.rules.rollback import rollback_gate
from app.core.qualify.rules.rule import Judged, found
from app.core.qualify.rules.semantic import semantic_gate
from app.core.qualify.rules.structural import structural_gate
from app.core.qualify.rules.whole import Whole, whole_of
from app.core.qualify.ruleset import NEEDS, RULES, ruleset_version
from app.core.qualify.scope import ScopeKey, scope_of
from app.core.qualify.surroundings import ALONE, Surroundings
from app.core.qualify.values import Basis

_ROW_OUTCOME = {
    Row.NO_VERDICT: Outcome.NONE,
    Row.UNSUPPORTED: Outcome.UNSUPPORTED,
    Row.REJECTED: Outcome.REJECTED,
    Row.INCOMPLETE: Outcome.INCOMPLETE,
    Row.RESEARCH: Outcome.RESEARCH_ONLY,
    Row.QUALIFIED: Outcome.QUALIFIED,
}
_ORDER = {code: place for place, code in enumerate(CODES)}
DRILL: Final = "INJECTED_FAULT"
_RESEARCH_CEILINGS = frozenset(("PERFORMANCE_ONLY", "SCHEMA_CEILING"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the rules make of one case, or of all cases of one capability of a document.

    Attributes:
        case: name of the case; empty for the whole document.
        row: the row that decided; ``deciding`` its findings, first of them in ``reason``.
        reason: one sentence a tired operator understands.
        evidence_grade: basis of the semantic gate; none where no answer was needed or found.
        deployable_reason: code of the first thing against it; empty where it is deployable.
        ruleset: version of the rule set.
    """

    capability: Capability
    case: str
    pointer: str
    scope: ScopeKey
    outcome: Outcome
    row: Row
    reason: str
    deployable: bool
    deployable_reason: str
    evidence_grade: Basis | None
    declared: StatusClass | None
    gates: tuple[GateResult, ...]
    findings: tuple[Finding, ...]
    established: tuple[str, ...]
    not_established: tuple[str, ...]
    ruleset: str

    @property
    def is_drill(self) -> bool:
        """Whether a fault was put in on purpose: then it stands for itself and bears on no scope."""
        return any(one.code == DRILL for one in self.findings)

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings of the row that decided."""
        if self.row in (Row.DECLARED, Row.CEILING):
            return tuple(one for one in self.findings if one.row in (Row.DECLARED, Row.CEILING))
        return tuple(one for one in self.findings if one.row is self.row)


def judge_case(
    facts: DocumentFacts,
    *,
    case: Case,
    around: Surroundings = ALONE,
    deployable_grade: Basis = Basis.SELF_CONSISTENT,
    whole: Whole | None = None,
) -> Verdict:
    """The verdict over one case.

    Args: deployable_grade: the weakest grade of evidence with which anything is deployable (§16).
        whole: ``whole_of(facts)``, where many cases of one document are judged.
    """
    judged = Judged(facts=facts, case=case, around=around, whole=whole or whole_of(facts))
    claim = declared(judged)
    gates = _gates(judged)
    findings = _ordered([finding for one in RULES for finding in one(judged)])
    row, outcome = _decide(findings, claim.status, capability=case.capability)
    if row is Row.QUALIFIED:
        row, outcome, findings = _held(findings, gates, case)
    if claim.claims and outcome not in (Outcome.QUALIFIED, Outcome.NONE):
        findings = _ordered([*findings, _above(claim.claims[0])])
    grade = next((one.basis for one in gates if one.gate is Gate.SEMANTIC), None)
    against = deployable_reason(
        judged, outcome=outcome, findings=findings, grade=grade, least=deployable_grade
    )
    return Verdict(
        capability=case.capability,
        case=case.name,
        pointer=case.pointer,
        scope=scope_of(case.subject),
        outcome=outcome,
        row=row,
        reason=_reason(findings, row),
        deployable=not against,
        deployable_reason=against,
        evidence_grade=grade,
        declared=claim.status,
        gates=gates,
        findings=findings,
        established=established(judged, gates) if row >= Row.REJECTED else (),
        not_established=not_established(judged, gates),
        ruleset=ruleset_version(),
    )


def judge_document(
    facts: DocumentFacts, *, around: Surroundings = ALONE, deployable_grade: Basis = Basis.SELF_CONSISTENT
) -> tuple[Verdict, ...]:
    """The verdicts over every case of a document, in its order; a document without cases is one case."""
    only = Case(name="document", pointer="", capability=facts.schema.capability, subject=facts.subject)
    whole = whole_of(facts)
    return tuple(
        judge_case(facts, case=case, around=around, deployable_grade=deployable_grade, whole=whole)
        for case in facts.cases or (only,)
    )


def joined_verdict(verdicts: Sequence[Verdict], facts: DocumentFacts) -> Verdict:
    """What the document as a whole gets for the capability its cases were judged for.

    A mismatch in one case is one in the document. Cases that each have a word of their own (a map, or
    honestly lower selections) stand alone: the qualified ones qualify, the others are named. Under one word
    for all cases, a hole in one is a hole in the claim.
    """
    decides = _deciding_case(_spoken_for(verdicts, facts), is_map=_is_map(facts))
    findings = list(dict.fromkeys(finding for one in verdicts for finding in one.findings))
    if decides.outcome is Outcome.QUALIFIED:
        rest = [one for one in verdicts if one.outcome is not Outcome.QUALIFIED]
        if rest:
            findings.append(found("PARTLY_ESTABLISHED", at=rest[0].pointer, value=_names(rest)))
    deployable = next((one for one in verdicts if one.deployable), None) if decides.deployable else None
    return replace(
        decides,
        case="" if len(verdicts) > 1 else decides.case,
        deployable=deployable is not None,
        findings=_ordered(findings),
        established=_union(one.established for one in verdicts if one.outcome is decides.outcome),
        not_established=_union(one.not_established for one in verdicts),
    )


def by_capability(verdicts: Sequence[Verdict]) -> dict[Capability, tuple[Verdict, ...]]:
    """The verdicts of a document grouped, in the order the capabilities first occur."""
    groups: dict[Capability, tuple[Verdict, ...]] = {}
    for one in verdicts:
        groups[one.capability] = (*groups.get(one.capability, ()), one)
    return groups


SEVERITY = (
    Outcome.UNSUPPORTED,
    Outcome.REJECTED,
    Outcome.NONE,
    Outcome.INCOMPLETE,
    Outcome.RESEARCH_ONLY,
    Outcome.IMPLEMENTED,
    Outcome.QUALIFIED,
)
"""Most severe first, for joining cases and receipts (§7.5)."""


def _spoken_for(verdicts: Sequence[Verdict], facts: DocumentFacts) -> Sequence[Verdict]:
    """The cases that decide for the document: one whose own word calls it unsupported, where others are not,
    speaks for itself."""
    own = {one.pointer for one in facts.carriers if one.level is not CarrierLevel.DOCUMENT}
    others = [
        one
        for one in verdicts
        if one.outcome is not Outcome.UNSUPPORTED
        or any(each.code != "DECLARED_UNSUPPORTED" or each.pointer not in own for each in one.deciding)
    ]
    return others or verdicts


def _deciding_case(verdicts: Sequence[Verdict], *, is_map: bool) -> Verdict:
    worst_first = sorted(verdicts, key=lambda one: SEVERITY.index(one.outcome))
    if worst_first[0].outcome in (Outcome.UNSUPPORTED, Outcome.REJECTED):
        return worst_first[0]
    holes = [one for one in worst_first if one.row >= Row.INCOMPLETE and one.row < Row.QUALIFIED]
    best = _weakest(worst_first)
    if best.outcome is Outcome.QUALIFIED and holes and not is_map:
        return holes[0]
    return best


def _weakest(worst_first: Sequence[Verdict]) -> Verdict:
    """Of the best outcome the case whose answer is least known: the grade of a document is that of all its
    cases. Cases without an answer have no grade to give; of equal ones the last."""
    best = [one for one in reversed(worst_first) if one.outcome is worst_first[-1].outcome]
    answered = [(GRADES.index(one.evidence_grade), one) for one in best if one.evidence_grade is not None]
    return min(answered, key=lambda graded: graded[0])[1] if answered else best[0]


def _is_map(facts: DocumentFacts) -> bool:
    return any(carrier.level is CarrierLevel.MAP for carrier in facts.carriers)


def _gates(judged: Judged) -> tuple[GateResult, ...]:
    needed = NEEDS.get(judged.capability, ())
    every = (
        identity_gate(judged),
        structural_gate(judged),
        placement_gate(judged),
        semantic_gate(judged),
        control_gate(judged),
        rollback_gate(judged),
        restart_gate(judged),
        fault_gate(judged),
        isolation_gate(judged),
        *counter_gates(judged),
        admission_gate(judged),
    )
    return tuple(replace(one, needed=True) if one.gate in needed else one for one in every)


def _decide(
    findings: Sequence[Finding], claim: StatusClass | None, *, capability: Capability
) -> tuple[Row, Outcome]:
    rows = {one.row for one in _blocking(findings, capability)}
    row = min(rows, default=Row.QUALIFIED)
    if row in (Row.DECLARED, Row.CEILING):
        return row, _lower_class(findings, claim)
    return row, _ROW_OUTCOME[row]


def _blocking(findings: Sequence[Finding], capability: Capability) -> list[Finding]:
    """A rank that failed does not block a recovery whose content was computed again."""
    again = capability is Capability.RECOVERY and any(
        one.code == "RECOVERED_BY_RECOMPUTE" for one in findings
    )
    return [one for one in findings if one.row.blocks and not (again and one.code == "PARTIAL_RANK_FAILURE")]


def _lower_class(findings: Sequence[Finding], claim: StatusClass | None) -> Outcome:
    """Rows 3 and 4 together: the lower of the declared class and the ceiling counts."""
    codes = {one.code for one in findings}
    lower = claim is StatusClass.RESEARCH or "ADMISSION_DENIED" in codes or codes & _RESEARCH_CEILINGS
    return Outcome.RESEARCH_ONLY if lower else Outcome.IMPLEMENTED


def _held(
    findings: tuple[Finding, ...], gates: Sequence[GateResult], case: Case
) -> tuple[Row, Outcome, tuple[Finding, ...]]:
    """Row 7: every needed gate demonstrated or attested; a gate nobody spoke of is missing."""
    needed = NEEDS.get(case.capability)
    if needed is None:
        open_gates = [found("GATE_MISSING", at=case.pointer, detail=case.capability.value)]
    else:
        open_gates = [
            found(
                "GATE_MISSING", at=one.pointer or case.pointer, value=one.state.value, detail=one.gate.value
            )
            for one in gates
            if one.needed and not one.state.holds
        ]
    if open_gates:
        return Row.INCOMPLETE, Outcome.INCOMPLETE, _ordered([*findings, *open_gates])
    done = found("QUALIFIED_EXACT_SCOPE", at=case.pointer, value=case.name)
    return Row.QUALIFIED, Outcome.QUALIFIED, _ordered([*findings, done])


def _above(claim: Carrier) -> Finding:
    return found("DECLARED_ABOVE_EVIDENCE", at=claim.pointer, value=claim.word)


def _ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """By row, then in the order of the table of codes; equal ones once."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda one: (one.row, _ORDER[one.code])))


def _reason(findings: Sequence[Finding], row: Row) -> str:
    first = next((one for one in findings if one.row is row), None)
    if first is None:
        return ""
    codes = {one.code for one in findings}
    says = CODES[first.code].says
    if first.code != "SEMANTIC_ORACLE_MISMATCH":
        return says
    if DRILL in codes:
        return f"{says} A fault was put in on purpose: this shows that the check catches it."
    if "CONTROL_FAILED" in codes:
        return f"{says} Model or prompt are implicated: the control was answered wrong too."
    if "CONTROL_PASSED" in codes and "STRUCTURE_VERIFIED" in codes:
        return f"{says} The restore path is implicated: structure and control are in order."
    return f"{says} The cause is unknown: there is no control."


def _names(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(one.case or one.capability.value for one in verdicts)


def _union(every: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for one in every for text in one))
