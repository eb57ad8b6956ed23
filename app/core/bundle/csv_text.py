"""CSV of a bundle: RFC 4180, UTF-8, no cell that a spreadsheet would take for a formula or a number."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from app.core.errors import FormatError, shown
from app.core.ledger.leaf import instant_text

LINE_END: Final = "\r\n"
_QUOTED: Final = re.compile(r'[",\r\n]')
# What spreadsheets begin a formula with, also behind blanks and in full width.
_SIGN: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_BLANK: Final = "\\s\\x00\ufeff"
_FORMULA: Final = re.compile(f"[\t\r\n]|[{_BLANK}]*[{_SIGN}]")
# Where semicolon or tab part cells, as in many countries, one begins in the middle of ours, quoted or not.
_WITHIN: Final = re.compile(f'(?<![{_BLANK};"])[{_BLANK};"]++(?=[{_SIGN}])')
_PARTING: Final = frozenset(";\t\r\n")
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def csv_line(cells: Iterable[str]) -> bytes:
    """One record with its end."""
    return (",".join(map(_cell, cells)) + LINE_END).encode("utf-8")


def digest_text(digits: str) -> str:
    """A digest as text: 64 digits could be read as a number."""
    return f"sha256:{digits}" if digits else ""


def named_text(text: str) -> str:
    """A name that may be a digest: then as text."""
    return digest_text(text) if _HEX64.fullmatch(text) else text


def utc_text(microseconds: str) -> str:
    """An instant of a row (microseconds since 1970) in UTC with its offset; empty where there is none.

    Raises:
        FormatError: no such instant.
    """
    if not microseconds:
        return ""
    return instant_text(instant(microseconds))


def instant(microseconds: str) -> datetime:
    """An instant of a row.

    Raises:
        FormatError: no such instant.
    """
    try:
        return _EPOCH + timedelta(microseconds=int(microseconds))
    except (ValueError, OverflowError):
        raise FormatError("instant", expected="microseconds since 1970", found=shown(microseconds)) from None


def words(cells: Sequence[str]) -> str:
    """Several words in one cell."""
    return " ".join(cells)


def _cell(text: str) -> str:
    text = _WITHIN.sub(_parted, text)
    if _FORMULA.match(text):
        text = f"'{text}"
    if _QUOTED.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _parted(before: re.Match[str]) -> str:
    """What stands before a sign, with an apostrophe where another cell could begin."""
    return before[0] if _PARTING.isdisjoint(before[0]) else f"{before[0]}'"
