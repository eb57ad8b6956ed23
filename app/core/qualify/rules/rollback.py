"""Rollback gate: is there a way back, and was it walked (evidence-model §5)?"""

from collections.abc import Iterator

from app.core.qualify.facts import Capability, StatusClass
from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.gates import Rollback
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.rules.semantic import comparison_findings, equal_answers
from app.core.qualify.schema_table import status_class
from app.core.qualify.subject import ImageRole
from app.core.qualify.values import Basis, Fact, Found


@rule(
    Gate.ROLLBACK,
    question="Does the image to go back to answer the original prompt right?",
    needs="the image put back and its answer; a named image is a name",
    leaves_open="whether that image restores again, until it did",
    codes=(
        "ROLLBACK_PASSED",
        "ROLLBACK_NAMED",
        "ROLLBACK_RECHECK_PENDING",
        "ROLLBACK_NOT_TESTED",
        "SEMANTIC_CONTRADICTION",
    ),
    version=2,
)
def the_way_back_was_walked(judged: Judged) -> Iterator[Finding]:
    if judged.capability is not Capability.RESTORE:
        return
    rollback = judged.case.rollback
    denied = tuple(_contradictions(rollback))
    yield from denied
    if not denied and rollback.comparison is not None and equal_answers(rollback.comparison):
        yield found("ROLLBACK_PASSED", rollback.comparison.observed)
        recheck = rollback.recheck
        if isinstance(recheck, Found) and status_class(recheck.value) is not StatusClass.CHECK:
            yield found("ROLLBACK_RECHECK_PENDING", recheck)
        return
    image = _named(judged)
    if isinstance(image, Found):
        yield found("ROLLBACK_NAMED", image)
    yield found("ROLLBACK_NOT_TESTED", rollback.live_tested if isinstance(image, Found) else image)


def rollback_gate(judged: Judged) -> GateResult:
    """Demonstrated by the answer, attested by a name."""
    rollback = judged.case.rollback
    equal = equal_answers(rollback.comparison) if rollback.comparison is not None else None
    image = _named(judged)
    if equal is False or any(_contradictions(rollback)):
        return GateResult(gate=Gate.ROLLBACK, state=GateState.FAILED, says="wrong answer")
    if equal:
        state, basis = GateState.DEMONSTRATED, Basis.DEMONSTRATED
        return GateResult(gate=Gate.ROLLBACK, state=state, basis=basis, says=_text(image))
    if isinstance(image, Found):
        return GateResult(
            gate=Gate.ROLLBACK,
            state=GateState.ATTESTED,
            basis=Basis.ATTESTED,
            pointer=image.pointer,
            says=f"named: {image.value}",
        )
    return GateResult(gate=Gate.ROLLBACK, state=GateState.NOT_TESTED, says="no image to go back to")


def _contradictions(rollback: Rollback) -> Iterator[Finding]:
    if rollback.comparison is not None:
        every = comparison_findings(rollback.comparison)
        yield from (one for one in every if one.code == "SEMANTIC_CONTRADICTION")


def _named(judged: Judged) -> Fact[str]:
    if isinstance(judged.case.rollback.image, Found):
        return judged.case.rollback.image
    for mention in judged.facts.lifecycle.mentions:
        if mention.role in (ImageRole.ROLLBACK, ImageRole.RETAINED):
            return mention.image
    return judged.case.rollback.image


def _text(image: Fact[str]) -> str:
    return image.value if isinstance(image, Found) else ""
