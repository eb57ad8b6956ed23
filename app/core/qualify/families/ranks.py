"""What a case says per rank: records, vectors, lists, summaries, booleans (Appendix B, rank column)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice

from app.core.canonical_json import ExactValue
from app.core.qualify.document import canonical_digest
from app.core.qualify.gates import EmbeddedDigest, Headline, RankForm, RankProof, RankRecord, RankVector
from app.core.qualify.pointer import last_step
from app.core.qualify.reading import Place, context, count, flag, found_only, hex64, name, number
from app.core.qualify.schema_table import Spec
from app.core.qualify.values import Basis, Fact, Found, Gap, Missing, Number

_RANK_NAME = re.compile(r"(?:rank_)?([0-9]{1,4})")
_MOST_RANKS = 1024
_MS_OF_NS = Decimal("0.000001")


def rank_proof(place: Place, spec: Spec) -> RankProof:
    """Everything the case's spec maps about its ranks."""
    records = tuple(islice(_records(place, spec.part("records")), _MOST_RANKS + 1))
    vectors = tuple(_vectors(place, spec))
    listed = found_only(place.facts(spec.paths("listed"), _rank_list))
    summaries = tuple(
        pointer for pointer, value in place.values(spec.paths("summaries")) if value is not None
    )
    verified = place.fact(spec.paths("all_verified"), flag, basis=Basis.ATTESTED)
    counted = place.fact(spec.paths("counted"), count, basis=Basis.ATTESTED)
    if isinstance(verified, Found) and verified.value and spec.text("verified_ranks"):
        named = int(spec.text("verified_ranks"))
        counted = Found(value=named, pointer=verified.pointer, basis=Basis.ATTESTED)
    proof = RankProof(
        records=records,
        vectors=vectors,
        listed=listed,
        summaries=summaries,
        counted=counted,
        all_verified=verified,
        headlines=tuple(_headlines(place, spec)),
    )
    return replace(proof, form=_form(proof))


def rank_of(place: Place, spec: Spec) -> Fact[int]:
    """The rank of a record: its own field, or the name or index it stands under."""
    if spec.paths("rank"):
        return place.fact(spec.paths("rank"), count)
    written = _RANK_NAME.fullmatch(last_step(place.base))
    if written is None:
        return Missing(gap=Gap.MALFORMED, pointer=place.base, found=last_step(place.base))
    return Found(value=int(written[1]), pointer=place.base)


def rank_numbers(value: ExactValue) -> tuple[tuple[int, ...], tuple[Number, ...]] | None:
    """Ranks and values of a list or rank map of numbers; none where it is neither.

    An element that is no number leaves its rank out. A map of ranges has ranks and no values.
    """
    if isinstance(value, list):
        named: list[tuple[int, ExactValue]] = list(enumerate(value))
    elif isinstance(value, dict) and value and all(_RANK_NAME.fullmatch(rank) for rank in value):
        named = [(int(rank.removeprefix("rank_")), element) for rank, element in value.items()]
    else:
        return None
    if not named or len(named) > _MOST_RANKS:
        return None
    numbers = [
        (rank, one)
        for rank, one in ((rank, number(element)) for rank, element in named)
        if not isinstance(one, Gap)
    ]
    if numbers:
        return tuple(rank for rank, _ in numbers), tuple(one for _, one in numbers)
    if all(isinstance(element, dict) for _, element in named):
        return tuple(rank for rank, _ in named), ()
    return None


def _records(place: Place, spec: Spec) -> Iterator[RankRecord]:
    for pattern in spec.paths("at"):
        for one in place.places(pattern):
            yield RankRecord(
                pointer=one.base,
                rank=rank_of(one, spec),
                outcome=one.fact(spec.paths("outcome"), name),
                restored_tokens=one.fact(spec.paths("tokens"), count),
                byte_count=one.fact(spec.paths("bytes"), count),
                object_count=one.fact(spec.paths("objects"), count),
                restore_count=one.fact(spec.paths("restores"), count),
                context_prefix=one.fact(spec.paths("context"), context),
                new_process=one.fact(spec.paths("new_process"), flag),
                fence_ms=_fence(one, spec),
                payload=_payload(one, spec),
            )


def _fence(place: Place, spec: Spec) -> Fact[Number]:
    """How long the fence was waited for, in ms; a record may keep it in ns."""
    if spec.paths("fence_ns"):
        return place.fact(spec.paths("fence_ns"), _from_ns)
    return place.fact(spec.paths("fence"), number)


def _from_ns(value: ExactValue) -> Number | Gap:
    taken = count(value)
    return taken if isinstance(taken, Gap) else taken * _MS_OF_NS


def _payload(place: Place, spec: Spec) -> EmbeddedDigest | None:
    if not spec.paths("payload"):
        return None
    declared = place.fact(spec.paths("payload_sha256"), hex64)
    for pointer, value in place.values(spec.paths("payload")):
        return EmbeddedDigest(
            declared=declared, computed=Found(value=canonical_digest(value), pointer=pointer)
        )
    return EmbeddedDigest(
        declared=declared, computed=Missing(gap=Gap.ABSENT, pointer=place.at(spec.paths("payload")[0]))
    )


def _vectors(place: Place, spec: Spec) -> Iterator[RankVector]:
    for key, equal in (("vectors", False), ("equal_vectors", True)):
        for pointer, value in place.values(spec.paths(key)):
            taken = rank_numbers(value)
            if taken is not None:
                yield RankVector(pointer=pointer, ranks=taken[0], values=taken[1], must_be_equal=equal)


def _headlines(place: Place, spec: Spec) -> Iterator[Headline]:
    for part in spec.parts("headlines"):
        values: tuple[Fact[Number], ...] = place.facts(part.paths("value"), number)
        for fact in values:
            yield Headline(value=fact, vector=place.at(part.text("vector")), blocking=part.says("blocking"))


def _rank_list(value: ExactValue) -> tuple[int, ...] | Gap:
    if not isinstance(value, list):
        return Gap.WRONG_TYPE
    ranks = [rank for rank in (count(element) for element in value) if not isinstance(rank, Gap)]
    return tuple(ranks) if ranks and len(ranks) == len(value) <= _MOST_RANKS else Gap.MALFORMED


def _says_anything(record: RankRecord) -> bool:
    """Whether a record says more than which rank it is of."""
    said = (
        record.byte_count,
        record.object_count,
        record.restore_count,
        record.context_prefix,
        record.new_process,
        record.fence_ms,
    )
    return any(isinstance(fact, Found) for fact in said)


def _form(proof: RankProof) -> RankForm:
    if any(
        isinstance(record.outcome, Found) or isinstance(record.restored_tokens, Found)
        for record in proof.records
    ):
        return RankForm.RECORDS
    if any(map(_says_anything, proof.records)) or any(not vector.must_be_equal for vector in proof.vectors):
        return RankForm.VECTOR
    if proof.listed:
        return RankForm.LIST
    if proof.summaries:
        return RankForm.SUMMARY
    said = isinstance(proof.all_verified, Found) or isinstance(proof.counted, Found)
    return RankForm.ATTESTED if said else RankForm.NONE
