"""Isolation gate: does a scope restore its own entries and nobody else's (evidence-model §5, B.1)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import RankRecord, ScopeExpectation, ScopeProbe
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Basis, Fact, Found, Missing

_EMPTY = (ScopeExpectation.NOTHING, ScopeExpectation.LAST_NOTHING)


@rule(
    Gate.ISOLATION,
    question="Did another scope restore anything?",
    needs="tokens per rank and request of a probe from another scope",
    leaves_open="scopes that were not probed",
    codes=("SCOPE_LEAK", "NEGATIVE_CONTROLS"),
    version=2,
)
def other_scopes_restore_nothing(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.ISOLATION:
        return
    leaks = [leak for probe in judged.case.isolation for leak in _leaks(probe)]
    for fact in leaks:
        yield found("SCOPE_LEAK", fact)
    empty = [probe for probe in judged.case.isolation if probe.expects in _EMPTY]
    if empty and not leaks:
        yield found("NEGATIVE_CONTROLS", at=empty[0].pointer, value=f"{len(empty)} probes")


@rule(
    Gate.ISOLATION,
    question="Did the own scope restore on every rank?",
    needs="tokens above zero on rank 0 … TP−1",
    leaves_open="the answers: isolation needs none",
    codes=("RANK_MISSING", "PARTIAL_RANK_FAILURE", "RANK_DIVERGENCE"),
    version=2,
)
def the_own_scope_restores(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.ISOLATION:
        return
    for probe in judged.case.isolation:
        if probe.expects is not ScopeExpectation.UNKNOWN:
            yield from _ranks(probe, judged.subject.topology.tp)
        if probe.expects is ScopeExpectation.EVERY_RANK:
            for fact in (*_tokens(probe), *probe.cached_tokens):
                if isinstance(fact, Found) and fact.value == 0:
                    yield found("PARTIAL_RANK_FAILURE", fact)
        values = [fact for fact in _tokens(probe) if isinstance(fact, Found)]
        if len({fact.value for fact in values}) > 1:
            yield found("RANK_DIVERGENCE", values[0], value=", ".join(str(fact.value) for fact in values))


@rule(
    Gate.ISOLATION,
    question="Were both kinds of probe made: the own scope and another one, and is each of a known kind?",
    needs="one probe of each, by the names of Appendix B.1",
    leaves_open="nothing",
    codes=("GATE_MISSING",),
    version=2,
)
def both_probes_are_there(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.ISOLATION:
        return
    for probe in judged.case.isolation:
        if probe.expects is ScopeExpectation.UNKNOWN:
            yield found("GATE_MISSING", at=probe.pointer, value=f"probe {probe.name!r}", detail="isolation")
        elif probe.expects is ScopeExpectation.LAST_NOTHING and isinstance(probe.cached_tokens[-1], Missing):
            yield found("GATE_MISSING", probe.cached_tokens[-1], detail="isolation")
    own = any(_is_positive(probe) for probe in judged.case.isolation)
    other = any(_is_negative(probe) for probe in judged.case.isolation)
    if not own or not other:
        missing = "no probe of the own scope" if not own else "no probe of another scope"
        yield found("GATE_MISSING", at=judged.case.pointer, value=missing, detail="isolation")


def isolation_gate(judged: Judged) -> GateResult:
    """Demonstrated by the totals of every rank."""
    if judged.capability is not Capability.ISOLATION:
        return GateResult(gate=Gate.ISOLATION, state=GateState.NOT_TESTED)
    codes = {
        one.code
        for each in (other_scopes_restore_nothing, the_own_scope_restores, both_probes_are_there)
        for one in each.answer(judged)
        if one.row.blocks
    }
    if "SCOPE_LEAK" in codes:
        return GateResult(gate=Gate.ISOLATION, state=GateState.FAILED)
    if codes:
        return GateResult(gate=Gate.ISOLATION, state=GateState.INCONCLUSIVE, says=", ".join(sorted(codes)))
    return GateResult(
        gate=Gate.ISOLATION,
        state=GateState.DEMONSTRATED,
        basis=Basis.DEMONSTRATED,
        pointer=judged.case.pointer,
        says=f"{len(judged.case.isolation)} probes",
    )


def _leaks(probe: ScopeProbe) -> Iterator[Fact[int]]:
    if probe.expects is ScopeExpectation.NOTHING:
        yield from (fact for fact in (*_tokens(probe), *probe.cached_tokens) if _is_above_zero(fact))
    if probe.expects is ScopeExpectation.LAST_NOTHING and probe.cached_tokens:
        last = probe.cached_tokens[-1]
        if _is_above_zero(last):
            yield last


def _ranks(probe: ScopeProbe, tp: Fact[int]) -> Iterator[Finding]:
    ranks = sorted(one.rank.value for one in probe.worker_totals if isinstance(one.rank, Found))
    wanted = list(range(tp.value)) if isinstance(tp, Found) else list(range(len(ranks)))
    whole = len(ranks) == len(probe.worker_totals)
    if (
        not whole
        or ranks != wanted
        or any(not isinstance(one.restored_tokens, Found) for one in probe.worker_totals)
    ):
        yield found("RANK_MISSING", at=probe.pointer, value=f"ranks {ranks}")


def _tokens(probe: ScopeProbe) -> tuple[Fact[int], ...]:
    return tuple(_of(one) for one in probe.worker_totals)


def _of(record: RankRecord) -> Fact[int]:
    return record.restored_tokens


def _is_positive(probe: ScopeProbe) -> bool:
    values = [fact for fact in _tokens(probe) if isinstance(fact, Found)]
    return probe.expects is ScopeExpectation.EVERY_RANK and bool(values)


def _is_negative(probe: ScopeProbe) -> bool:
    values = [fact for fact in (*_tokens(probe), *probe.cached_tokens) if isinstance(fact, Found)]
    return probe.expects in _EMPTY and bool(values)


def _is_above_zero(fact: Fact[int]) -> bool:
    return isinstance(fact, Found) and fact.value > 0
