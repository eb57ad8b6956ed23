"""SQL of what restores are asked and answer."""

from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.models import RankAttempt, RankReportRow, RestoreAnswer


def report_documents(session: Session, *, restore_id: UUID) -> list[tuple[int, bytes]]:
    """Rank and report document of every rank that has reported, by rank."""
    query = (
        select(RankAttempt.rank, RankReportRow.document)
        .join(RankReportRow, RankReportRow.attempt_id == RankAttempt.id)
        .where(RankAttempt.restore_id == restore_id)
        .order_by(RankAttempt.rank)
    )
    return [(rank, document) for rank, document in session.execute(query)]


def add_answer(session: Session, *, answer: RestoreAnswer) -> None:
    session.add(answer)


def get_answer(session: Session, *, restore_id: UUID) -> RestoreAnswer | None:
    return session.get(RestoreAnswer, restore_id)
