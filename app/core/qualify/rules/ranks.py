"""Sets of ranks: which are there, which should be, and whether what they say is equal (evidence-model §5).

Read by the structural gate and by the validators; nothing here judges.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.core.qualify.gates import Headline, RankForm, RankProof, RankRecord
from app.core.qualify.values import Fact, Found, Missing, Number

_FINE = frozenset(("verified", "restored"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGap:
    """Ranks that are not exactly 0 … TP−1, each once."""

    pointer: str
    says: str


def rank_gaps(proof: RankProof, tp: Fact[int]) -> Iterator[RankGap]:
    """Every set of ranks in the proof that is not complete; without TP, every one with a hole or a twin."""
    wanted = tp.value if isinstance(tp, Found) else None
    for pointer, ranks in _sets(proof):
        says = _difference(ranks, wanted)
        if says:
            yield RankGap(pointer=pointer, says=says)
    unnamed = [record for record in proof.records if not isinstance(record.rank, Found)]
    for record in unnamed:
        yield RankGap(pointer=record.pointer, says="a record without a rank")
    for pointer, column in _holes(proof.records):
        yield RankGap(pointer=pointer, says=f"no {column}")
    if isinstance(proof.counted, Found) and wanted is not None and proof.counted.value != wanted:
        yield RankGap(pointer=proof.counted.pointer, says=f"{proof.counted.value} ranks of {wanted}")


def failed_ranks(records: Iterable[RankRecord]) -> Iterator[tuple[str, str]]:
    """Pointer and words of every rank that did not restore."""
    for record in records:
        if isinstance(record.outcome, Found) and record.outcome.value not in _FINE:
            yield record.outcome.pointer, record.outcome.value
        for fact in (record.restored_tokens, record.restore_count):
            if isinstance(fact, Found) and fact.value == 0:
                yield fact.pointer, "0"


def divergences(proof: RankProof) -> Iterator[tuple[str, str]]:
    """Pointer and words of every value that must be equal over the ranks and is not."""
    for name, values in _columns(proof.records):
        if len({text for _, text in values}) > 1:
            yield values[0][0], f"{name}: " + ", ".join(text for _, text in values)
    for vector in proof.vectors:
        if vector.must_be_equal and len(set(vector.values)) > 1:
            yield vector.pointer, ", ".join(str(value) for value in vector.values)


def is_bound(
    headline: Headline, proof: RankProof, others: Iterable[tuple[str, tuple[Number, ...]]] = ()
) -> bool:
    """Whether a headline value is one of its vector's; a missing value is bound to nothing."""
    if not isinstance(headline.value, Found):
        return False
    for pointer, values in (*((one.pointer, one.values) for one in proof.vectors), *others):
        if pointer == headline.vector:
            return headline.value.value in values
    return False


def is_complete(proof: RankProof, tp: Fact[int]) -> bool:
    """Whether something is said of every rank, and nothing against one."""
    said_all = proof.form not in (RankForm.NONE, RankForm.SUMMARY)
    denied = isinstance(proof.all_verified, Found) and not proof.all_verified.value
    bad = any(failed_ranks(proof.records)) or any(divergences(proof)) or any(rank_gaps(proof, tp))
    return said_all and not denied and not bad


def _sets(proof: RankProof) -> Iterator[tuple[str, tuple[int, ...]]]:
    named = [(one.pointer, one.rank.value) for one in proof.records if isinstance(one.rank, Found)]
    if named:
        yield named[0][0], tuple(rank for _, rank in named)
    for vector in proof.vectors:
        yield vector.pointer, vector.ranks
    for listed in proof.listed:
        yield listed.pointer, listed.value


def _difference(ranks: tuple[int, ...], wanted: int | None) -> str:
    counts = Counter(ranks)
    size = wanted if wanted is not None else len(counts)
    missing = [rank for rank in range(size) if rank not in counts]
    extra = sorted(rank for rank in counts if rank >= size)
    twice = sorted(rank for rank, number in counts.items() if number > 1)
    parts = (("missing", missing), ("not of the topology", extra), ("more than once", twice))
    return "; ".join(f"{says}: {', '.join(map(str, which))}" for says, which in parts if which)


def _holes(records: tuple[RankRecord, ...]) -> Iterator[tuple[str, str]]:
    """Values that other ranks record and this one does not."""
    for name, facts in (
        ("outcome", [one.outcome for one in records]),
        ("tokens", [one.restored_tokens for one in records]),
        ("bytes", [one.byte_count for one in records]),
        ("objects", [one.object_count for one in records]),
        ("context", [one.context_prefix for one in records]),
    ):
        if any(isinstance(fact, Found) for fact in facts):
            yield from ((fact.pointer, name) for fact in facts if isinstance(fact, Missing))


def _columns(records: tuple[RankRecord, ...]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    columns = (
        ("tokens", [one.restored_tokens for one in records]),
        ("bytes", [one.byte_count for one in records]),
        ("objects", [one.object_count for one in records]),
    )
    for name, facts in columns:
        yield name, [(fact.pointer, str(fact.value)) for fact in facts if isinstance(fact, Found)]
    prefixes = [one.context_prefix for one in records]
    yield "context", [(fact.pointer, fact.value[:12]) for fact in prefixes if isinstance(fact, Found)]
