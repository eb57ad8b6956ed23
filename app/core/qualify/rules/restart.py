"""Restart gate: were processes replaced between publication and restore (evidence-model §5)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Basis, Found

_SPEAKS = frozenset((Capability.RESTORE, Capability.SERVING, Capability.CAPACITY))


@rule(
    Gate.RESTART,
    question="Was the process that stored another one than the process that restored?",
    needs="a boolean, or a block or sentence about a restart",
    leaves_open="the other kinds: process, container and host are three",
    codes=("RESTART_NOT_TESTED",),
)
def a_process_was_replaced(judged: Judged) -> Iterator[Finding]:
    if judged.capability in _SPEAKS and not restart_gate(judged).state.holds:
        yield found("RESTART_NOT_TESTED", judged.case.restart.happened)


def restart_gate(judged: Judged) -> GateResult:
    """Attested; demonstrated where every rank's own record says so."""
    restart, records = judged.case.restart, judged.case.ranks.records
    if isinstance(restart.happened, Found) and not restart.happened.value:
        return GateResult(gate=Gate.RESTART, state=GateState.NOT_TESTED, pointer=restart.happened.pointer)
    if isinstance(restart.image_unchanged, Found) and not restart.image_unchanged.value:
        return GateResult(gate=Gate.RESTART, state=GateState.FAILED, pointer=restart.image_unchanged.pointer)
    if not isinstance(restart.happened, Found):
        return GateResult(gate=Gate.RESTART, state=GateState.NOT_TESTED, says="nothing about a restart")
    new = [one.new_process for one in records if isinstance(one.new_process, Found)]
    shown = bool(new) and len(new) == len(records) and all(one.value for one in new)
    return GateResult(
        gate=Gate.RESTART,
        state=GateState.DEMONSTRATED if shown else GateState.ATTESTED,
        basis=Basis.DEMONSTRATED if shown else Basis.ATTESTED,
        pointer=restart.happened.pointer,
        says=restart.kind.value,
    )
