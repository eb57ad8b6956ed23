"""Digests inside a document and between documents (evidence-model §7.2, §11)."""

from collections.abc import Iterator

from app.core.qualify.facts import Capability
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


@rule(
    Gate.INTEGRITY,
    question="Does an activation receipt keep its own rules?",
    needs="its flags and counts",
    leaves_open="every number in it: they are asserted, not evidenced",
    codes=("NO_EVIDENCE_DIGESTS", "ACT_FIXTURE_LIKE", "ACT_CHECK"),
)
def activation_rules_hold(judged: Judged) -> Iterator[Finding]:
    activation = judged.facts.activation
    if activation is None or judged.capability is not Capability.RESTORE:
        return
    if len(judged.facts.pins) <= 1:
        yield found("NO_EVIDENCE_DIGESTS", activation.contract_sha256)
    counters = [
        (one.allocations, one.draft_tokens, one.coalesced_groups, one.collectives) for one in activation.ranks
    ]
    if counters and all(_numbers(four) == _FIXTURE for four in counters):
        yield found("ACT_FIXTURE_LIKE", at=activation.ranks[0].pointer, value="1, 8, 1, 1")
    for name, flag in (
        ("checks", activation.checks_passed),
        ("serving", activation.correctness_passed),
        ("serving", activation.prefill_decode_passed),
        ("cache-payload", activation.payload_correct),
        ("cache-enabled", activation.cache_enabled),
    ):
        if not isinstance(flag, Found) or not flag.value:
            yield found("ACT_CHECK", flag, detail=name)
    for name, number in (
        ("kv", activation.kv_capacity_tokens),
        ("cache-counter", activation.captures),
        ("cache-counter", activation.restores),
        ("cache-counter", activation.recoveries),
    ):
        if not isinstance(number, Found) or number.value <= 0:
            yield found("ACT_CHECK", number, detail=name)
    for rank in activation.ranks:
        if not _equal(rank.image, activation.image):
            yield found("ACT_CHECK", rank.image, detail="rank-image")


_FIXTURE = (1, 8, 1, 1)


def _numbers(facts: tuple[Fact[object], ...]) -> tuple[object, ...]:
    return tuple(fact.value if isinstance(fact, Found) else None for fact in facts)


def _equal(one: Fact[str], other: Fact[str]) -> bool:
    return isinstance(one, Found) and isinstance(other, Found) and one.value == other.value
