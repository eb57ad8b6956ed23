"""SQL of oracle questions."""

from typing import Final

from sqlalchemy import Select, select, text, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.models import OracleQuestionRow
from app.web.paging import Cursor, Total, count_rows


def get_question(session: Session, *, sha256: str) -> OracleQuestionRow | None:
    return session.get(OracleQuestionRow, sha256)


def add_question(session: Session, *, question: dict[str, object]) -> bool:
    """Insert unless it is there; two requests with the same document do not collide."""
    row = OracleQuestionRow
    statement = insert(row).values(**question).on_conflict_do_nothing().returning(row.sha256)
    return session.execute(statement).scalar_one_or_none() is not None


# As text, because building it costs more than asking it, and every order asks.
_NEWEST: Final = text(
    """
    SELECT sha256 FROM oracle_question
     WHERE context_digest = :context_digest AND layout_sha256 = :layout_sha256 AND rank_count = :rank_count
     ORDER BY created_at DESC, sha256 DESC LIMIT 1
    """
)


def newest_question(
    session: Session, *, context_digest: str, layout_sha256: str, rank_count: int
) -> str | None:
    """The digest of the question registered last of those that can be asked of such a restore."""
    fits = {"context_digest": context_digest, "layout_sha256": layout_sha256, "rank_count": rank_count}
    return session.execute(_NEWEST, fits).scalar_one_or_none()


def list_questions(
    session: Session, *, context_digest: str | None, after: Cursor | None, limit: int
) -> list[OracleQuestionRow]:
    row = OracleQuestionRow
    query = _newest_first(context_digest=context_digest).limit(limit)
    if after is not None:
        query = query.where(tuple_(row.created_at, row.sha256) < (after.created_at, after.id))
    return list(session.scalars(query))


def count_questions(session: Session, *, context_digest: str | None) -> Total:
    return count_rows(session, _newest_first(context_digest=context_digest))


def _newest_first(*, context_digest: str | None) -> Select[OracleQuestionRow]:
    row = OracleQuestionRow
    query = select(row).order_by(row.created_at.desc(), row.sha256.desc())
    return query if context_digest is None else query.where(row.context_digest == context_digest)
