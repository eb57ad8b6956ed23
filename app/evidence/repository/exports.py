"""SQL of exports: who asked for what, who builds it, what became of it."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, or_, select, tuple_
from sqlalchemy import Sequence as DatabaseSequence
from sqlalchemy.orm import Session

from app.models import EvidenceExport
from app.web.paging import Cursor, Total, count_rows

_fencing_token = DatabaseSequence("fencing_token")


def add_export(session: Session, *, export: EvidenceExport) -> None:
    session.add(export)
    session.flush()


def get_export(session: Session, *, export_id: UUID) -> EvidenceExport | None:
    return session.get(EvidenceExport, export_id)


def lock_export(session: Session, *, export_id: UUID) -> EvidenceExport | None:
    """The row as it is now, held until the transaction ends."""
    query = select(EvidenceExport).where(EvidenceExport.id == export_id).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def list_exports(session: Session, *, after: Cursor | None, limit: int) -> list[EvidenceExport]:
    query = _newest_first()
    if after is not None:
        place = tuple_(EvidenceExport.created_at, EvidenceExport.id)
        query = query.where(place < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_exports(session: Session) -> Total:
    return count_rows(session, _newest_first())


def lock_next_due(session: Session, *, now: datetime) -> EvidenceExport | None:
    """The oldest export nobody builds: nobody has taken it yet, or whoever did has fallen silent. Held."""
    row = EvidenceExport
    abandoned = (row.state == "running") & (row.lease_expires_at < now)
    query = (
        select(row)
        .where(or_(row.state == "waiting", abandoned))
        .order_by(row.created_at, row.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def next_token(session: Session) -> int:
    """A fencing token larger than every one before."""
    token: int = session.execute(select(_fencing_token.next_value())).scalar_one()
    return token


def finished_before(session: Session, *, until: datetime, limit: int) -> list[UUID]:
    """Exports whose file has lain long enough, oldest first."""
    row = EvidenceExport
    query = select(row.id).where(row.state == "finished", row.ended_at < until)
    return list(session.scalars(query.order_by(row.ended_at, row.id).limit(limit)))


def standing(session: Session, *, export_ids: list[UUID]) -> dict[UUID, tuple[str, int | None]]:
    """State and token of these exports; who is not there is left out."""
    row = EvidenceExport
    query = select(row.id, row.state, row.token).where(row.id.in_(export_ids))
    return {found.id: (found.state, found.token) for found in session.execute(query)}


def _newest_first() -> Select[EvidenceExport]:
    return select(EvidenceExport).order_by(EvidenceExport.created_at.desc(), EvidenceExport.id.desc())
