"""A stored document as numbered lines in which every value can be pointed at.

The bytes are shown as they are: nothing is indented, sorted or shortened. Every value has an anchor, its
JSON pointer, so that a finding leads to the very characters it was read from.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from app.core.qualify.pointer import parent, step

# What a page shows of one document; the rest is in its bytes.
MOST_CHARACTERS: Final = 262_144
WHOLE: Final = "document"
AT: Final = "at"
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands: from its key, if it has one on the same line, to its end or opening bracket."""

    pointer: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text of one line; `anchor` names the value it is, `is_asked` the one that was asked for."""

    text: str
    anchor: str = ""
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RawText:
    """A document as lines.

    Attributes:
        asked: the pointer asked for, None where none was; nearest: what exists of it, the longest part.
        is_cut: whether the document is longer than what is shown.
    """

    lines: tuple[tuple[Piece, ...], ...]
    first_line: int
    asked: str | None
    nearest: str
    is_cut: bool

    @property
    def is_missing(self) -> bool:
        """Whether a place was asked for that the document does not have."""
        return self.asked is not None and self.asked != self.nearest


@dataclass(slots=True)
class _Open:
    """An object or list that has begun; `key` is the name or number of the value that is next."""

    pointer: str
    key: str | int | None
    key_at: int = 0

    def child(self) -> str:
        return self.pointer + step("" if self.key is None else self.key)


def anchor_of(pointer: str) -> str:
    """The id of a value's element: its pointer, without white space and other signs no id may have."""
    return quote(pointer, safe="/~!$&()*+,;=:@-._") if pointer else WHOLE


def raw_link(sha256: str, pointer: str) -> str:
    """The address of a place in a stored document; a place that is missing leads to what should hold it."""
    return f"/receipts/{sha256}?{urlencode({'at': pointer}, safe='/')}#{AT}"


def raw_text(raw: bytes, *, asked: str | None = None) -> RawText:
    """The lines of a strictly decoded document, in which `asked` or what is nearest to it is marked."""
    text = raw.decode("utf-8")
    known = {place.pointer: place for place in places(text)}
    nearest = _nearest(asked, known)
    start = _window(text, known.get(nearest))
    shown = text[start : start + MOST_CHARACTERS]
    marked = {place.start: place for place in known.values()}
    lines = tuple(_lines(shown, offset=start, marked=marked, asked=None if asked is None else nearest))
    return RawText(
        lines=lines,
        first_line=text.count("\n", 0, start) + 1,
        asked=asked,
        nearest=nearest,
        is_cut=len(shown) < len(text),
    )


def places(text: str) -> Iterator[Place]:
    """Every value of a JSON text in document order; the text is valid."""
    stack: list[_Open] = []
    for token in _TOKEN.finditer(text):
        word, top = token[0], stack[-1] if stack else None
        if word in ("}", "]"):
            stack.pop()
        elif word == "," and top is not None:
            top.key = top.key + 1 if isinstance(top.key, int) else None
        elif word == ":":
            continue
        elif top is not None and top.key is None:
            top.key, top.key_at = json.loads(word), token.start()
        else:
            pointer = "" if top is None else top.child()
            yield Place(pointer=pointer, start=_start(text, top, token.start()), end=token.end())
            if word in ("{", "["):
                stack.append(_Open(pointer=pointer, key=None if word == "{" else 0))


def _start(text: str, top: _Open | None, value_at: int) -> int:
    """Where the value's key begins, if it stands on the same line."""
    if top is None or not isinstance(top.key, str) or "\n" in text[top.key_at : value_at]:
        return value_at
    return top.key_at


def _nearest(asked: str | None, known: dict[str, Place]) -> str:
    pointer = asked or ""
    while pointer and pointer not in known:
        pointer = parent(pointer)
    return pointer


def _window(text: str, place: Place | None) -> int:
    """Where the shown part begins: at the top, or at the line before a place that would not be in it."""
    if place is None or place.end <= MOST_CHARACTERS:
        return 0
    before = text.rfind("\n", 0, max(0, place.start - MOST_CHARACTERS // 8))
    return before + 1 if before >= 0 and place.end - before < MOST_CHARACTERS else place.start


def _lines(
    shown: str, *, offset: int, marked: dict[int, Place], asked: str | None
) -> Iterator[tuple[Piece, ...]]:
    at = offset
    for line in shown.removesuffix("\n").split("\n"):
        yield tuple(_pieces(line.removesuffix("\r"), at=at, marked=marked, asked=asked))
        at += len(line) + 1


def _pieces(line: str, *, at: int, marked: dict[int, Place], asked: str | None) -> Iterator[Piece]:
    done = 0
    while done < len(line):
        place = marked.get(at + done)
        if place is not None:
            end = min(place.end - at, len(line))
            yield Piece(text=line[done:end], anchor=anchor_of(place.pointer), is_asked=place.pointer == asked)
        else:
            end = _next_mark(line, done=done, at=at, marked=marked)
            yield Piece(text=line[done:end])
        done = end


def _next_mark(line: str, *, done: int, at: int, marked: dict[int, Place]) -> int:
    return next((one for one in range(done + 1, len(line)) if at + one in marked), len(line))
