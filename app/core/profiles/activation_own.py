"""What ``sparkgate-activation/v1`` adds: observed degrees, host, container and start per rank, evidence for
every field, and what else the hosts did (profile-contract §14 G-1, G-7, G-14, G-15, §18.7).
"""

import re
from collections.abc import Iterator
from typing import Final

from app.core.canonical_json import ExactValue
from app.core.profiles.activation_terms import ActivationReceipt, Member, RankEntry, Terms, leaves
from app.core.profiles.findings import ProfileFinding
from app.core.profiles.profile_entry import ProfileEntry
from app.core.qualify.activation_bounds import HEX64, OWN_SCHEMA, PLACE_NAME, TIME
from app.core.qualify.pointer import matches, step

EVIDENCED: Final = (
    "ranks",
    "serving",
    "sparkcache",
    "long_prefill_sample_tokens",
    "prefix_reuse",
    "restart_restore",
)
"""Blocks whose every field names the evidence behind it."""
_ID_FIELDS: Final = ("host_id", "container_id")
# Of which kind of place evidence is missing is told; a receipt has a few dozen fields.
_MOST_TOLD: Final = 64


def form_findings(receipt: ActivationReceipt, *, terms: Terms) -> Iterator[ProfileFinding]:
    """The form of everything that only this schema has; each offence is a refusal of the schema."""
    for rank in receipt.ranks:
        for name in _ID_FIELDS:
            yield from _shaped(rank.member(name), PLACE_NAME, expected="a name", rank=rank, terms=terms)
        yield from _shaped(
            rank.member("started_at"), TIME, expected="a time with its zone", rank=rank, terms=terms
        )
    for name in _ID_FIELDS:
        yield _once(receipt, name, terms=terms)
    yield from _activity(receipt, terms=terms)
    yield from _evidence_form(receipt, terms=terms)


def degree_findings(
    receipt: ActivationReceipt, *, entry: ProfileEntry, terms: Terms
) -> Iterator[ProfileFinding]:
    """Degrees the engine of each rank reported, against those the profile's name stands for."""
    for rank in receipt.ranks:
        for name, wanted in _degrees(entry):
            member = rank.member(name)
            if member.value is not None:
                good = terms.equal(member.value, wanted)
                yield terms.say("GUARD_DCP_NAME", good, member, expected=wanted, rank=rank.number)


def binds_degrees(receipt: ActivationReceipt, *, entry: ProfileEntry) -> bool:
    """Whether every rank reports TP and DCP as integers, and the profile's."""
    told = [[rank.value.get(name) for name, _ in _degrees(entry)] for rank in receipt.ranks]
    wanted = [value for _, value in _degrees(entry)]
    typed = all(type(one) is int for rank in told for one in rank)
    return receipt.schema == OWN_SCHEMA and bool(told) and typed and all(rank == wanted for rank in told)


def evidence_findings(receipt: ActivationReceipt, *, terms: Terms) -> Iterator[ProfileFinding]:
    """Every field names evidence, at its own place or at one above it, of its own rank."""
    known = _evidence(receipt)
    lacking = [one for one in _fields(receipt) if not _is_covered(one, known=known, receipt=receipt)]
    for pointer in lacking[:_MOST_TOLD]:
        member = Member(pointer=pointer, value=None)
        yield terms.say("ACT_NO_EVIDENCE", False, member, expected="evidence of its own rank")
    if not lacking:
        everything = Member(pointer="/evidence", value=f"{len(known)} places")
        yield terms.say("ACT_NO_EVIDENCE", True, everything, expected="evidence for every field")


def _degrees(entry: ProfileEntry) -> tuple[tuple[str, int], ...]:
    return (
        ("observed_tp", entry.tensor_parallel_size),
        ("observed_dcp", entry.decode_context_parallel_size),
    )


def _shaped(
    member: Member, form: re.Pattern[str], *, expected: str, rank: RankEntry | None, terms: Terms
) -> Iterator[ProfileFinding]:
    good = isinstance(member.value, str) and form.fullmatch(member.value) is not None
    number = rank.number if rank else None
    yield terms.say("ACT_SCHEMA", good, member, expected=expected, rank=number)


