"""SQL of exceptions: granted, ended, listed."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.models import OperationalException, OperationalExceptionEnd
from app.web.paging import Cursor, Total, count_rows


def add_exception(session: Session, *, exception: OperationalException) -> None:
    session.add(exception)
    session.flush()


def add_exception_end(session: Session, *, end: OperationalExceptionEnd) -> bool:
    """False if it was ended meanwhile. The app role cannot lock facts, so the key of the row decides."""
    values = {name: getattr(end, name) for name in ("exception_id", "reason", "created_at", "created_by")}
    added = insert(OperationalExceptionEnd).values(**values).on_conflict_do_nothing()
    return session.execute(added.returning(OperationalExceptionEnd.exception_id)).first() is not None


def get_exception(session: Session, *, exception_id: UUID) -> OperationalException | None:
    query = select(OperationalException).where(OperationalException.id == exception_id)
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def open_exception(
    session: Session, *, image_config_id: str, scope_digest: str, now: datetime
) -> OperationalException | None:
    """The exception for exactly this image and scope that holds longest, if one holds now."""
    query = select(OperationalException).where(
        OperationalException.image_config_id == image_config_id,
        OperationalException.scope_digest == scope_digest,
        OperationalException.expires_at > now,
        ~OperationalException.end.has(),
    )
    return session.scalars(query.order_by(OperationalException.expires_at.desc()).limit(1)).one_or_none()


def list_exceptions(session: Session, *, after: Cursor | None, limit: int) -> list[OperationalException]:
    query = select(OperationalException).order_by(
        OperationalException.created_at.desc(), OperationalException.id.desc()
    )
    if after is not None:
        place = tuple_(OperationalException.created_at, OperationalException.id)
        query = query.where(place < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_exceptions(session: Session) -> Total:
    query = select(OperationalException).order_by(
        OperationalException.created_at.desc(), OperationalException.id.desc()
    )
    return count_rows(session, query)
