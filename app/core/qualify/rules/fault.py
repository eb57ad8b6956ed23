"""Fault gate: was a fault refused and survived (evidence-model §5)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability, Case
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import Drill, Fault
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.rules.semantic import comparison_findings, equal_answers
from app.core.qualify.values import Basis, Found

_SPEAKS = frozenset((Capability.RESTORE, Capability.RECOVERY))


@rule(
    Gate.FAULT,
    question="Was corrupt or missing content refused, and was the answer right all the same?",
    needs="a refusal, and an answer or a count of recoveries",
    leaves_open="other kinds of fault",
    codes=("FAULT_RECOVERED", "FAULT_NOT_TESTED", "CORRUPTION_NOT_REJECTED", "RECOVERED_BY_RECOMPUTE"),
)
def a_fault_was_survived(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in _SPEAKS:
        return
    for each in _cases(judged):
        rejected = each.fault.rejected
        if isinstance(rejected, Found) and not rejected.value:
            yield found("CORRUPTION_NOT_REJECTED", rejected)
    case = _with_fault(judged)
    if case is None:
        if not is_drill(judged.case):
            yield found("FAULT_NOT_TESTED", at=judged.case.pointer)
        return
    if _recovered(case.fault):
        yield found("FAULT_RECOVERED", case.fault.rejected if _known(case.fault) else case.fault.recoveries)
    if _recomputed(case):
        yield found("RECOVERED_BY_RECOMPUTE", case.fault.rescheduled)


@rule(
    Gate.FAULT,
    question="Was the answer after the fault the expected one?",
    needs="both answers",
    leaves_open="nothing",
    codes=("SEMANTIC_ORACLE_MISMATCH", "SEMANTIC_CONTRADICTION"),
)
def the_answer_after_the_fault_is_right(judged: Judged) -> Iterator[Finding]:
    if judged.capability not in _SPEAKS:
        return
    for case in _cases(judged):
        if case.fault.comparison is not None:
            yield from comparison_findings(case.fault.comparison)
        for said in case.fault.attested:
            if not said.says:
                yield found("SEMANTIC_ORACLE_MISMATCH", at=said.pointer, value=said.text)


@rule(
    Gate.FAULT,
    question="Is there a fault at all in a record about recovery?",
    needs="a refusal, a recovery or ranks that computed again",
    leaves_open="nothing",
    codes=("GATE_MISSING",),
)
def recovery_has_a_fault(judged: Judged) -> Iterator[Finding]:
    if judged.capability is Capability.RECOVERY and _with_fault(judged) is None:
        yield found("GATE_MISSING", at=judged.case.pointer, detail="fault")


@rule(
    Gate.FAULT,
    question="Was a fault put in on purpose by whoever ran this?",
    needs="a field of the record that says so",
    leaves_open="what ran: a drill shows what the checks catch and is no evidence for or against anything",
    codes=("INJECTED_FAULT",),
)
def it_is_no_drill(judged: Judged) -> Iterator[Finding]:
    drill = judged.case.drill
    if isinstance(drill.noted, Found):
        yield found("INJECTED_FAULT", drill.noted, value=_drilled(drill))


def is_drill(case: Case) -> bool:
    """Whether a fault was put in on purpose, known by name or not."""
    return isinstance(case.drill.noted, Found)


def fault_gate(judged: Judged) -> GateResult:
    """Demonstrated where the answer after the refusal is recorded, attested by flags and counts."""
    if any(one.row.blocks for one in _failures(judged)):
        return GateResult(gate=Gate.FAULT, state=GateState.FAILED)
    case = _with_fault(judged)
    if case is None:
        says = f"a drill: {_drilled(judged.case.drill)}" if is_drill(judged.case) else "no fault put in"
        return GateResult(gate=Gate.FAULT, state=GateState.NOT_TESTED, says=says)
    if not _recovered(case.fault) and not _recomputed(case):
        return GateResult(gate=Gate.FAULT, state=GateState.INCONCLUSIVE, pointer=case.pointer)
    compared = case.fault.comparison is not None and equal_answers(case.fault.comparison)
    return GateResult(
        gate=Gate.FAULT,
        state=GateState.DEMONSTRATED if compared else GateState.ATTESTED,
        basis=Basis.SELF_CONSISTENT if compared else Basis.ATTESTED,
        pointer=case.pointer,
        says=_kind(case.fault),
    )


def _failures(judged: Judged) -> Iterator[Finding]:
    yield from (one for one in a_fault_was_survived.answer(judged) if one.code == "CORRUPTION_NOT_REJECTED")
    yield from the_answer_after_the_fault_is_right.answer(judged)


def _cases(judged: Judged) -> tuple[Case, ...]:
    """A restore of a document that also records recoveries is judged with those faults in sight."""
    if judged.capability is Capability.RECOVERY:
        return (judged.case,)
    return (judged.case, *judged.whole.recoveries)


def _with_fault(judged: Judged) -> Case | None:
    return next((case for case in _cases(judged) if _known(case.fault) or _recomputed(case)), None)


def _known(fault: Fault) -> bool:
    return any(isinstance(one, Found) for one in (fault.rejected, fault.recovered, fault.recoveries))


def _recovered(fault: Fault) -> bool:
    if isinstance(fault.rejected, Found) and not fault.rejected.value:
        return False
    if fault.comparison is not None and equal_answers(fault.comparison) is False:
        return False
    counted = isinstance(fault.recoveries, Found) and fault.recoveries.value > 0
    said = isinstance(fault.recovered, Found) and fault.recovered.value
    answered = any(one.says for one in fault.attested) or bool(
        fault.comparison is not None and equal_answers(fault.comparison)
    )
    return counted or said or (isinstance(fault.rejected, Found) and answered)


def _recomputed(case: Case) -> bool:
    """Requests were rescheduled and the engine went on."""
    again = isinstance(case.fault.rescheduled, Found) and case.fault.rescheduled.value > 0
    error = isinstance(case.fault.engine_error, Found) and case.fault.engine_error.value
    return again and not error


def _drilled(drill: Drill) -> str:
    name = drill.fault.value[:120] if isinstance(drill.fault, Found) else "a fault without a name"
    return f"{name} on rank {drill.rank.value}" if isinstance(drill.rank, Found) else name


def _kind(fault: Fault) -> str:
    return fault.kind.value[:120] if isinstance(fault.kind, Found) else "kind not recorded"
