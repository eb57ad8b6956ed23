"""Rules every activation receipt must keep, as far as its own bytes tell (profile-contract §11.2, §14, §16).

The judgement against a contract asks more: whether graph sizes, limit, sources and digests are the
contract's. Here a value is held to the form it must have and to the values beside it, so that the answer is
the same wherever the bytes are: on a server, at a terminal, in a bundle. Details are the codes of §15.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from app.core.qualify.activation_bounds import (
    IMAGE_RECEIPT_SCHEMA,
    LONG_PROMPT_TOKENS,
    LONG_REQUESTS,
    OWN_SCHEMA,
    PUBLISHED_POOLS,
    REFERENCE,
    REUSED_BLOCK_TOKENS,
    TENSOR_DEGREES,
    named,
    pool_window,
)
from app.core.qualify.activation_facts import Activation, EmbeddedImage
from app.core.qualify.findings import Finding, Gate
from app.core.qualify.rules.activation_ranks import offence, ranks_kept, same
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Fact, Found, Gap, Missing

# A broken list can break in every element; a person reads the first of them.
_MOST_TOLD = 64
_FIXTURE = (1, 8, 1, 1)


@rule(
    Gate.INTEGRITY,
    question="Does an activation receipt keep the rules of its profile?",
    needs="ranks each once, numbers and flags that are ones, the embedded image receipt, rows, pool and "
    "cache of the profile it names",
    leaves_open="every number in it: they are asserted, not evidenced; what only the contract says",
    codes=("NO_EVIDENCE_DIGESTS", "ACT_FIXTURE_LIKE", "ACT_CHECK", "SEMANTIC_MISSING"),
    version=2,
)
def activation_rules_hold(judged: Judged) -> Iterator[Finding]:
    activation = judged.facts.activation
    if activation is None:
        return
    if len(judged.facts.pins) <= 1:
        yield found("NO_EVIDENCE_DIGESTS", activation.contract_sha256)
    counters = [
        (one.allocations, one.draft_tokens, one.coalesced_groups, one.collectives) for one in activation.ranks
    ]
    if counters and all(_numbers(four) == _FIXTURE for four in counters):
        yield found("ACT_FIXTURE_LIKE", at=activation.ranks[0].pointer, value="1, 8, 1, 1")
    yield from islice(_broken(judged, activation), _MOST_TOLD)


def _broken(judged: Judged, activation: Activation) -> Iterator[Finding]:
    """In the order of §11.2."""
    schema = judged.facts.schema.schema
    own = isinstance(schema, Found) and schema.value == OWN_SCHEMA
    profile = activation.profile
    name = named(profile.value) if isinstance(profile, Found) else None
    tp = name.tp if name else len(activation.ranks)
    yield from _there("CT_PROFILE_UNKNOWN", profile)
    yield from _image(activation.embedded)
    if not isinstance(schema, Found) or schema.pointer != "/schema":
        yield offence("ACT_SCHEMA", schema)
    yield from _true("ACT_SCHEMA", activation.checks_passed)
    yield from _there("ACT_CONTRACT_BINDING", activation.contract_sha256)
    if tp not in TENSOR_DEGREES:
        yield offence("ACT_RANK_SET", activation.rank_list)
        return
    if own:
        yield from _own_form(activation)
    yield from ranks_kept(activation, tp=tp, dcp=name.dcp if name else None, own=own)
    yield from _serving(activation)
    bound = isinstance(judged.facts.subject.topology.dcp, Found)
    yield from _pool(activation, degrees=(name.tp, name.dcp) if name else None, bound=bound)
    if tp == max(TENSOR_DEGREES):
        yield from _long_prefill(activation)
    yield from _cache(activation, has_cache=name.has_cache if name else None)
    yield from _reuse(activation)
    yield from _restart(activation, tp=tp)


def _image(image: EmbeddedImage) -> Iterator[Finding]:
    """The image receipt, as far as it needs no contract (§9.3, §18.4)."""
    if not isinstance(image.schema, Found) or image.schema.value != IMAGE_RECEIPT_SCHEMA:
        yield offence("DOC_SCHEMA_UNKNOWN", image.schema)
    for flag in image.true_flags:
        yield from _true("IMG_FLAGS", flag)
    for flag in image.false_flags:
        if not isinstance(flag, Found) or flag.value is not False:
            yield offence("IMG_FLAGS", flag)
    yield from _there("IMG_PLATFORM", image.platform)
    yield from _there("IMG_ID_FORM", image.config_id)
    reference = image.reference
    is_id = isinstance(reference, Found) and same(reference, image.config_id)
    if not isinstance(reference, Found) or not (is_id or REFERENCE.fullmatch(reference.value)):
        yield offence("IMG_ID_FORM", reference)
    yield from _there("CT_LOCK_HASH", image.artifact_lock)
    for component in image.components:
        yield from _there("CT_RECEIPT_NAMES", component)
    yield from _there("SL_HASH", image.source_lock)
    yield from _there("IMG_NCCL", image.nccl_version)
    if not same(image.bundle, image.bundle_checked):
        yield offence("IMG_BUNDLE_BIND", image.bundle)


def _own_form(activation: Activation) -> Iterator[Finding]:
    """What only our own schema has (§18.7)."""
    for rank in activation.ranks:
        for fact in (rank.host, rank.container, rank.started_at):
            yield from _there("ACT_SCHEMA", fact)
    for every in ([one.host for one in activation.ranks], [one.container for one in activation.ranks]):
        yield from _once(every)
    yield from _there("ACT_SCHEMA", activation.activity)
    numbers = {one.rank.value for one in activation.ranks if isinstance(one.rank, Found)}
    for window in activation.windows:
        if not isinstance(window.rank, Found) or window.rank.value not in numbers:
            yield offence("ACT_SCHEMA", window.rank)
        for fact in (window.begin, window.end, window.what):
            yield from _there("ACT_SCHEMA", fact)
    yield from _there("ACT_SCHEMA", activation.evidence)
    for place in activation.evidence_places:
        yield from _there("ACT_SCHEMA", place)


def _once(facts: Sequence[Fact[str]]) -> Iterator[Finding]:
    """A rank is one container on one host (§1)."""
    seen: set[str] = set()
    for fact in facts:
        if isinstance(fact, Found) and fact.value in seen:
            yield offence("ACT_RANK_DUP", fact)
        elif isinstance(fact, Found):
            seen.add(fact.value)


def _serving(activation: Activation) -> Iterator[Finding]:
    limit = activation.max_model_len
    if not isinstance(limit, Found) or limit.value < 1:
        yield offence("ACT_SERVING", limit)
    yield from _true("ACT_SERVING", activation.prefill_decode_passed)
    yield from _true("ACT_SERVING", activation.correctness_passed)


def _pool(activation: Activation, *, degrees: tuple[int, int] | None, bound: bool) -> Iterator[Finding]:
    """Its window blocks where nothing else in the receipt binds DCP (§14 G-1): a receipt whose profile was
    relabelled to another degree has the pool of the first."""
    pool = activation.kv_capacity_tokens
    if not isinstance(pool, Found) or pool.value <= 0:
        yield offence("ACT_KV", pool)
        return
    centre = None if bound or degrees is None else PUBLISHED_POOLS.get(degrees)
    if centre is not None:
        least, most = pool_window(centre)
        if not least <= pool.value <= most:
            yield offence("KV_POOL_WINDOW", pool)


def _long_prefill(activation: Activation) -> Iterator[Finding]:
    long, code = activation.long_prefill, "ACT_LONG_PREFILL"
    yield from _true(code, long.bounded)
    for fact, least in ((long.prompt_tokens, LONG_PROMPT_TOKENS), (long.completed_requests, LONG_REQUESTS)):
        if not isinstance(fact, Found) or fact.value < least:
            yield offence(code, fact)
    for fact in (long.timeouts, long.fatal_errors):
        if not isinstance(fact, Found) or fact.value != 0:
            yield offence(code, fact)


def _cache(activation: Activation, *, has_cache: bool | None) -> Iterator[Finding]:
    """What the name promises; where it promises nothing, what the flag says. A run without the cache restored
    nothing."""
    enabled = activation.cache_enabled
    off = isinstance(enabled, Found) and not enabled.value
    if has_cache is False and not off:
        yield offence("ACT_CACHE_NOT_DISABLED", enabled)
    if off and not has_cache:
        yield found("SEMANTIC_MISSING", enabled)
    if has_cache is False or (off and not has_cache):
        return
    for number in (activation.captures, activation.restores, activation.recoveries):
        if not isinstance(number, Found) or number.value <= 0:
            yield offence("ACT_CACHE_COUNTER", number)
    yield from _true("ACT_CACHE_PAYLOAD", activation.payload_correct)
    yield from _true("ACT_CACHE_ENABLED", enabled)


def _reuse(activation: Activation) -> Iterator[Finding]:
    """Absent it is nothing against the receipt, malformed it is (§14 G-6)."""
    if _is_absent(activation.reuse):
        return
    yield from _there("ACT_EXTRA_SHAPE", activation.reuse)
    if isinstance(activation.reuse, Missing):
        return
    queried, cached = activation.queried_tokens, activation.cached_tokens
    yield from _there("ACT_EXTRA_SHAPE", queried)
    yield from _there("ACT_EXTRA_SHAPE", cached)
    if not isinstance(queried, Found) or not isinstance(cached, Found):
        return
    if cached.value > queried.value or cached.value % REUSED_BLOCK_TOKENS:
        yield offence("ACT_EXTRA_SHAPE", cached)


def _restart(activation: Activation, *, tp: int) -> Iterator[Finding]:
    if _is_absent(activation.restart):
        return
    yield from _there("ACT_EXTRA_SHAPE", activation.restart)
    if isinstance(activation.restart, Missing):
        return
    for times in (activation.restart_times, activation.recovery_times):
        if not isinstance(times, Found) or len(times.value) != tp:
            yield offence("ACT_EXTRA_SHAPE", times)


def _is_absent(fact: Fact[int]) -> bool:
    return isinstance(fact, Missing) and fact.gap is Gap.ABSENT


def _there(code: str, fact: Fact[object]) -> Iterator[Finding]:
    if isinstance(fact, Missing):
        yield offence(code, fact)


def _true(code: str, fact: Fact[bool]) -> Iterator[Finding]:
    if not isinstance(fact, Found) or not fact.value:
        yield offence(code, fact)


def _numbers(facts: tuple[Fact[object], ...]) -> tuple[object, ...]:
    return tuple(fact.value if isinstance(fact, Found) else None for fact in facts)
