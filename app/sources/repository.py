"""SQL of source identities."""

from uuid import UUID, uuid4

from sqlalchemy import Select, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.models import SourceIdentityRow
from app.web.paging import Cursor, Total, count_rows


def add_source(session: Session, *, values: dict[str, object]) -> UUID | None:
    """Insert unless the same identity is there; its id if it is new."""
    statement = insert(SourceIdentityRow).values(id=uuid4(), **values)
    return session.execute(
        statement.on_conflict_do_nothing().returning(SourceIdentityRow.id)
    ).scalar_one_or_none()


def find_source(session: Session, *, identity: dict[str, object]) -> SourceIdentityRow | None:
    query = select(SourceIdentityRow)
    for name, value in identity.items():
        column = getattr(SourceIdentityRow, name)
        query = query.where(column.is_not_distinct_from(value))
    return session.scalars(query).one_or_none()


def get_source(session: Session, *, source_id: UUID) -> SourceIdentityRow | None:
    return session.get(SourceIdentityRow, source_id)


def list_sources(session: Session, *, after: Cursor | None, limit: int) -> list[SourceIdentityRow]:
    row = SourceIdentityRow
    query = _newest_first().limit(limit)
    if after is not None:
        query = query.where(tuple_(row.created_at, row.id) < (after.created_at, after.id))
    return list(session.scalars(query))


def count_sources(session: Session) -> Total:
    return count_rows(session, _newest_first())


def _newest_first() -> Select[SourceIdentityRow]:
    row = SourceIdentityRow
    return select(row).order_by(row.created_at.desc(), row.id.desc())
