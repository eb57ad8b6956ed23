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
_FORMULA: Final = re.compile("[\t\r\n]|[\\s\\x00]*[=+\\-@\uff1d\uff0b\uff0d\uff20]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def csv_line(cells: Iterable[str]) -> bytes:
    """One record with its end."""
    return (",".join(map(_cell, cells)) + LINE_END).encode("utf-8")


def digest_text(digits: str) -> str:
    """A digest as text: 64 digits could be read as a number."""
    return f"sha256:{digits}" if digits else ""


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
    if _FORMULA.match(text):
        text = f"'{text}"
    if _QUOTED.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text
