"""Rules about the ranks of an activation receipt (profile-contract §11.2 steps 5 to 7, §14, §18.7)."""

from collections.abc import Iterator
from decimal import Decimal

from app.core.canonical_json import ExactValue
from app.core.errors import shown
from app.core.profiles.activation_terms import ActivationReceipt, Member, RankEntry, Terms
from app.core.profiles.budget import rows_finding
from app.core.profiles.contract import Contract
from app.core.profiles.findings import CheckResult, ProfileFinding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import DOMAINS, TP2_STEP_ROWS, TP4_STEP_ROWS


def rank_findings(
    receipt: ActivationReceipt, *, entry: ProfileEntry, contract: Contract, terms: Terms, own: bool
) -> Iterator[ProfileFinding]:
    """The set of ranks, then each rank in the order it stands, then what must be equal on all.

    Args: own: the receipt is a ``sparkgate-activation/v1``.
    """
    yield from _rank_set(receipt, entry=entry, terms=terms)
    for rank in receipt.ranks:
        yield from _identity(rank, receipt=receipt, contract=contract, terms=terms, own=own)
        yield from _graphs(rank, entry=entry, terms=terms)
        yield from _counters(rank, entry=entry, contract=contract, terms=terms)
        yield from _rows(rank, entry=entry, terms=terms)
    if not entry.is_tp4:
        yield _same_step(receipt, terms=terms)


def loader_counter(entry: ProfileEntry, contract: Contract) -> str:
    """The name of the loader's counter (§11.1)."""
    loader = entry.load_format or contract.model.load_format
    return "managed_b12x_allocations" if loader == "b12x" else "instanttensor_allocations"


def transport_counter(entry: ProfileEntry) -> str:
    """The name of the transport's counter (§11.1)."""
    return "sircl_collectives" if entry.is_tp4 else "rocenante_collectives"


def _rank_set(receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms) -> Iterator[ProfileFinding]:
    """Exactly the ranks 0 … nodes - 1; strictly each once and as an integer."""
    told = [rank.value.get("rank") for rank in receipt.ranks]
    wanted = set(range(entry.node_count))
    if terms.strict:
        numbers = [rank.number for rank in receipt.ranks]
        same = None not in numbers and set(numbers) == wanted
        twice = len(numbers) != len(set(numbers))
    else:
        numeric = [value for value in told if isinstance(value, bool | int | Decimal)]
        same, twice = len(numeric) == len(told) and set(numeric) == wanted, False
    ranks = Member(pointer="/ranks", value=told)
    expected = f"each of 0 to {entry.node_count - 1}"
    yield terms.say("ACT_RANK_SET", same, ranks, expected=expected)
    if terms.strict:
        yield terms.say("ACT_RANK_DUP", not twice, ranks, expected="every rank once")


def _identity(
    rank: RankEntry, *, receipt: ActivationReceipt, contract: Contract, terms: Terms, own: bool
) -> Iterator[ProfileFinding]:
    image = receipt.member("image", "image_id").value
    member = rank.member("image_id")
    same = isinstance(image, str) and member.value == image
    yield terms.say("ACT_RANK_IMAGE", same, member, expected=image, rank=rank.number)
    member, wanted = rank.member("nccl_version"), contract.image.required_nccl_version
    yield terms.say("ACT_RANK_NCCL", member.value == wanted, member, expected=wanted, rank=rank.number)
    member = rank.member("nccl_host_domains")
    both = _are_both_domains(member.value, exactly=own and terms.strict)
    yield terms.say("ACT_RANK_DOMAINS", both, member, expected=" and ".join(DOMAINS), rank=rank.number)


def _are_both_domains(value: ExactValue, *, exactly: bool) -> bool:
    """Both names and no third; ``exactly`` also no name twice (§18.7)."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return False
    return {str(one) for one in value} == set(DOMAINS) and (not exactly or len(value) == len(DOMAINS))


def _graphs(rank: RankEntry, *, entry: ProfileEntry, terms: Terms) -> Iterator[ProfileFinding]:
    member = rank.member("captured_graph_sizes")
    wanted: list[ExactValue] = list(entry.cudagraph_capture_sizes)
    same = terms.equal(member.value, wanted)
    yield terms.say("ACT_RANK_GRAPHS", same, member, expected=wanted, rank=rank.number)


def _counters(
    rank: RankEntry, *, entry: ProfileEntry, contract: Contract, terms: Terms
) -> Iterator[ProfileFinding]:
    names = [loader_counter(entry, contract), "mtp_draft_tokens", "mhc_sharded_prefill_calls"]
    for name in (*names, transport_counter(entry)):
        member = rank.member(name)
        good = terms.positive(member.value)
        yield terms.say("ACT_RANK_COUNTER", good, member, expected="a number above 0", rank=rank.number)
    member = rank.member("continuation_coalesced_groups")
    if entry.is_tp4 or entry.continuation_coalescing:
        good, expected = terms.positive(member.value), "a number above 0"
    else:
        good, expected = terms.equal(member.value, 0), "0: this profile does not coalesce"
    yield terms.say("ACT_RANK_COUNTER", good, member, expected=expected, rank=rank.number)


def _rows(rank: RankEntry, *, entry: ProfileEntry, terms: Terms) -> Iterator[ProfileFinding]:
    """Membership as published; where it holds, strictly the exact split (§8.1)."""
    rows = TP4_STEP_ROWS
    if not entry.is_tp4:
        step = rank.member("mhc_prefill_rows")
        known = [size for size in TP2_STEP_ROWS if terms.equal(step.value, size)]
        expected = " or ".join(str(one) for one in TP2_STEP_ROWS)
        yield terms.say("ACT_RANK_OWNER_ROWS", bool(known), step, expected=expected, rank=rank.number)
        if not known:
            return
        rows = known[0]
    member = rank.member("mhc_owner_rows")
    owner = rows // entry.tensor_parallel_size
    listed = member.value if isinstance(member.value, list) else []
    holds = any(terms.equal(one, owner) for one in listed)
    expected = f"a list with {owner}: {rows} rows over TP {entry.tensor_parallel_size}"
    yield terms.say("ACT_RANK_OWNER_ROWS", holds, member, expected=expected, rank=rank.number)
    if holds and terms.strict:
        yield rows_finding(
            member.value,
            rows=rows,
            tensor_parallel_size=entry.tensor_parallel_size,
            pointer=member.pointer,
            rank=rank.number,
        )


def _same_step(receipt: ActivationReceipt, *, terms: Terms) -> ProfileFinding:
    """One ceiling of rows on all ranks (§11.2 step 7)."""
    steps = [rank.member("mhc_prefill_rows").value for rank in receipt.ranks]
    same = all(terms.equal(one, steps[0]) for one in steps)
    if not steps:
        return terms.without("ROWS_SPLIT", CheckResult.NOT_TESTED, detail="ranks", pointer="/ranks")
    member = Member(pointer="/ranks", value=shown(steps))
    return terms.say("ROWS_SPLIT", same, member, expected="the same mhc_prefill_rows on every rank")
