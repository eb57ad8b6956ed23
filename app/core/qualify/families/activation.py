"""``sparkring-r33-activation-receipt/v1``: what its own rules check (profile-contract §11, §14)."""

from dataclasses import replace

from app.core.qualify.gates import Activation, ActivationRank
from app.core.qualify.reading import Place, count, degree, flag, hex64, image, name, number
from app.core.qualify.subject import Subject
from app.core.qualify.values import Basis, Fact, Found, Gap, Missing

_OBSERVED = ("observed_tp", "observed_dcp")


def activation(place: Place) -> Activation:
    """Flags, counts and rank entries of the receipt; all of them asserted, none evidenced."""
    said = Basis.ATTESTED
    return Activation(
        checks_passed=place.fact(("/checks_passed",), flag, basis=said),
        profile=place.fact(("/profile",), name, basis=said),
        contract_sha256=place.fact(("/profile_contract_sha256",), hex64),
        image=place.fact(("/image/image_id",), image),
        ranks=tuple(_rank(rank) for rank in place.places("/ranks/*")),
        correctness_passed=place.fact(("/serving/correctness_passed",), flag, basis=said),
        prefill_decode_passed=place.fact(("/serving/prefill_decode_passed",), flag, basis=said),
        kv_capacity_tokens=place.fact(("/serving/kv_capacity_tokens",), count),
        cache_enabled=place.fact(("/sparkcache/enabled",), flag, basis=said),
        captures=place.fact(("/sparkcache/capture_jobs_completed",), count, basis=said),
        restores=place.fact(("/sparkcache/restores_completed",), count, basis=said),
        recoveries=place.fact(("/sparkcache/recoveries_after_fault",), count, basis=said),
        payload_correct=place.fact(("/sparkcache/payload_correctness_passed",), flag, basis=said),
        queried_tokens=place.fact(("/prefix_reuse/queried_tokens",), count),
        cached_tokens=place.fact(("/prefix_reuse/cached_tokens",), count),
    )


def activated_subject(place: Place, subject: Subject) -> Subject:
    """The subject with TP as the number of rank entries; nothing in the published receipt binds DCP.

    In ours every rank says what its engine ran with; TP and DCP are bound where all say the same.
    """
    own = _observed(place)
    if own is not None:
        return replace(subject, topology=replace(subject.topology, tp=own[0], dcp=own[1]))
    ranks = len(tuple(place.places("/ranks/*")))
    tp = (
        Found(value=ranks, pointer="/ranks", basis=Basis.ATTESTED)
        if ranks
        else place.fact(("/ranks",), count)
    )
    return replace(subject, topology=replace(subject.topology, tp=tp))


def _observed(place: Place) -> tuple[Fact[int], Fact[int]] | None:
    """TP and DCP of all ranks; none where no rank says either."""
    ranks = tuple(place.places("/ranks/*"))
    if not any(rank.has(name) for rank in ranks for name in _OBSERVED):
        return None
    tp, dcp = (_one_for_all([rank.fact((name,), degree) for rank in ranks]) for name in _OBSERVED)
    return tp, dcp


def _one_for_all(facts: list[Fact[int]]) -> Fact[int]:
    first = facts[0]
    for one in facts:
        if isinstance(one, Missing):
            return one
        if isinstance(first, Found) and one.value != first.value:
            return Missing(gap=Gap.MALFORMED, pointer=one.pointer, found=str(one.value))
    return first


def _rank(place: Place) -> ActivationRank:
    return ActivationRank(
        pointer=place.base,
        rank=place.fact(("rank",), count),
        image=place.fact(("image_id",), image),
        allocations=place.fact(("instanttensor_allocations", "managed_b12x_allocations"), number),
        draft_tokens=place.fact(("mtp_draft_tokens",), number),
        coalesced_groups=place.fact(("continuation_coalesced_groups",), number),
        collectives=place.fact(("sircl_collectives", "rocenante_collectives"), number),
    )