def _once(receipt: ActivationReceipt, name: str, *, terms: Terms) -> ProfileFinding:
    """A rank is one container on one host (§1)."""
    told = [rank.value.get(name) for rank in receipt.ranks]
    texts = [one for one in told if isinstance(one, str)]
    ranks = Member(pointer="/ranks", value=", ".join(texts))
    return terms.say("ACT_RANK_DUP", len(texts) == len(set(texts)), ranks, expected=f"every {name} once")


def _activity(receipt: ActivationReceipt, *, terms: Terms) -> Iterator[ProfileFinding]:
    block = receipt.member("host_activity")
    if not isinstance(block.value, list):
        yield terms.say("ACT_SCHEMA", False, block, expected="a list of what else the hosts did")
        return
    for index, value in enumerate(block.value):
        window = value if isinstance(value, dict) else {}
        at = f"/host_activity/{index}"
        rank = Member(pointer=f"{at}/rank", value=window.get("rank"))
        yield terms.say("ACT_SCHEMA", _is_rank(rank.value, receipt), rank, expected="a rank of the receipt")
        for name in ("from", "to"):
            member = Member(pointer=f"{at}/{name}", value=window.get(name))
            yield from _shaped(member, TIME, expected="a time with its zone", rank=None, terms=terms)
        what = Member(pointer=f"{at}/what", value=window.get("what"))
        good = isinstance(what.value, str) and what.value != ""
        yield terms.say("ACT_SCHEMA", good, what, expected="what was done")


def _evidence_form(receipt: ActivationReceipt, *, terms: Terms) -> Iterator[ProfileFinding]:
    block = receipt.member("evidence")
    if not isinstance(block.value, dict):
        yield terms.say("ACT_SCHEMA", False, block, expected="an object of evidence by JSON pointer")
        return
    for pointer, listed in block.value.items():
        at = f"/evidence{step(pointer)}"
        place = Member(pointer=at, value=pointer)
        there = pointer.startswith("/") and next(matches(receipt.value, _literal(pointer)), None) is not None
        yield terms.say("ACT_SCHEMA", there, place, expected="the pointer of a field of this receipt")
        good = isinstance(listed, list) and bool(listed) and all(_is_entry(one, receipt) for one in listed)
        entries = Member(pointer=at, value=listed)
        yield terms.say("ACT_SCHEMA", good, entries, expected="entries of sha256, rank and at, one at least")


def _literal(pointer: str) -> str:
    """No name of ours holds a pattern's characters; a pointer with one fits nothing."""
    return "/\0" if "*" in pointer or "|" in pointer else pointer


def _is_entry(value: ExactValue, receipt: ActivationReceipt) -> bool:
    if not isinstance(value, dict) or not _is_rank(value.get("rank"), receipt):
        return False
    digest, at = value.get("sha256"), value.get("at")
    hashed = isinstance(digest, str) and HEX64.fullmatch(digest) is not None
    return hashed and isinstance(at, str) and TIME.fullmatch(at) is not None


def _is_rank(value: ExactValue, receipt: ActivationReceipt) -> bool:
    return type(value) is int and any(rank.number == value for rank in receipt.ranks)


def _evidence(receipt: ActivationReceipt) -> dict[str, list[ExactValue]]:
    block = receipt.value.get("evidence")
    listed = block if isinstance(block, dict) else {}
    return {
        pointer: entries
        for pointer, entries in listed.items()
        if isinstance(entries, list) and entries and all(_is_entry(one, receipt) for one in entries)
    }


def _fields(receipt: ActivationReceipt) -> list[str]:
    """What must be evidenced: all but the numbers of the ranks, which only name them."""
    blocks = (name for name in EVIDENCED if name != "ranks" and receipt.has(name))
    places = [one for name in blocks for one in leaves(receipt.value[name], at=f"/{name}")]
    of_ranks = [f"{rank.pointer}/{name}" for rank in receipt.ranks for name in rank.value if name != "rank"]
    return [*of_ranks, *places]


def _is_covered(pointer: str, *, known: dict[str, list[ExactValue]], receipt: ActivationReceipt) -> bool:
    rank = next((one.number for one in receipt.ranks if pointer.startswith(one.pointer + "/")), None)
    parts = pointer.split("/")
    above = ("/".join(parts[:count]) for count in range(2, len(parts) + 1))
    entries = [entry for place in above for entry in known.get(place, [])]
    return any(rank is None or (isinstance(one, dict) and one.get("rank") == rank) for one in entries)
