"""Questions: parsed by the core, kept as bytes under their SHA-256; which one a restore is asked."""

from typing import Final

from sqlalchemy.orm import Session

from app.core.oracle.question import OracleQuestion, parse_question
from app.errors import NotFound
from app.ledger import service as ledger
from app.models import OracleQuestionRow
from app.oracles import repository
from app.web.paging import Cursor, Total

_MOST_PARSED: Final = 256
_parsed: dict[str, OracleQuestion] = {}


def register_question(session: Session, *, raw: bytes, by: str) -> tuple[OracleQuestionRow, bool]:
    """Keep a question; the same bytes again are the same row.

    Returns:
        The row, and whether it is new.

    Raises:
        FormatError: the document is no question, or not spelled canonically.
    """
    question = parse_question(raw)
    row: dict[str, object] = {
        "sha256": str(question.sha256),
        "document": raw,
        "context_digest": str(question.context_digest),
        "layout_sha256": str(question.layout_sha256),
        "rank_count": question.ranks,
        "span_tokens": question.span_tokens,
        "expected": question.expected,
        "created_by": by,
    }
    created = repository.add_question(session, question=row)
    if created:
        rows: dict[str, list[ledger.RowKey]] = {"oracle_question": [str(question.sha256)]}
        ledger.record(
            session,
            kind="oracle-registered",
            by=by,
            rows=rows,
            facts={"context_digest": str(question.context_digest)},
        )
    return get_question(session, sha256=question.sha256), created


def get_question(session: Session, *, sha256: str) -> OracleQuestionRow:
    """The question with this digest.

    Raises:
        NotFound: none has it.
    """
    row = repository.get_question(session, sha256=sha256)
    if row is None:
        raise NotFound(f"oracle {sha256}: not registered")
    return row


def list_questions(
    session: Session, *, context_digest: str | None, after: Cursor | None, limit: int
) -> list[OracleQuestionRow]:
    """Questions, newest first, of one context digest or of all."""
    return repository.list_questions(session, context_digest=context_digest, after=after, limit=limit)


def count_questions(session: Session, *, context_digest: str | None) -> Total:
    """How many there are, counted up to a bound."""
    return repository.count_questions(session, context_digest=context_digest)


def default_question(
    session: Session, *, context_digest: str, layout_sha256: str, rank_count: int
) -> OracleQuestion | None:
    """What a restore of this snapshot with this layout is asked where its order names no question."""
    newest = repository.newest_question(
        session, context_digest=context_digest, layout_sha256=layout_sha256, rank_count=rank_count
    )
    return None if newest is None else known_question(session, sha256=newest)


def known_question(session: Session, *, sha256: str) -> OracleQuestion:
    """The core's value of a question, read and parsed once per process: a digest names one for ever.

    Raises:
        NotFound: neither this process nor the database knows it. That it is in *this* database is seen to by
            the foreign key of what refers to it.
    """
    known = _parsed.get(sha256)
    return known or _parsed_once(get_question(session, sha256=sha256))


def _parsed_once(row: OracleQuestionRow) -> OracleQuestion:
    known = _parsed.get(row.sha256)
    if known is None:
        known = parse_question(row.document)
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[row.sha256] = known
    return known
