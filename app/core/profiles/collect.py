"""An activation receipt made from what the ranks left behind, and the performance record beside it
(profile-contract §11.3, §12.7, §14, §18.7).

Nothing is assumed: a field without a line that shows it is absent, and named. Values of environments are
compared and never copied.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from app.core.canonical_json import ExactValue, encode_exact
from app.core.profiles.activation import ActivationJudgement, judge_activation
from app.core.profiles.collect_ranks import Absent, Draft, RankFacts, rank_entry
from app.core.profiles.collect_requests import Request, request_facts
from app.core.profiles.collect_sources import ReadSource, Series, proofs
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import OWN_SCHEMA

PERFORMANCE_SCHEMA: Final = "sparkgate-performance-record/v1"
_CACHE_COUNTERS: Final = ("capture_jobs_completed", "restores_completed", "recoveries_after_fault")
_TIMES: Final = {
    "planned_restart_ms_per_rank": "planned_restart_ms",
    "fault_recovery_ms_per_rank": "fault_recovery_ms",
}
_MEASURED: Final = {
    "graph_capture_seconds": "s",
    "graph_capture_gib": "GiB",
    "planned_restart_ms": "ms",
    "fault_recovery_ms": "ms",
    "prefill_tokens_per_second": "tokens/s",
    "decode_tokens_per_second": "tokens/s",
}
_CONDITIONS: Final = ("clocks_pinned", "harness_revision", "cache_layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOrder:
    """What is known beside the ranks' own files.

    Attributes:
        image: the image receipt, embedded as it is.
        activity: windows of what else the hosts did; none where nobody recorded it.
        sources: files that are of no one rank.
    """

    contract: Contract
    profile: str
    image: dict[str, ExactValue]
    requests: tuple[Request, ...] = ()
    activity: list[ExactValue] | None = None
    sources: tuple[ReadSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """``receipt`` and ``record`` are bytes in canonical form; ``judgement`` is that of the receipt, which
    no release selection pins yet."""

    receipt: bytes
    record: bytes
    absent: tuple[Absent, ...]
    conflicts: tuple[ProfileFinding, ...]
    judgement: ActivationJudgement

    @property
    def complete(self) -> bool:
        """Whether nothing is absent, nothing contradicts, and no rule blocks."""
        return not self.absent and not self.conflicts and self.judgement.first is None


def collect(
    order: CollectOrder, ranks: Sequence[RankFacts], *, sources: Sequence[ReadSource] = ()
) -> Collected:
    """Make the receipt, judge it, and say in it whether its checks passed.

    Args: sources: inspections, environments and other files read of the ranks; logs say theirs themselves.

    Raises: KeyError: the contract has no such profile; that is for the caller to ask first.
    """
    entry = order.contract.profiles[order.profile]
    draft = Draft()
    document = _head(order)
    listed: list[ExactValue] = [
        rank_entry(one, index=index, entry=entry, contract=order.contract, draft=draft)
        for index, one in enumerate(ranks)
    ]
    document["ranks"] = listed
    _serving(document, ranks, order=order, draft=draft)
    _cache(document, ranks, entry=entry, draft=draft)
    _long_prefill(document, ranks, order=order, draft=draft)
    _reuse(document, order=order, draft=draft)
    _restart(document, ranks, entry=entry, draft=draft)
    if order.activity is None:
        draft.lack("/host_activity", "no record of what else the hosts did")
    else:
        document["host_activity"] = order.activity
    document["evidence"] = dict(draft.evidence)
    conflicts = tuple(_conflicts(listed, ranks, entry=entry, profiles=order.contract.profiles))
    receipt, judgement = _judged(document, order=order, conflicts=conflicts)
    read = [*order.sources, *sources, *(one for rank in ranks for one in rank.log.sources)]
    return Collected(
        receipt=receipt,
        record=encode_exact(_record(order, ranks, sources=read, absent=draft.absent)),
        absent=tuple(draft.absent),
        conflicts=conflicts,
        judgement=judgement,
    )


def _head(order: CollectOrder) -> dict[str, ExactValue]:
    return {
        "schema": OWN_SCHEMA,
        "checks_passed": True,
        "profile": order.profile,
        "profile_contract_sha256": order.contract.sha256,
        "image": order.image,
    }


def _judged(
    document: dict[str, ExactValue], *, order: CollectOrder, conflicts: tuple[ProfileFinding, ...]
) -> tuple[bytes, ActivationJudgement]:
    """The flag is what the rules say of all the rest; a receipt that fails keeps its evidence."""
    raw = encode_exact(document)
    judgement = judge_activation(raw, contract=order.contract)
    if judgement.first is None and not conflicts:
        return raw, judgement
    raw = encode_exact(document | {"checks_passed": False})
    return raw, judge_activation(raw, contract=order.contract)


def _block(document: dict[str, ExactValue], name: str) -> dict[str, ExactValue]:
    made: dict[str, ExactValue] = {}
    document[name] = made
    return made


def _serving(
    document: dict[str, ExactValue], ranks: Sequence[RankFacts], *, order: CollectOrder, draft: Draft
) -> None:
    block = _block(document, "serving")
    for name in ("max_model_len", "kv_capacity_tokens"):
        series = [rank.log.series[name] for rank in ranks if name in rank.log.series]
        values = list(dict.fromkeys(value for one in series for value in one.values))
        if not values:
            draft.lack(f"/serving/{name}", f"no line with {name}")
        elif len(values) > 1:
            draft.lack(f"/serving/{name}", f"ambiguous: {', '.join(str(one) for one in values[:8])}")
        else:
            value = values[0]
            shown = [one.first.proof for one in series]
            draft.put(
                block, "/serving", name, value if isinstance(value, int) else str(value), shown_by=shown
            )
    facts = request_facts(order.requests)
    answered = [one.proof for one in order.requests if one.completed]
    compared = [one.proof for one in facts.compared]
    for name, passed, shown in (
        ("prefill_decode_passed", facts.prefill_decode_passed, answered),
        ("correctness_passed", facts.correctness_passed, compared),
    ):
        if passed is None or not shown:
            draft.lack(f"/serving/{name}", "no request record that shows it")
        else:
            draft.put(block, "/serving", name, passed, shown_by=shown)


def _cache(
    document: dict[str, ExactValue], ranks: Sequence[RankFacts], *, entry: ProfileEntry, draft: Draft
) -> None:
    block = _block(document, "sparkcache")
    if not entry.sparkcache:
        _cache_off(block, ranks, draft=draft)
        return
    records = [_any(rank, _CACHE_COUNTERS) for rank in ranks]
    if ranks and all(one is not None for one in records):
        draft.put(block, "/sparkcache", "enabled", True, shown_by=proofs(records))
    else:
        draft.lack("/sparkcache/enabled", "no capture or restore record on every rank")
    for name in _CACHE_COUNTERS:
        series = _of_all(ranks, name)
        if series is None:
            draft.lack(f"/sparkcache/{name}", f"a line with {name} on every rank")
        else:
            counts = [one.last.value for one in series if isinstance(one.last.value, int)]
            shown = [one.last.proof for one in series]
            draft.put(block, "/sparkcache", name, min(counts), shown_by=shown)
    said = _of_all(ranks, "payload_correctness_passed")
    if said is None:
        draft.lack("/sparkcache/payload_correctness_passed", "a line that says so on every rank")
    else:
        good = all(one.values == [True] for one in said)
        draft.put(
            block,
            "/sparkcache",
            "payload_correctness_passed",
            good,
            shown_by=[one.last.proof for one in said],
        )


def _cache_off(block: dict[str, ExactValue], ranks: Sequence[RankFacts], *, draft: Draft) -> None:
    """Off is shown by the container's environment and by logs without a capture or restore (§11.3)."""
    off = [
        rank.inspection.proof
        for rank in ranks
        if rank.inspection is not None
        and rank.log.sources
        and (rank.environment or {}).get("SPARKCACHE_ENABLED") == "0"
        and _any(rank, _CACHE_COUNTERS) is None
    ]
    if ranks and len(off) == len(ranks):
        draft.put(block, "/sparkcache", "enabled", False, shown_by=off)
    else:
        draft.lack("/sparkcache/enabled", "an inspection with the cache off and a log without it, per rank")


