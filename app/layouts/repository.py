"""SQL of layouts."""

from typing import Final

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.models import Layout
from app.web.paging import Cursor, Total, count_rows


def get_layout(session: Session, *, sha256: str) -> Layout | None:
    return session.get(Layout, sha256)


def add_layout(session: Session, *, layout: dict[str, object]) -> bool:
    """Insert unless it is there; two requests with the same document do not collide."""
    statement = insert(Layout).values(**layout).on_conflict_do_nothing().returning(Layout.sha256)
    return session.execute(statement).scalar_one_or_none() is not None


def list_layouts(session: Session, *, after: Cursor | None, limit: int) -> list[Layout]:
    query = _NEWEST.limit(limit)
    if after is not None:
        query = query.where(tuple_(Layout.created_at, Layout.sha256) < (after.created_at, after.id))
    return list(session.scalars(query))


def count_layouts(session: Session) -> Total:
    return count_rows(session, _NEWEST)


_NEWEST: Final = select(Layout).order_by(Layout.created_at.desc(), Layout.sha256.desc())
