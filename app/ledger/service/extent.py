"""Where in the log something stands: the first leaf of an instant, the leaf that keeps a row."""

from bisect import bisect_left
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.ledger.leaf import parse_leaf
from app.errors import NotFound
from app.ledger.repository import log


def size_now(session: Session) -> int:
    """The number of leaves."""
    return log.size(session)


def first_from(session: Session, *, at: datetime, size: int) -> int:
    """The index of the first of the log's first `size` leaves written at `at` or later; `size` if none was.

    Leaves take the database's time while they hold the log's lock, so times and indices have one order.
    """
    return bisect_left(range(size), at, key=lambda index: _written_at(session, index=index))


def _written_at(session: Session, *, index: int) -> datetime:
    at = log.written_at(session, index=index)
    if at is None:
        raise NotFound(f"ledger entry {index}: expected one within the log, found none")
    return at


def leaf_of(session: Session, *, view: str, key: str, since: datetime) -> int | None:
    """The first leaf that mentions a row, or None where none does.

    Args:
        since: when the row was written, by the database's clock: its leaf is not older.
    """
    start = first_from(session, at=since, size=log.size(session))
    for index, document in log.mentioning(session, text=key, start=start):
        try:
            leaf = parse_leaf(document, subject=f"ledger entry {index}")
        except CoreError:
            continue
        if key in leaf.rows.get(view, {}):
            return index
    return None