def _long_prefill(
    document: dict[str, ExactValue], ranks: Sequence[RankFacts], *, order: CollectOrder, draft: Draft
) -> None:
    name = "long_prefill_sample_tokens"
    facts = request_facts(order.requests)
    if not facts.long:
        if order.contract.profiles[order.profile].is_tp4:
            draft.lack(f"/{name}", "no completed cold request of 32,768 tokens or more")
        return
    shown = [one.proof for one in facts.long]
    late = [rank.log.series.get("sample_tokens_timeout") for rank in ranks]
    fatal = [rank.log.series.get("fatal") for rank in ranks]
    block = _block(document, name)
    for member, value, more in (
        ("bounded", True, []),
        ("prompt_tokens", min(one.prompt_tokens for one in facts.long), []),
        ("completed_requests", len(facts.long), []),
        ("timeouts", facts.timeouts + sum(one.count for one in late if one), proofs(late)),
        ("fatal_engine_errors", facts.fatal_errors + sum(one.count for one in fatal if one), proofs(fatal)),
    ):
        draft.put(block, f"/{name}", member, value, shown_by=[*shown, *more])


def _reuse(document: dict[str, ExactValue], *, order: CollectOrder, draft: Draft) -> None:
    again = request_facts(order.requests).reused
    if again is None:
        draft.lack("/prefix_reuse", "no prompt that was asked twice")
        return
    block = _block(document, "prefix_reuse")
    for name, value in (("queried_tokens", again.prompt_tokens), ("cached_tokens", again.cached_tokens)):
        draft.put(block, "/prefix_reuse", name, value, shown_by=[again.proof])


