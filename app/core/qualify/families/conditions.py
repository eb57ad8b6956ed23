"""What a case says beside ranks and answer: control, rollback, restart, fault, isolation, drain,
readiness, span.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from app.core.qualify.families.answers import attestations, comparison
from app.core.qualify.families.context import Context
from app.core.qualify.families.ranks import rank_proof
from app.core.qualify.gates import (
    Control,
    Counters,
    Drill,
    Fault,
    Restart,
    RestartKind,
    Rollback,
    ScopeExpectation,
    ScopeProbe,
    Span,
)
from app.core.qualify.reading import Place, any_image, context, count, flag, hex64, name, number
from app.core.qualify.schema_table import Spec
from app.core.qualify.values import UNMAPPED, Basis, Fact, Found, Missing

# Probes, their requests and their ranks together; a run has tens of them.
_MOST_PROBED: Final = 4096


def span(place: Place, spec: Spec) -> Span:
    """What was restored."""
    return Span(
        context_digest=place.fact(spec.paths("context"), context),
        prompt_sha256=place.fact(spec.paths("prompt"), hex64),
        prompt_tokens=place.fact(spec.paths("prompt_tokens"), count),
        restored_tokens=place.fact(spec.paths("restored"), count),
        cached_tokens=place.fact(spec.paths("cached"), count),
        concurrency=place.fact(spec.paths("concurrency"), count),
    )


def control(place: Place, spec: Spec) -> Control:
    """The recomputation beside the restore."""
    return Control(
        comparison=comparison(place, spec.part("compare")),
        relationship=place.fact(spec.paths("relationship"), name),
        restored_count=place.fact(spec.paths("restored"), count),
        recomputed_count=place.fact(spec.paths("recomputed"), count),
    )


def rollback(place: Place, spec: Spec) -> Rollback:
    """The image to go back to."""
    return Rollback(
        image=place.fact(spec.paths("image"), any_image),
        recomputed=place.fact(spec.paths("recomputed"), flag, basis=Basis.ATTESTED),
        comparison=comparison(place, spec.part("compare")),
        recheck=place.fact(spec.paths("recheck"), name, basis=Basis.ATTESTED),
        live_tested=place.fact(spec.paths("live_tested"), flag, basis=Basis.ATTESTED),
    )


def restart(place: Place, spec: Spec) -> Restart:
    """Whether processes were replaced before the restore: said by a boolean, or noted by a block or
    sentence."""
    happened = place.fact(spec.paths("happened"), flag, basis=Basis.ATTESTED)
    return Restart(
        kind=RestartKind(spec.text("kind", RestartKind.UNSTATED.value)),
        happened=happened if isinstance(happened, Found) else _noted(place, spec, happened),
        image_unchanged=place.fact(spec.paths("image_unchanged"), flag, basis=Basis.ATTESTED),
    )


def fault(place: Place, spec: Spec, reader: Context) -> Fault:
    """A fault put in or met, and what came of it."""
    rejected = place.fact(spec.paths("rejected"), flag, basis=Basis.ATTESTED)
    reason = place.fact(spec.paths("reason"), name, basis=Basis.ATTESTED)
    if spec.says("reason_rejects") and isinstance(reason, Found):
        rejected = Found(value=True, pointer=reason.pointer, basis=Basis.ATTESTED)
    return Fault(
        kind=place.fact(spec.paths("kind"), name),
        rank=place.fact(spec.paths("rank"), count),
        rejected=rejected,
        reason=reason,
        recoveries=place.fact(spec.paths("recoveries"), count, basis=Basis.ATTESTED),
        recovered=place.fact(spec.paths("recovered"), flag, basis=Basis.ATTESTED),
        recovery=place.fact(spec.paths("recovery"), name, basis=Basis.ATTESTED),
        rescheduled=place.fact(spec.paths("rescheduled"), count),
        engine_error=place.fact(spec.paths("engine_error"), flag),
        fallback_tokens=place.fact(spec.paths("fallback_tokens"), count),
        fallback_expected=place.fact(spec.paths("fallback_expected"), count),
        comparison=comparison(place, spec.part("compare")),
        attested=attestations(place, spec.paths("attested"), reader),
    )


def drill(place: Place, spec: Spec) -> Drill:
    """A fault put in on purpose. Anything at its place counts as one, whether its name can be read or not."""
    return Drill(
        noted=_anything(place, spec.paths("noted")),
        fault=place.fact(spec.paths("fault"), name),
        rank=place.fact(spec.paths("rank"), count),
    )


def isolation(place: Place, spec: Spec) -> tuple[ScopeProbe, ...]:
    """The probes of an isolation run. One that would be over the bound is of no known kind, and the last: so
    much is not isolation that can be judged, and nothing that was left out can have held."""
    kept: list[ScopeProbe] = []
    held = 0
    for probe in _probes(place, spec):
        held += 1 + len(probe.cached_tokens) + len(probe.worker_totals)
        if held > _MOST_PROBED:
            over = replace(probe, expects=ScopeExpectation.UNKNOWN, cached_tokens=(), worker_totals=())
            return (*kept, over)
        kept.append(probe)
    return tuple(kept)


def counters(place: Place, spec: Spec) -> Counters:
    """Numbers that must be zero."""
    return Counters(
        zero=place.facts(spec.paths("zero"), number), observed=place.fact(spec.paths("observed"), number)
    )


def _anything(place: Place, patterns: tuple[str, ...]) -> Fact[bool]:
    for pointer, value in place.values(patterns):
        if value is not None:
            return Found(value=True, pointer=pointer)
    return UNMAPPED


def _noted(place: Place, spec: Spec, otherwise: Fact[bool]) -> Fact[bool]:
    for pointer, value in place.values(spec.paths("noted")):
        if value not in (None, "", [], {}):
            return Found(value=True, pointer=pointer, basis=Basis.ATTESTED)
    counted = place.fact(spec.paths("noted_count"), count)
    if isinstance(counted, Found):
        return Found(value=counted.value > 0, pointer=counted.pointer, basis=Basis.ATTESTED)
    missing = place.fact(spec.paths("noted"), flag)
    return missing if isinstance(missing, Missing) and spec.paths("noted") else otherwise


def _probes(place: Place, spec: Spec) -> Iterator[ScopeProbe]:
    for pattern in spec.paths("at"):
        for probe in place.places(pattern):
            called = probe.fact(spec.paths("name"), name)
            said = called.value if isinstance(called, Found) else ""
            yield ScopeProbe(
                pointer=probe.base,
                name=said,
                expects=_expectation(said),
                cached_tokens=probe.facts(spec.paths("cached"), count),
                worker_totals=rank_proof(probe, spec.part("ranks")).records,
            )


def _expectation(called: str) -> ScopeExpectation:
    """By the names of Appendix B.1; a name it does not have expects nothing that can be judged."""
    if called == "warm" or called.endswith("-warm"):
        return ScopeExpectation.EVERY_RANK
    if called in ("seed", "different", "unsalted") or called.endswith("-miss"):
        return ScopeExpectation.NOTHING
    if called in ("concurrent", "after-restart"):
        return ScopeExpectation.LAST_NOTHING
    return ScopeExpectation.UNKNOWN
