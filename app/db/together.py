"""Several statements in one trip to the database: sent together, answered in their order.

A trip costs as much as a small statement, and more where processes share a core: each is two changes of who
runs. The driver's pipeline saves all but one of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

_NOTHING: Final[Mapping[str, Any]] = {}
_WAITING: Final = "sparkgate.waiting"
_IS_BY_KEYS: Final = "sparkgate.by_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One statement in the driver's spelling, ``%(name)s``, and what it is given."""

    sql: str
    given: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


_COMMIT: Final = Question(sql="COMMIT")
_BY_KEYS: Final = Question(
    sql="SELECT set_config('enable_seqscan', 'off', true) AS by_index, "
    "set_config('plan_cache_mode', 'force_generic_plan', true) AS once"
)


def ask_together(session: Session, *questions: Question) -> list[list[Any]]:
    """The rows of each question, asked in the transaction of `session`.

    As if asked one after the other: each sees what was committed when its turn came. After one that fails
    the others are not run. Nothing is flushed; whoever wants that does it before. What waits
    (`send_with_next`) goes in front.

    Raises:
        DBAPIError: as `Session.execute` does, without what was given, which may be secret.
    """
    waiting: Sequence[Question] = session.info.pop(_WAITING, ())
    answers = _asked(session, [*waiting, *questions]) if waiting or questions else []
    return answers[len(waiting) :]


def send_with_next(session: Session, *questions: Question) -> None:
    """Have statements that nobody waits for sent in front of what this transaction sends next: more of these,
    a statement of the session, a savepoint, at the latest its commit. What is wrong with one is raised there.

    Only in `Database.transaction`; past the session (`session.connection()`) nobody sees them done.
    """
    session.info.setdefault(_WAITING, []).extend(questions)


def look_up_by_keys(session: Session) -> None:
    """Until the transaction ends, statements are planned once for a connection, and find rows by an index.

    For what is asked all the time and always by keys: a plan made while a table was one page would read the
    whole of it ever after, and to plan a question about a list anew takes longer than to answer it.
    """
    if not session.info.get(_IS_BY_KEYS):
        session.info[_IS_BY_KEYS] = True
        send_with_next(session, _BY_KEYS)


def send_waiting(session: Session) -> None:
    """Send what waits, if anything does."""
    ask_together(session)


def send_and_commit(session: Session) -> None:
    """Send what waits and commit, in one trip: whoever waits for our locks waits no longer than that.

    Nothing is done where nothing waits: then committing is a trip of its own. What the session does to commit
    finds it done.
    """
    if session.info.get(_WAITING):
        ask_together(session, _COMMIT)


def _asked(session: Session, questions: Sequence[Question]) -> list[list[Any]]:
    connection = session.connection()
    driver: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
    cursors = [driver.cursor(row_factory=namedtuple_row) for _ in questions]
    try:
        with driver.pipeline():
            for cursor, question in zip(cursors, questions, strict=True):
                cursor.execute(question.sql, question.given or None)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]
    except psycopg.Error as error:
        is_lost = driver.closed or driver.broken
        if is_lost:
            connection.invalidate(error)
        told = DBAPIError.instance(
            "; ".join(question.sql for question in questions),
            None,
            error,
            psycopg.Error,
            connection_invalidated=is_lost,
            dialect=connection.dialect,
        )
        raise told from error
