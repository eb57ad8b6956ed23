"""SQL for what restores were asked and answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session, defer

from app.core.qualify.verdict import DRILL
from app.models import OracleQuestionRow, Restore, RestoreAnswer, VerdictCurrent, VerdictRow

MOST_ALIKE: Final = 6
# Put together once: for few rows that costs more than asking.
_DRILLS: Final = (
    select(VerdictRow)
    .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
    .where(
        VerdictCurrent.image_config_id == bindparam("config_id"),
        VerdictCurrent.kind == "receipt",
        VerdictCurrent.terms.contains([f"code:{DRILL}"]),
    )
    .options(defer(VerdictRow.document))
    .order_by(VerdictCurrent.created_at.desc(), VerdictCurrent.verdict_id.desc())
    .limit(MOST_ALIKE)
)
_RESTORE: Final = select(Restore).where(Restore.receipt_sha256 == bindparam("sha256"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedAlike:
    """A restore that was asked a question, its answer, and what the rules say of its receipt."""

    restore: Restore
    answer: RestoreAnswer | None
    verdict: str | None


def answer(session: Session, *, restore_id: UUID) -> RestoreAnswer | None:
    return session.get(RestoreAnswer, restore_id)


def asked_alike(session: Session, *, question_sha256: str) -> list[AskedAlike]:
    """The newest restores that were asked a question, newest first."""
    judged = (VerdictCurrent.receipt_sha256 == Restore.receipt_sha256) & (VerdictCurrent.kind == "receipt")
    query = (
        select(Restore, RestoreAnswer, VerdictCurrent.outcome)
        .outerjoin(RestoreAnswer, RestoreAnswer.restore_id == Restore.id)
        .outerjoin(VerdictCurrent, judged)
        .where(Restore.question_sha256 == question_sha256)
        .order_by(Restore.created_at.desc(), Restore.id.desc())
        .limit(MOST_ALIKE)
    )
    return [
        AskedAlike(restore=restore, answer=row, verdict=verdict)
        for restore, row, verdict in session.execute(query)
    ]


def drills_of_image(session: Session, *, config_id: str) -> Sequence[VerdictRow]:
    """The newest verdicts about receipts of drills with an image; they bear on no scope of it."""
    return session.scalars(_DRILLS, {"config_id": config_id}).all()


def restore_of_receipt(session: Session, *, sha256: str) -> Restore | None:
    """The restore that a receipt was written of, if it was one of ours."""
    return session.scalars(_RESTORE, {"sha256": sha256}).one_or_none()


def questions(session: Session, *, context_digest: str, rank_count: int) -> Sequence[OracleQuestionRow]:
    """The newest questions that restores of a snapshot can be asked."""
    row = OracleQuestionRow
    fits = {"context_digest": context_digest, "rank_count": rank_count}
    query = select(row).filter_by(**fits).order_by(row.created_at.desc(), row.sha256.desc()).limit(MOST_ALIKE)
    return session.scalars(query).all()
