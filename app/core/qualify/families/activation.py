"""``sparkring-r33-activation-receipt/v1`` and ``sparkgate-activation/v1``: what their rules are asked of
(profile-contract §11, §14, §18.7)."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from app.core.canonical_json import ExactValue
from app.core.qualify.activation_bounds import (
    BUNDLE_FILE,
    CONFIG_ID,
    HEX64,
    IMAGE_FALSE_FLAGS,
    IMAGE_TRUE_FLAGS,
    OWN_SCHEMA,
    PLACE_NAME,
    PROFILE_NAME,
    TIME,
)
from app.core.qualify.activation_facts import (
    Activation,
    ActivationRank,
    ActivityWindow,
    EmbeddedImage,
    LongPrefill,
)
from app.core.qualify.pointer import matches, step
from app.core.qualify.reading import Form, Place, count, degree, flag, image, name, number, taken
from app.core.qualify.subject import Subject
from app.core.qualify.values import Basis, Fact, Found, Gap, Missing, Number

_OBSERVED = ("observed_tp", "observed_dcp")
_MOST_LISTED = 1_024


def activation(place: Place) -> Activation:
    """Flags, counts and rank entries of the receipt; all of them asserted, none evidenced."""
    said = Basis.ATTESTED
    return Activation(
        checks_passed=place.fact(("/checks_passed",), flag, basis=said),
        profile=place.fact(("/profile",), _fitting(PROFILE_NAME), basis=said),
        contract_sha256=place.fact(("/profile_contract_sha256",), _fitting(HEX64)),
        image=place.fact(("/image/image_id",), image),
        embedded=_embedded(place),
        rank_list=place.fact(("/ranks",), _length),
        ranks=tuple(_rank(rank) for rank in place.places("/ranks/*")),
        max_model_len=place.fact(("/serving/max_model_len",), count, basis=said),
        correctness_passed=place.fact(("/serving/correctness_passed",), flag, basis=said),
        prefill_decode_passed=place.fact(("/serving/prefill_decode_passed",), flag, basis=said),
        kv_capacity_tokens=place.fact(("/serving/kv_capacity_tokens",), number),
        long_prefill=_long_prefill(place),
        cache_enabled=place.fact(("/sparkcache/enabled",), flag, basis=said),
        captures=place.fact(("/sparkcache/capture_jobs_completed",), number, basis=said),
        restores=place.fact(("/sparkcache/restores_completed",), number, basis=said),
        recoveries=place.fact(("/sparkcache/recoveries_after_fault",), number, basis=said),
        payload_correct=place.fact(("/sparkcache/payload_correctness_passed",), flag, basis=said),
        reuse=place.fact(("/prefix_reuse",), _members),
        queried_tokens=place.fact(("/prefix_reuse/queried_tokens",), count),
        cached_tokens=place.fact(("/prefix_reuse/cached_tokens",), count),
        restart=place.fact(("/restart_restore",), _members),
        restart_times=place.fact(("/restart_restore/planned_restart_ms_per_rank",), _times, basis=said),
        recovery_times=place.fact(("/restart_restore/fault_recovery_ms_per_rank",), _times, basis=said),
        activity=place.fact(("/host_activity",), _length),
        windows=tuple(_window(one) for one in place.places("/host_activity/*")),
        evidence=place.fact(("/evidence",), _members),
        evidence_places=tuple(_evidence_places(place)),
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
    """TP and DCP of all ranks; none where no rank says either. Fields that the published schema does not
    have bind nothing in a document of it (§14 G-1, §18.6)."""
    schema = place.fact(("/schema",), name)
    if not isinstance(schema, Found) or schema.value != OWN_SCHEMA:
        return None
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
    loaders = ("instanttensor_allocations", "managed_b12x_allocations")
    transports = ("sircl_collectives", "rocenante_collectives")
    return ActivationRank(
        pointer=place.base,
        rank=place.fact(("rank",), count),
        image=place.fact(("image_id",), image),
        nccl_version=place.fact(("nccl_version",), name),
        domains=place.fact(("nccl_host_domains",), _texts),
        graphs=place.fact(("captured_graph_sizes",), _integers),
        allocations=place.fact(loaders, number),
        loaders=tuple(place.fact((one,), number) for one in loaders),
        draft_tokens=place.fact(("mtp_draft_tokens",), number),
        sharded_calls=place.fact(("mhc_sharded_prefill_calls",), number),
        coalesced_groups=place.fact(("continuation_coalesced_groups",), number),
        collectives=place.fact(transports, number),
        sircl=place.fact(transports[:1], number),
        rocenante=place.fact(transports[1:], number),
        prefill_rows=place.fact(("mhc_prefill_rows",), count),
        owner_rows=place.fact(("mhc_owner_rows",), _integers),
        observed_tp=place.fact(("observed_tp",), degree),
        observed_dcp=place.fact(("observed_dcp",), degree),
        host=place.fact(("host_id",), _fitting(PLACE_NAME)),
        container=place.fact(("container_id",), _fitting(PLACE_NAME)),
        started_at=place.fact(("started_at",), _fitting(TIME)),
    )


def _embedded(place: Place) -> EmbeddedImage:
    hashed, checked = _fitting(HEX64), f"/image/verification/checked_files{step(BUNDLE_FILE)}"
    components = matches(place.document, "/image/component_receipts/*")
    return EmbeddedImage(
        schema=place.fact(("/image/schema",), name),
        true_flags=tuple(place.fact((f"/image/{one}",), flag) for one in IMAGE_TRUE_FLAGS),
        false_flags=tuple(
            place.fact((f"/image/{part}/{one}",), flag)
            for part, names in IMAGE_FALSE_FLAGS.items()
            for one in names
        ),
        platform=place.fact(("/image/platform",), name),
        config_id=place.fact(("/image/image_id",), _fitting(CONFIG_ID)),
        reference=place.fact(("/image/image_reference",), name),
        artifact_lock=place.fact(("/image/artifact_lock_sha256",), hashed),
        components=tuple(taken(value, hashed, pointer=at) for at, value in components),
        source_lock=place.fact(("/image/source_lock_sha256",), hashed),
        nccl_version=place.fact(("/image/nccl_version",), name),
        bundle=place.fact(("/image/bundle_manifest_sha256",), hashed),
        bundle_checked=place.fact((checked,), hashed),
    )


def _long_prefill(place: Place) -> LongPrefill:
    at, said = "/long_prefill_sample_tokens/", Basis.ATTESTED
    return LongPrefill(
        bounded=place.fact((f"{at}bounded",), flag, basis=said),
        prompt_tokens=place.fact((f"{at}prompt_tokens",), count, basis=said),
        completed_requests=place.fact((f"{at}completed_requests",), count, basis=said),
        timeouts=place.fact((f"{at}timeouts",), count, basis=said),
        fatal_errors=place.fact((f"{at}fatal_engine_errors",), count, basis=said),
    )


def _window(place: Place) -> ActivityWindow:
    return ActivityWindow(
        rank=place.fact(("rank",), count),
        begin=place.fact(("from",), _fitting(TIME)),
        end=place.fact(("to",), _fitting(TIME)),
        what=place.fact(("what",), _written),
    )


def _evidence_places(place: Place) -> Iterator[Fact[str]]:
    """One fact per key: the field it names, or that it names none or an entry is not in form."""
    whole = place.document
    block = whole.get("evidence") if isinstance(whole, dict) else None
    ranks = {
        rank.value
        for one in place.places("/ranks/*")
        if isinstance(rank := one.fact(("rank",), count), Found)
    }
    for pointer, listed in block.items() if isinstance(block, dict) else ():
        at = f"/evidence{step(pointer)}"
        good = _names_a_field(pointer, whole) and isinstance(listed, list) and bool(listed)
        good = good and isinstance(listed, list) and all(_is_entry(one, ranks=ranks) for one in listed)
        yield (
            Found(value=pointer, pointer=at)
            if good
            else Missing(gap=Gap.MALFORMED, pointer=at, found=pointer[:100])
        )


def _names_a_field(pointer: str, document: ExactValue) -> bool:
    """No name of ours holds a pattern's characters; a pointer with one fits nothing."""
    if not pointer.startswith("/") or "*" in pointer or "|" in pointer:
        return False
    return next(matches(document, pointer), None) is not None


