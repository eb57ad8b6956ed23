"""The page-tail schema's own validator (evidence-model §4.1, §10): all errors, none raised.

What a gate finds by itself (answers, byte vectors, headline times) is found there; here stand the chain,
the result, the flags, and which of those errors keep the validator from passing.
"""

from collections.abc import Iterator
from itertools import pairwise

from app.core.qualify.facts import Case, DocumentFacts
from app.core.qualify.findings import Finding, Gate
from app.core.qualify.gates import ChainDelta, PageTailChain
from app.core.qualify.rules.ranks import is_bound
from app.core.qualify.rules.rule import Judged, found, rule
from app.core.qualify.values import Fact, Found, Missing

_VALIDATOR = "page-tail"


def validator_errors(facts: DocumentFacts, case: Case) -> Iterator[Finding]:
    """Every error of the schema's validator; nothing for schemas without one."""
    chain = facts.chain
    if facts.schema.validator != _VALIDATOR or chain is None:
        return
    yield from _chain(chain)
    yield from _result(chain)
    yield from _flags(chain)
    yield from _live(chain, case)


@rule(
    Gate.INTEGRITY,
    question="Does the schema's own validator accept the document?",
    needs="a chain whose bases and boundaries join, a result that is its last delta, a refused corruption, "
    "four values per rank vector, answers that agree, fallback tokens of the base",
    leaves_open="whether the run took place: it compares values inside the document",
    codes=("VALIDATOR_FAILED",),
    version=2,
)
def the_validator_accepts(judged: Judged) -> Iterator[Finding]:
    yield from validator_errors(judged.facts, judged.case)


def _chain(chain: PageTailChain) -> Iterator[Finding]:
    if not chain.deltas:
        yield _error("deltas", at="/deltas", value="none")
        return
    yield from _joins(
        chain.deltas[0], chain.base_context_digest, chain.base_committed_tokens, chain.base_snapshot_bytes
    )
    for before, delta in pairwise(chain.deltas):
        yield from _joins(delta, before.context_digest, before.committed_tokens, before.result_snapshot_bytes)
    for delta in chain.deltas:
        if not _less(delta.base_committed_tokens, delta.committed_tokens):
            yield _error("boundary-grows", delta.committed_tokens)
        for fact in (delta.manifest_schema, delta.delta_encoded_bytes, delta.result_snapshot_sha256):
            yield from _there(fact)


def _joins(delta: ChainDelta, digest: Fact[str], tokens: Fact[int], size: Fact[int]) -> Iterator[Finding]:
    for name, own, before in (
        ("base-digest", delta.base_context_digest, digest),
        ("base-tokens", delta.base_committed_tokens, tokens),
        ("base-bytes", delta.base_snapshot_bytes, size),
    ):
        if not _equal(own, before):
            yield _error(name, own)


def _result(chain: PageTailChain) -> Iterator[Finding]:
    if not chain.deltas:
        return
    last = chain.deltas[-1]
    for name, own, of_delta in (
        ("result-digest", chain.result_context_digest, last.context_digest),
        ("result-tokens", chain.result_committed_tokens, last.committed_tokens),
        ("result-stream", chain.result_snapshot_sha256, last.result_snapshot_sha256),
    ):
        if not _equal(own, of_delta):
            yield _error(name, own)


def _flags(chain: PageTailChain) -> Iterator[Finding]:
    if not isinstance(chain.lookup_reason, Found) or chain.lookup_reason.value != "corrupt":
        yield _error("lookup-reason", chain.lookup_reason)
    for fact in (chain.byte_exact_restores, chain.complete_snapshot_equal, chain.corruption_rejected):
        if not isinstance(fact, Found) or fact.value is not True:
            yield _error("flag", fact)


def _live(chain: PageTailChain, case: Case) -> Iterator[Finding]:
    if not isinstance(chain.runner, Found) or chain.runner.value != "live":
        return
    yield from _there(case.subject.target.revision)
    if not isinstance(case.fault.rejected, Found) or not case.fault.rejected.value:
        yield _error("rejected", case.fault.rejected)
    yield from _headers(chain, case)
    if not _equal(case.fault.fallback_tokens, case.fault.fallback_expected):
        yield _error("fallback-tokens", case.fault.fallback_tokens)
    yield from _vectors(case)
    fallback = (case.fault.comparison,) if case.fault.comparison is not None else ()
    for one in (*case.oracle.comparisons, *fallback):
        if not _equal(one.expected, one.observed):
            yield _error("answer", one.observed)
    for headline in case.ranks.headlines:
        if headline.blocking and not is_bound(headline, case.ranks):
            yield _error("headline", headline.value)


def _headers(chain: PageTailChain, case: Case) -> Iterator[Finding]:
    """Bytes per rank are those of the base and of the last delta; the logical size is that of the result."""
    last = chain.deltas[-1] if chain.deltas else None
    sizes = [vector for vector in case.ranks.vectors if vector.must_be_equal]
    for vector, fact in zip(
        sizes, (chain.base_snapshot_bytes, last and last.delta_encoded_bytes), strict=False
    ):
        if not isinstance(fact, Found) or any(value != fact.value for value in vector.values):
            yield _error("header-bytes", at=vector.pointer, value=str(vector.values[0]))
    if last is not None and not _equal(chain.logical_bytes, last.result_snapshot_bytes):
        yield _error("logical-bytes", chain.logical_bytes)


def _vectors(case: Case) -> Iterator[Finding]:
    tp = case.subject.topology.tp
    times = [vector for vector in case.ranks.vectors if not vector.must_be_equal]
    sizes = [vector for vector in case.ranks.vectors if vector.must_be_equal]
    if len(times) < 2 or len(sizes) < 2:
        yield _error(
            "vectors", at=case.pointer or "/live", value=f"{len(times)} of times, {len(sizes)} of bytes"
        )
    for vector in case.ranks.vectors:
        if isinstance(tp, Found) and vector.ranks != tuple(range(tp.value)):
            yield _error("vector-length", at=vector.pointer, value=str(len(vector.ranks)))


def _there(fact: Fact[str] | Fact[int] | object, *, name: str = "field") -> Iterator[Finding]:
    if isinstance(fact, Missing):
        yield _error(name, fact)


def _equal(own: Fact[str] | Fact[int], other: Fact[str] | Fact[int]) -> bool:
    return isinstance(own, Found) and isinstance(other, Found) and own.value == other.value


def _less(own: Fact[int], other: Fact[int]) -> bool:
    return isinstance(own, Found) and isinstance(other, Found) and own.value < other.value


def _error(rule_name: str, fact: object = None, *, at: str = "", value: str = "") -> Finding:
    return found("VALIDATOR_FAILED", fact, at=at, value=value, detail=rule_name)
