"""JSON pointers (RFC 6901) and patterns over them.

A pattern is a pointer whose steps may hold ``*``: a step ``*`` is any element of a list or member of an
object, a step such as ``*_restore`` any member whose name fits. ``a|b`` names two members. Matches come
in the order of lists, and of the names of members: an object has no order.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from app.core.canonical_json import ExactValue


def step(name: str | int) -> str:
    """One escaped step, with its slash."""
    text = str(name)
    if "~" in text or "/" in text:
        text = text.replace("~", "~0").replace("/", "~1")
    return "/" + text


def last_step(pointer: str) -> str:
    """The name of the last step, unescaped; nothing for the whole document."""
    return _unescaped(pointer.rpartition("/")[2])


def parent(pointer: str) -> str:
    """The pointer of what holds this one."""
    return pointer.rpartition("/")[0]


def under(base: str, pattern: str) -> str:
    """``pattern`` if it starts at the top (``/``), else below ``base``; an empty pattern is ``base``
    itself."""
    if pattern.startswith("/"):
        return pattern
    return f"{base}/{pattern}" if pattern else base


def matches(value: ExactValue, pattern: str) -> Iterator[tuple[str, ExactValue]]:
    """Every place of ``value`` the pattern fits, with its pointer."""
    steps, is_pattern = _steps(pattern)
    if is_pattern:
        return _walk(value, steps, at="")
    for name in steps:
        if isinstance(value, dict):
            key = name if name in value else _unescaped(name)
            if key not in value:
                return iter(())
            value = value[key]
        elif isinstance(value, list) and _is_index(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return iter(())
    return iter(((pattern, value),))


# Those of the table, below the few dozen places that documents have; bounded, since documents name places.
@lru_cache(maxsize=8192)
def _steps(pattern: str) -> tuple[tuple[str, ...], bool]:
    return tuple(pattern.split("/")[1:]), _is_pattern(pattern)


def _walk(value: ExactValue, steps: tuple[str, ...], *, at: str) -> Iterator[tuple[str, ExactValue]]:
    if not steps:
        yield at, value
        return
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if first in value:
            yield from _walk(value[first], rest, at=at + "/" + first)
        elif _is_pattern(first):
            fits = _expression(first).fullmatch
            for name in sorted(filter(fits, value)):
                yield from _walk(value[name], rest, at=at + step(name))
        elif "~" in first and _unescaped(first) in value:
            yield from _walk(value[_unescaped(first)], rest, at=at + "/" + first)
    elif isinstance(value, list):
        if first == "*":
            for index, element in enumerate(value):
                yield from _walk(element, rest, at=at + step(index))
        elif _is_index(first) and int(first) < len(value):
            yield from _walk(value[int(first)], rest, at=at + "/" + first)


def _is_index(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 8


def _is_pattern(text: str) -> bool:
    return "*" in text or "|" in text


@cache
def _expression(text: str) -> re.Pattern[str]:
    return re.compile(
        "|".join(".*".join(map(re.escape, part.split("*"))) for part in text.split("|")), re.DOTALL
    )


def _unescaped(text: str) -> str:
    return text.replace("~1", "/").replace("~0", "~")
