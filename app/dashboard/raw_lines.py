"""Stored bytes as numbered lines without JSON places: templates, and documents too long for that."""

from collections.abc import Iterator
from typing import Final

from app.core.qualify.pointer import step
from app.dashboard.raw_text import MOST_CHARACTERS, Piece, RawText, raw_text

# Finding every value of a longer document takes longer than anybody waits for a page.
LARGEST_PLACED_BYTES: Final = 1024 * 1024


def document_text(raw: bytes, *, is_json: bool, asked: str | None) -> RawText:
    """The lines of a stored document; `asked` is a JSON pointer, of a template ``/KEY``."""
    if is_json and len(raw) <= LARGEST_PLACED_BYTES:
        return raw_text(raw, asked=asked)
    text = raw.decode("utf-8")
    shown = text[:MOST_CHARACTERS]
    lines = tuple(_lines(shown, keyed=not is_json, asked=asked))
    found = any(piece.is_asked for line in lines for piece in line)
    return RawText(
        lines=lines,
        first_line=1,
        asked=asked,
        nearest=asked if found and asked is not None else "",
        is_cut=len(shown) < len(text),
    )


def _lines(shown: str, *, keyed: bool, asked: str | None) -> Iterator[tuple[Piece, ...]]:
    for line in shown.removesuffix("\n").split("\n"):
        key, equals, _ = line.partition("=")
        pointer = step(key) if keyed and equals and not line.startswith("#") else ""
        yield (Piece(text=line, anchor=pointer, is_asked=bool(pointer) and pointer == asked),)
