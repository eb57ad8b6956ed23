"""Placement gate: were earlier writes of the device over before the first page was placed (evidence-model
§5)? No capability needs it; its state is shown."""

from app.core.qualify.findings import Gate, GateResult, GateState
from app.core.qualify.rules.rule import Judged
from app.core.qualify.values import Basis, Found


def placement_gate(judged: Judged) -> GateResult:
    """Demonstrated by a fence phase above zero on every rank; its absence in old records is not tested."""
    records = judged.case.ranks.records
    fences = [one.fence_ms for one in records if isinstance(one.fence_ms, Found)]
    if not fences:
        return GateResult(gate=Gate.PLACEMENT, state=GateState.NOT_TESTED, says="no fence phase recorded")
    pointer = fences[0].pointer
    if len(fences) < len(records) or any(one.value <= 0 for one in fences):
        return GateResult(gate=Gate.PLACEMENT, state=GateState.INCONCLUSIVE, pointer=pointer)
    return GateResult(
        gate=Gate.PLACEMENT, state=GateState.DEMONSTRATED, basis=Basis.DEMONSTRATED, pointer=pointer
    )
