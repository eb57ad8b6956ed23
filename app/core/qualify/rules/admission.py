"""Admission gate: is this very image published (evidence-model §5, §7.4)?"""

from collections.abc import Iterator

from app.core.qualify.findings import Finding, Gate, GateResult, GateState
from app.core.qualify.rules.identity import NEEDS_MODEL
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Basis, Found


@rule(
    Gate.ADMISSION,
    question="Does a registry manifest digest name this very config id?",
    needs="the two side by side, in this or another stored receipt, or of a recorded labels-only child",
    leaves_open="whether the registry still serves it",
    codes=("NO_REGISTRY_DIGEST", "NOT_PUBLISHED"),
)
def the_image_is_published(judged: Judged) -> Iterator[Finding]:
    published = judged.facts.admission.published
    if isinstance(published, Found) and published.value is False:
        yield found("NOT_PUBLISHED", published)
    if judged.capability in NEEDS_MODEL and not registry_pointer(judged):
        yield found("NO_REGISTRY_DIGEST", judged.subject.image)


def registry_pointer(judged: Judged) -> str:
    """Where a manifest digest stands beside the judged config id; empty if nowhere."""
    own = judged.subject.image
    if not isinstance(own, Found):
        return ""
    for pair in judged.facts.registry:
        if pair.image.value == own.value:
            return pair.manifest_digest.pointer
    if isinstance(judged.subject.manifest_digest, Found):
        return judged.subject.manifest_digest.pointer
    return next((f"{one.document}{one.pointer}" for one in judged.around.registry), "")


def admission_gate(judged: Judged) -> GateResult:
    """Failed where the record denies it; demonstrated by a digest; else not tested."""
    admission = judged.facts.admission
    for fact in (admission.deployable, admission.qualified):
        if isinstance(fact, Found) and not fact.value:
            return GateResult(gate=Gate.ADMISSION, state=GateState.FAILED, pointer=fact.pointer)
    pointer = registry_pointer(judged)
    if not pointer:
        return GateResult(gate=Gate.ADMISSION, state=GateState.NOT_TESTED, says="no registry digest")
    return GateResult(
        gate=Gate.ADMISSION, state=GateState.DEMONSTRATED, basis=Basis.DEMONSTRATED, pointer=pointer
    )
