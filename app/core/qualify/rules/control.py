"""Control gate: is a wrong answer the restore's fault (evidence-model §5, §7.3 row 2)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.rules.semantic import comparison_findings, equal_answers, the_answer_is_right
from app.core.qualify.values import Basis, Found


@rule(
    Gate.CONTROL,
    question="With one token changed and nothing restored, does the same image answer right?",
    needs="expected and observed answer of a recomputed prompt of the same length",
    leaves_open="the restore itself",
    codes=(
        "CONTROL_PASSED",
        "CONTROL_FAILED",
        "CONTROL_MISSING",
        "CONTROL_NOT_TESTED",
        "RECOVERED_BY_RECOMPUTE",
        "SEMANTIC_CONTRADICTION",
    ),
)
def the_control_passed(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.RESTORE:
        return
    control = judged.case.control
    equal = equal_answers(control.comparison) if control.comparison is not None else None
    if control.comparison is not None and equal is not None:
        yield found("CONTROL_PASSED" if equal else "CONTROL_FAILED", control.comparison.observed)
        for one in comparison_findings(control.comparison):
            if one.code == "SEMANTIC_CONTRADICTION":
                yield one
    else:
        wrong = any(the_answer_is_right.answer(judged))
        yield found("CONTROL_MISSING" if wrong else "CONTROL_NOT_TESTED", at=judged.case.pointer)
    if isinstance(control.recomputed_count, Found) and control.recomputed_count.value > 0:
        yield found("RECOVERED_BY_RECOMPUTE", control.recomputed_count)


def control_gate(judged: Judged) -> GateResult:
    """Demonstrated by both answers."""
    one = judged.case.control.comparison
    equal = equal_answers(one) if one is not None else None
    if one is None or equal is None:
        return GateResult(gate=Gate.CONTROL, state=GateState.NOT_TESTED, says="no control prompt")
    state = GateState.DEMONSTRATED if equal else GateState.FAILED
    return GateResult(
        gate=Gate.CONTROL, state=state, basis=Basis.DEMONSTRATED if equal else None, pointer=one.pointer
    )
