"""Two contracts or two effective profiles, line by line; values of secret names are masked."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Final

from app.core.canonical_json import ExactValue, JsonObject, encode_exact
from app.core.profiles.contract import Contract
from app.core.profiles.effective import EffectiveProfile, EffectiveValue
from app.core.profiles.secrets import MASKED, is_secret_name, masked
from app.core.qualify.pointer import last_step, step

MOST_LINES: Final = 20_000
MOST_CHARACTERS: Final = 400


class Change(StrEnum):
    """What became of a line from left to right."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """One difference; the side that has nothing is none. ``note`` tells where the values come from."""

    pointer: str
    change: Change
    left: str | None
    right: str | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The differences in the order of the left document, then what only the right one has.

    Attributes:
        is_cut: whether there were more than 20,000.
    """

    lines: tuple[DiffLine, ...]
    is_cut: bool


def diff_values(left: ExactValue, right: ExactValue) -> Diff:
    """The leaves in which two JSON values differ; a list is compared element by element.

    ``1`` and ``1.0`` and ``true`` are three values, as they are in what is hashed.
    """
    return _taken(_walk(left, right, at=""))


def diff_contracts(left: Contract, right: Contract) -> Diff:
    """Two contracts, every field of every part."""
    return diff_values(left.value, right.value)


def diff_profiles(left: EffectiveProfile, right: EffectiveProfile) -> Diff:
    """Two effective profiles: the fields of their entries (``/entry/…``) and their values
    (``/environment/KEY``), with where each side took it from."""
    return _taken(_profile_lines(left, right))


def diff_object(diff: Diff) -> JsonObject:
    """A diff as JSON."""
    return {
        "lines": [
            {
                "pointer": line.pointer,
                "change": line.change.value,
                "left": line.left,
                "right": line.right,
                "note": line.note,
            }
            for line in diff.lines
        ],
        "is_cut": diff.is_cut,
    }


def _taken(lines: Iterator[DiffLine]) -> Diff:
    taken = tuple(islice(lines, MOST_LINES + 1))
    return Diff(lines=taken[:MOST_LINES], is_cut=len(taken) > MOST_LINES)


def _profile_lines(left: EffectiveProfile, right: EffectiveProfile) -> Iterator[DiffLine]:
    yield from _walk(left.entry.value, right.entry.value, at="/entry")
    before = {one.key: one for one in (*left.common, *left.values)}
    after = {one.key: one for one in (*right.common, *right.values)}
    for key in [*before, *(key for key in after if key not in before)]:
        line = _variable(key, before.get(key), after.get(key))
        if line is not None:
            yield line


def _variable(key: str, left: EffectiveValue | None, right: EffectiveValue | None) -> DiffLine | None:
    if left is not None and right is not None and left.value == right.value:
        return None
    change = Change.ADDED if left is None else Change.REMOVED if right is None else Change.CHANGED
    origins = [f"{one.source.value} {one.origin}" for one in (left, right) if one is not None]
    return DiffLine(
        pointer="/environment" + step(key),
        change=change,
        left=masked(key, left.value) if left is not None else None,
        right=masked(key, right.value) if right is not None else None,
        note=" → ".join(dict.fromkeys(origins)),
    )


def _walk(left: ExactValue, right: ExactValue, *, at: str) -> Iterator[DiffLine]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in left:
            here = at + step(name)
            if name in right:
                yield from _walk(left[name], right[name], at=here)
            else:
                yield from _leaves(left[name], at=here, change=Change.REMOVED)
        for name in right:
            if name not in left:
                yield from _leaves(right[name], at=at + step(name), change=Change.ADDED)
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            here = at + step(index)
            if index >= len(right):
                yield from _leaves(left[index], at=here, change=Change.REMOVED)
            elif index >= len(left):
                yield from _leaves(right[index], at=here, change=Change.ADDED)
            else:
                yield from _walk(left[index], right[index], at=here)
    elif not _same(left, right):
        yield DiffLine(pointer=at, change=Change.CHANGED, left=_text(left, at), right=_text(right, at))


def _leaves(value: ExactValue, *, at: str, change: Change) -> Iterator[DiffLine]:
    members: list[tuple[str | int, ExactValue]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    for name, member in members:
        yield from _leaves(member, at=at + step(name), change=change)
    if not members:
        text = _text(value, at)
        is_added = change is Change.ADDED
        yield DiffLine(
            pointer=at, change=change, left=None if is_added else text, right=text if is_added else None
        )


def _same(left: ExactValue, right: ExactValue) -> bool:
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.as_tuple() == right.as_tuple()
    return type(left) is type(right) and left == right


def _text(value: ExactValue, at: str) -> str:
    if is_secret_name(last_step(at)) and isinstance(value, str):
        return MASKED
    text = str(value) if isinstance(value, Decimal) else encode_exact(value).decode("ascii")
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"