def _restart(
    document: dict[str, ExactValue], ranks: Sequence[RankFacts], *, entry: ProfileEntry, draft: Draft
) -> None:
    if not entry.sparkcache:
        return
    made: dict[str, ExactValue] = {}
    for name, word in _TIMES.items():
        series = _of_all(ranks, word)
        if series is None:
            draft.lack(f"/restart_restore/{name}", f"a line with {word} on every rank")
            continue
        times: list[ExactValue] = [_number(one.last.value) for one in series]
        draft.put(made, "/restart_restore", name, times, shown_by=[one.last.proof for one in series])
    if made:
        document["restart_restore"] = made


def _conflicts(
    listed: Sequence[ExactValue],
    ranks: Sequence[RankFacts],
    *,
    entry: ProfileEntry,
    profiles: Container[str],
) -> Iterator[ProfileFinding]:
    """An environment that names other degrees or another profile than was observed (§5.1, §18.11)."""
    for index, (made, rank) in enumerate(zip(listed, ranks, strict=True)):
        if rank.environment is None or not isinstance(made, dict):
            continue
        for key, wanted in (
            ("TENSOR_PARALLEL_SIZE", made.get("observed_tp", entry.tensor_parallel_size)),
            ("DECODE_CONTEXT_PARALLEL_SIZE", made.get("observed_dcp", entry.decode_context_parallel_size)),
            ("SOURCE_IMAGE_PROFILE", entry.name),
        ):
            told = rank.environment.get(key)
            if told != str(wanted):
                yield finding(
                    "GUARD_DCP_NAME",
                    CheckResult.FAIL,
                    pointer=f"/ranks/{index}",
                    detail=key,
                    expected=str(wanted),
                    found=_harmless(told, profiles=profiles),
                    rank=rank.rank,
                )


def _harmless(told: str | None, *, profiles: Container[str]) -> str:
    """A small number or the name of a profile; whatever else stands there is not repeated."""
    if told is None:
        return "nothing"
    small = told.isascii() and told.isdecimal() and len(told) <= 4
    return told if small or told in profiles else "neither a small number nor a profile"


def _record(
    order: CollectOrder,
    ranks: Sequence[RankFacts],
    *,
    sources: Sequence[ReadSource],
    absent: Sequence[Absent],
) -> dict[str, ExactValue]:
    """What was measured, with every sample and the lines they stood in; conditions nobody recorded are null
    and named (§12.7, §14 G-14)."""
    measured: list[ExactValue] = [one for rank in ranks for one in _measurements(rank)]
    times = [proof.at for rank in ranks for one in rank.log.series.values() for proof in proofs([one])]
    lacking = [f"/{name}" for name in _CONDITIONS] + (
        [] if order.activity is not None else ["/host_activity"]
    )
    named: list[ExactValue] = [{"pointer": one, "reason": "not recorded"} for one in lacking]
    return {
        "schema": PERFORMANCE_SCHEMA,
        "status": "research-only",
        "profile": order.profile,
        "profile_contract_sha256": order.contract.sha256,
        "image_id": order.image.get("image_id"),
        "window": {"from": min(times, default=None), "to": max(times, default=None)},
        "host_activity": order.activity,
        **dict.fromkeys(_CONDITIONS),
        "measurements": measured,
        "sources": [one.to_object() for one in sources],
        "absent": named,
        "absent_from_receipt": [one.to_object() for one in absent],
        "lines_of_other_ranks": sum(rank.log.foreign for rank in ranks),
        "lines_too_long": sum(rank.log.too_long for rank in ranks),
    }


def _measurements(rank: RankFacts) -> Iterator[dict[str, ExactValue]]:
    for name, unit in _MEASURED.items():
        series = rank.log.series.get(name)
        if series is not None:
            yield {
                "name": name,
                "unit": unit,
                "rank": rank.rank,
                "samples": [_number(one.value) for one in series.kept],
                "samples_left_out": series.count - len(series.kept),
                "evidence": [one.proof.to_object() for one in series.kept],
            }


def _any(rank: RankFacts, names: Sequence[str]) -> Series | None:
    return next((rank.log.series[name] for name in names if name in rank.log.series), None)


def _of_all(ranks: Sequence[RankFacts], name: str) -> list[Series] | None:
    """The series of every rank; none if one lacks it."""
    series = [rank.log.series[name] for rank in ranks if name in rank.log.series]
    return series if series and len(series) == len(ranks) else None


def _number(value: object) -> int | Decimal:
    return value if isinstance(value, Decimal) or type(value) is int else 0
