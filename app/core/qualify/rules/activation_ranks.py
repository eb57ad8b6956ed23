"""The ranks of an activation receipt, as far as the document tells (profile-contract §11.2 steps 5 to 7, §14
G-3, G-8, §18.7)."""

from collections.abc import Iterator

from app.core.qualify.activation_bounds import (
    CONTEXT_DEGREES,
    DOMAINS,
    TENSOR_DEGREES,
    TP2_STEP_ROWS,
    TP4_STEP_ROWS,
)
from app.core.qualify.activation_facts import Activation, ActivationRank
from app.core.qualify.findings import Finding
from app.core.qualify.rules.rule import found
from app.core.qualify.values import Fact, Found, Missing, Number


def ranks_kept(activation: Activation, *, tp: int, dcp: int | None, own: bool) -> Iterator[Finding]:
    """Every offence of the ranks, each as ``ACT_CHECK`` with the code of §15 behind it.

    Args: tp: ranks there must be. dcp: what the profile's name says; None where it says none.
        own: the receipt is a ``sparkgate-activation/v1``.
    """
    yield from _rank_set(activation, tp=tp)
    for rank in activation.ranks:
        if own:
            yield from _degrees(rank, tp=tp, dcp=dcp)
        yield from _identity(rank, activation=activation, own=own)
        yield from _counters(rank, tp=tp)
        yield from _rows(rank, tp=tp)
    yield from _alike(activation, tp=tp)


def _rank_set(activation: Activation, *, tp: int) -> Iterator[Finding]:
    """Exactly 0 … TP-1, as integers, each once."""
    numbers = [one.rank.value for one in activation.ranks if isinstance(one.rank, Found)]
    listed = activation.rank_list
    whole = isinstance(listed, Found) and len(numbers) == listed.value
    said = ", ".join(map(str, numbers[:64])) or "none"
    if not whole or set(numbers) != set(range(tp)):
        yield found("ACT_CHECK", at="/ranks", value=said, detail="ACT_RANK_SET")
    if len(numbers) != len(set(numbers)):
        yield found("ACT_CHECK", at="/ranks", value=said, detail="ACT_RANK_DUP")


def _degrees(rank: ActivationRank, *, tp: int, dcp: int | None) -> Iterator[Finding]:
    """What the engine reports is what the name stands for, and a degree there is; an absent one leaves the
    topology unbound."""
    wanted = ((rank.observed_tp, TENSOR_DEGREES, tp), (rank.observed_dcp, CONTEXT_DEGREES, dcp))
    for fact, known, degree in wanted:
        bent = isinstance(fact, Missing) and bool(fact.found)
        if bent or (
            isinstance(fact, Found)
            and (fact.value not in known or (degree is not None and fact.value != degree))
        ):
            yield offence("GUARD_DCP_NAME", fact)


def _identity(rank: ActivationRank, *, activation: Activation, own: bool) -> Iterator[Finding]:
    if not same(rank.image, activation.image):
        yield offence("ACT_RANK_IMAGE", rank.image)
    if not same(rank.nccl_version, activation.embedded.nccl_version):
        yield offence("ACT_RANK_NCCL", rank.nccl_version)
    domains = rank.domains
    both = isinstance(domains, Found) and set(domains.value) == set(DOMAINS)
    if not both or (own and isinstance(domains, Found) and len(domains.value) != len(DOMAINS)):
        yield offence("ACT_RANK_DOMAINS", domains)


def _counters(rank: ActivationRank, *, tp: int) -> Iterator[Finding]:
    """Which loader ran is the contract's to say: one of the two counted."""
    if not any(_is_positive(one) for one in rank.loaders):
        yield offence("ACT_RANK_COUNTER", rank.allocations)
    four = tp == max(TENSOR_DEGREES)
    transport = rank.sircl if four else rank.rocenante
    for fact in (rank.draft_tokens, rank.sharded_calls, transport):
        if not _is_positive(fact):
            yield offence("ACT_RANK_COUNTER", fact)
    groups = rank.coalesced_groups
    none = not four and isinstance(groups, Found) and type(groups.value) is int and groups.value == 0
    if not none and not _is_positive(groups):
        yield offence("ACT_RANK_COUNTER", groups)


def _rows(rank: ActivationRank, *, tp: int) -> Iterator[Finding]:
    """One full step, split over the tensor-parallel group and not again over DCP (§8.1)."""
    rows = TP4_STEP_ROWS
    if tp != max(TENSOR_DEGREES):
        step = rank.prefill_rows
        if not isinstance(step, Found) or step.value not in TP2_STEP_ROWS:
            yield offence("ACT_RANK_OWNER_ROWS", step)
            return
        rows = step.value
    listed = rank.owner_rows
    if not isinstance(listed, Found) or rows // tp not in listed.value:
        yield offence("ACT_RANK_OWNER_ROWS", listed)
    elif listed.value != (rows // tp,):
        yield offence("ROWS_SPLIT", listed)


def _alike(activation: Activation, *, tp: int) -> Iterator[Finding]:
    """Graph sizes are one list of the profile, and the step of two nodes is one (§11.2 step 7)."""
    first = activation.ranks[0] if activation.ranks else None
    for rank in activation.ranks:
        graphs, sizes = rank.graphs, first.graphs if first else rank.graphs
        if not same(graphs, sizes) or (isinstance(graphs, Found) and any(one < 1 for one in graphs.value)):
            yield offence("ACT_RANK_GRAPHS", graphs)
    if tp == max(TENSOR_DEGREES) or first is None:
        return
    for rank in activation.ranks:
        step = rank.prefill_rows
        both = isinstance(step, Found) and isinstance(first.prefill_rows, Found)
        if both and not same(step, first.prefill_rows):
            yield offence("ROWS_SPLIT", step)


def _is_positive(fact: Fact[Number]) -> bool:
    return isinstance(fact, Found) and fact.value > 0


def same(one: Fact[object], other: Fact[object]) -> bool:
    """Whether both are there and equal."""
    return isinstance(one, Found) and isinstance(other, Found) and one.value == other.value


def offence(code: str, fact: Fact[object]) -> Finding:
    """A broken rule, by its code of §15, at what broke it."""
    return found("ACT_CHECK", fact, detail=code)
