"""Numbers per rank that are times (evidence-model §12): collected wherever they stand, shown, never
judged.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from app.core.canonical_json import ExactValue
from app.core.qualify.facts import Timing
from app.core.qualify.families.ranks import rank_numbers
from app.core.qualify.pointer import step
from app.core.qualify.reading import count, number
from app.core.qualify.values import Gap, Number

_TIME = re.compile(r"(?:^|_)(?P<unit>ns|ms|milliseconds|seconds)(?:_|$)")
_Record: TypeAlias = tuple[int, Mapping[str, ExactValue]]
_MOST_VECTORS = 1000
_UNITS = {"ns": "ns", "ms": "ms", "milliseconds": "ms", "seconds": "s"}


def timings(value: ExactValue) -> tuple[Timing, ...]:
    """Every vector of times: a list or rank map under a key that names a time and ranks, or one field of
    every rank record of a list or map. The pointer of the second has ``*`` in place of the rank."""
    return tuple(islice(_walk(value, at="", keys=()), _MOST_VECTORS))


def _walk(value: ExactValue, *, at: str, keys: tuple[str, ...]) -> Iterator[Timing]:
    own = _vector(value, at=at, keys=keys)
    if own is not None:
        yield own
        return
    records = _rank_records(value)
    if records is not None:
        yield from _fields(records, at=at)
    if isinstance(value, dict):
        for key, member in value.items():
            if records is None or not isinstance(member, dict):
                yield from _walk(member, at=at + step(key), keys=(*keys, key))
    elif isinstance(value, list) and records is None:
        for index, element in enumerate(value):
            yield from _walk(element, at=at + step(index), keys=keys)


def _vector(value: ExactValue, *, at: str, keys: tuple[str, ...]) -> Timing | None:
    unit = _unit(keys[-2:])
    if not unit or not any("rank" in key for key in keys[-2:]):
        return None
    taken = rank_numbers(value)
    if taken is None or not taken[1] or len(taken[0]) < 2:
        return None
    return Timing(pointer=at, name=keys[-1], unit=unit, ranks=taken[0], values=taken[1])


def _rank_records(value: ExactValue) -> list[_Record] | None:
    """The records of a list whose elements name their rank, or of a map whose keys are ranks: two or
    more."""
    records: list[_Record] = []
    if isinstance(value, list):
        for element in value:
            rank = count(element.get("rank")) if isinstance(element, dict) else Gap.ABSENT
            if isinstance(element, dict) and not isinstance(rank, Gap):
                records.append((rank, element))
    elif isinstance(value, dict):
        for key, member in value.items():
            if isinstance(member, dict) and key.isdecimal() and len(key) < 5:
                records.append((int(key), member))
    else:
        return None
    return records if len(records) == len(value) >= 2 else None


def _fields(records: list[_Record], *, at: str) -> Iterator[Timing]:
    # A phase that only some ranks went through is a time all the same.
    every = dict.fromkeys(path for _, record in records for path in _time_paths(record, ()))
    for path in every:
        numbers = [(rank, _at(record, path)) for rank, record in records]
        kept = [(rank, one) for rank, one in numbers if one is not None]
        if len(kept) >= 2:
            yield Timing(
                pointer=at + "/*" + "".join(map(step, path)),
                name=path[-1],
                unit=_unit(path),
                ranks=tuple(rank for rank, _ in kept),
                values=tuple(one for _, one in kept),
            )


def _time_paths(record: Mapping[str, ExactValue], before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, member in record.items():
        path = (*before, key)
        if isinstance(member, dict):
            yield from _time_paths(member, path)
        elif _unit(path) and not isinstance(number(member), Gap):
            yield path


def _at(record: Mapping[str, ExactValue], path: tuple[str, ...]) -> Number | None:
    value: ExactValue = dict(record)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    one = number(value)
    return None if isinstance(one, Gap) else one


def _unit(keys: tuple[str, ...]) -> str:
    """The unit the innermost key names that names one; nothing for no time."""
    return next((unit for unit in map(_unit_of, reversed(keys)) if unit), "")


# Bounded, since documents name the keys.
@lru_cache(maxsize=4096)
def _unit_of(key: str) -> str:
    found = _TIME.search(key)
    return "" if found is None else _UNITS[found["unit"]]
