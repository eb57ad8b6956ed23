"""Digests inside a document and between documents (evidence-model §7.2, §11)."""

from collections.abc import Iterator

from app.core.qualify.findings import Finding, Gate
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.surroundings import PinState
from app.core.qualify.values import Fact, Found, Missing

_CODES = {
    PinState.DIFFERS_SAME_COMMIT: "PIN_MISMATCH",
    PinState.DIFFERS_OTHER_COMMIT: "PIN_OTHER_COMMIT",
    PinState.ABSENT: "PIN_TARGET_ABSENT",
}


@rule(
    Gate.INTEGRITY,
    question="Does every embedded digest cover its part?",
    needs="the canonical form of the part, hashed anew",
    leaves_open="whether the part is true",
    codes=("PAYLOAD_DIGEST_MISMATCH",),
)
def payload_digests_hold(judged: Judged) -> Iterator[Finding]:
    for payload in judged.facts.payloads:
        if isinstance(payload.declared, Missing) and isinstance(payload.computed, Missing):
            continue
        if not _equal(payload.declared, payload.computed):
            yield found("PAYLOAD_DIGEST_MISMATCH", payload.declared)


@rule(
    Gate.INTEGRITY,
    question="Are the documents pinned by this one the stored ones?",
    needs="the pinned documents, compared within one commit",
    leaves_open="pinned files that are not stored",
    codes=("PIN_MISMATCH", "PIN_OTHER_COMMIT", "PIN_TARGET_ABSENT"),
)
def pins_hold(judged: Judged) -> Iterator[Finding]:
    for check in judged.around.pins:
        code = _CODES.get(check.state)
        if code is not None:
            yield found(code, at=check.pointer, value=check.found or check.state.value)


def _equal(one: Fact[str], other: Fact[str]) -> bool:
    return isinstance(one, Found) and isinstance(other, Found) and one.value == other.value
