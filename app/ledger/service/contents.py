"""Entries of the log with the rows they keep, as the database holds those now."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from app.core.ledger.leaf import Leaf, parse_leaf
from app.ledger.repository import log
from app.ledger.repository.rows import Values, values_of
from app.ledger.repository.views import VIEWS

# So many rows are asked for together: verdicts are some kilobytes each.
_ROWS_TOGETHER: Final = 400
_ENTRIES_TOGETHER: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One row as a leaf mentions it.

    Attributes:
        columns: what its digest is over, each with its type.
        document: the bytes of the column that was asked for, if any was.
    """

    view: str
    key: str
    columns: Values
    document: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One leaf: its bytes, and the rows it mentions that were asked for and are there."""

    index: int
    document: bytes
    rows: tuple[Content, ...]


def entries_with_rows(
    session: Session, *, size: int, views: Collection[str], raw: Mapping[str, str]
) -> Iterator[Entry]:
    """The first `size` leaves in order, with their rows of these views, in bounded memory.

    Args:
        session: one snapshot (`Database.reading`).
        raw: view → the column whose bytes are wanted too.

    Raises:
        FormatError: a leaf's bytes are not what a leaf is.
    """
    waiting: list[tuple[int, bytes, Leaf]] = []
    row_count = 0
    for index, document in log.stream_first(session, size=size):
        leaf = parse_leaf(document, subject=f"ledger entry {index}")
        waiting.append((index, document, leaf))
        row_count += sum(len(keys) for view, keys in leaf.rows.items() if view in views)
        if row_count >= _ROWS_TOGETHER or len(waiting) >= _ENTRIES_TOGETHER:
            yield from _filled(session, waiting, views=views, raw=raw)
            waiting, row_count = [], 0
    yield from _filled(session, waiting, views=views, raw=raw)


def _filled(
    session: Session,
    entries: Iterable[tuple[int, bytes, Leaf]],
    *,
    views: Collection[str],
    raw: Mapping[str, str],
) -> Iterator[Entry]:
    wanted: dict[str, set[str]] = {}
    for _, _, leaf in entries:
        for view, keys in leaf.rows.items():
            if view in views:
                wanted.setdefault(view, set()).update(keys)
    found: dict[tuple[str, str], Content] = {}
    for view, asked in wanted.items():
        column = raw.get(view)
        for key, values, kept in values_of(session, view=VIEWS[view], keys=sorted(asked), raw=column):
            found[view, key] = Content(view=view, key=key, columns=values, document=kept)
    for index, document, leaf in entries:
        mentioned = ((view, key) for view in leaf.rows for key in leaf.rows[view])
        rows = tuple(found[one] for one in mentioned if one in found)
        yield Entry(index=index, document=document, rows=rows)
