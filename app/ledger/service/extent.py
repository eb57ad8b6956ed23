"""Where in the log something stands: the first leaf of an instant, the leaf that keeps a row."""

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
    low, high = log.bisected(session, at=at, size=size)
    if low < high:
        raise NotFound(f"ledger entry {(low + high) // 2}: expected one within the log, found none")
    return low


def leaf_of(session: Session, *, view: str, key: str, since: datetime) -> int | None:
    """The first leaf that mentions a row, or None where none does.

    Args:
        since: when the row was written, by the database's clock: its leaf is not older.
    """
    size = log.size(session)
    start = first_from(session, at=since, size=size)
    for index, document in log.mentioning(session, text=key, start=start, size=size):
        try:
            leaf = parse_leaf(document, subject=f"ledger entry {index}")
        except CoreError:
            continue
        if key in leaf.rows.get(view, {}):
            return index
    return None
