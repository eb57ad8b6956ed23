"""Lists of restores, for clients and for pages."""

from sqlalchemy.orm import Session

from app.models import Restore
from app.restores.repository import lists
from app.restores.repository.lists import RestoreFilters as RestoreFilters
from app.web.paging import Cursor, Total

EVERY = RestoreFilters()


def list_restores(
    session: Session, *, limit: int, filters: RestoreFilters = EVERY, after: Cursor | None = None
) -> list[Restore]:
    """Restores, newest first, without their attempts."""
    return lists.list_restores(session, filters=filters, after=after, limit=limit)


def count_restores(session: Session, *, filters: RestoreFilters = EVERY) -> Total:
    """How many restores fit these filters, counted up to a bound."""
    return lists.count_restores(session, filters=filters)
