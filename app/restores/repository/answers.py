"""SQL of what restores are asked and answer."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import RankAttempt, RankReportRow, RestoreAnswer


def parts(session: Session, *, restore_id: UUID) -> list[tuple[int, bytes]]:
    """Rank and part of the answer of every rank that has one, by rank."""
    query = (
        select(RankAttempt.rank, RankReportRow.part)
        .join(RankReportRow, RankReportRow.attempt_id == RankAttempt.id)
        .where(RankAttempt.restore_id == restore_id)
        .order_by(RankAttempt.rank)
    )
    return [(rank, part) for rank, part in session.execute(query) if part is not None]


def add_answer(session: Session, *, answer: RestoreAnswer) -> None:
    session.add(answer)


def get_answer(session: Session, *, restore_id: UUID) -> RestoreAnswer | None:
    return session.get(RestoreAnswer, restore_id)