def _is_entry(value: ExactValue, *, ranks: set[int]) -> bool:
    if not isinstance(value, dict):
        return False
    rank, digest, at = value.get("rank"), value.get("sha256"), value.get("at")
    numbered = type(rank) is int and rank in ranks
    hashed = isinstance(digest, str) and HEX64.fullmatch(digest) is not None
    return numbered and hashed and isinstance(at, str) and TIME.fullmatch(at) is not None


def _fitting(form: re.Pattern[str]) -> Form[str]:
    def read(value: ExactValue) -> str | Gap:
        if not isinstance(value, str):
            return Gap.WRONG_TYPE
        return value if form.fullmatch(value) else Gap.MALFORMED

    return read


def _written(value: ExactValue) -> str | Gap:
    """A string that is not empty."""
    if not isinstance(value, str):
        return Gap.WRONG_TYPE
    return value or Gap.MALFORMED


def _length(value: ExactValue) -> int | Gap:
    return len(value) if isinstance(value, list) else Gap.WRONG_TYPE


def _members(value: ExactValue) -> int | Gap:
    return len(value) if isinstance(value, dict) else Gap.WRONG_TYPE


def _texts(value: ExactValue) -> tuple[str, ...] | Gap:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return Gap.WRONG_TYPE
    return tuple(str(one) for one in value) if len(value) <= _MOST_LISTED else Gap.MALFORMED


def _integers(value: ExactValue) -> tuple[int, ...] | Gap:
    """Integers only: ``true`` and ``4.0`` are none."""
    if not isinstance(value, list):
        return Gap.WRONG_TYPE
    kept = tuple(one for one in value if isinstance(one, int) and not isinstance(one, bool))
    if len(kept) != len(value):
        return Gap.WRONG_TYPE
    return kept if len(value) <= _MOST_LISTED else Gap.MALFORMED


def _times(value: ExactValue) -> tuple[Number, ...] | Gap:
    """Numbers above 0 that a float can hold."""
    if not isinstance(value, list) or len(value) > _MOST_LISTED:
        return Gap.WRONG_TYPE
    read = [number(one) for one in value]
    kept = tuple(one for one in read if not isinstance(one, Gap) and one > 0 and _is_finite(one))
    return kept if len(kept) == len(value) else Gap.MALFORMED


def _is_finite(value: Number) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
