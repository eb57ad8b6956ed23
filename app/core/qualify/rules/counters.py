"""Drain and readiness gates: numbers that must be zero (evidence-model §5: capture, readiness)."""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import Counters
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Basis, Found, Missing

_GATES = {Capability.CAPTURE: Gate.DRAIN, Capability.READINESS: Gate.READINESS}


@rule(
    Gate.DRAIN,
    question="Are the counters zero after the drain, or after readiness?",
    needs="every counter recorded, and something that was observed meanwhile",
    leaves_open="what no counter counts",
    codes=("GATE_FAILED", "GATE_MISSING"),
    version=2,
)
def counters_are_zero(judged: Judged) -> Iterator[Finding]:
    gate = _GATES.get(judged.capability)
    if gate is None:
        return
    counters = _counters(judged, gate)
    for fact in counters.zero:
        if isinstance(fact, Found) and fact.value != 0:
            yield found("GATE_FAILED", fact, detail=gate.value)
        if isinstance(fact, Missing):
            yield found("GATE_MISSING", fact, detail=gate.value)
    if not counters.zero:
        yield found("GATE_MISSING", at=judged.case.pointer, value="no counter", detail=gate.value)
    if not isinstance(counters.observed, Found) or counters.observed.value <= 0:
        yield found("GATE_MISSING", counters.observed, detail=gate.value)


def counter_gates(judged: Judged) -> Iterator[GateResult]:
    """State of both; only the one the capability needs was asked for."""
    for gate in (Gate.DRAIN, Gate.READINESS):
        counters = _counters(judged, gate)
        values = [fact for fact in counters.zero if isinstance(fact, Found)]
        if not values:
            yield GateResult(gate=gate, state=GateState.NOT_TESTED)
            continue
        failed = any(fact.value != 0 for fact in values)
        holes = len(values) < len(counters.zero) or not isinstance(counters.observed, Found)
        state = GateState.FAILED if failed else GateState.INCONCLUSIVE if holes else GateState.DEMONSTRATED
        yield GateResult(
            gate=gate,
            state=state,
            basis=Basis.DEMONSTRATED if state.holds else None,
            pointer=values[0].pointer,
            says=f"{len(values)} counters",
        )


def _counters(judged: Judged, gate: Gate) -> Counters:
    return judged.case.drain if gate is Gate.DRAIN else judged.case.readiness
