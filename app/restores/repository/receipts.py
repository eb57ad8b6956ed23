"""Restores that have ended and have no receipt yet."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, selectinload

from app.models import Device, RankAttempt, Restore


def without_receipt(session: Session, *, limit: int) -> list[UUID]:
    """Ended restores that have neither a receipt nor a reason why there is none, oldest first."""
    query = (
        select(Restore.id)
        .where(
            Restore.outcome.is_not(None),
            Restore.receipt_sha256.is_(None),
            Restore.receipt_problem.is_(None),
        )
        .order_by(Restore.created_at, Restore.id)
        .limit(limit)
    )
    return list(session.scalars(query))


def lock_with_reports(session: Session, *, restore_id: UUID) -> Restore | None:
    """The restore with its attempts and their reports, its row held."""
    query = select(Restore).where(Restore.id == restore_id).with_for_update(of=Restore)
    attempts = selectinload(Restore.attempts)
    query = query.options(
        attempts.joinedload(RankAttempt.report),
        attempts.joinedload(RankAttempt.device).joinedload(Device.node),
    )
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()
