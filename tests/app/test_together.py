"""Several statements in one trip: answered in order, each with its own look at the data."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from app.config import Settings
from app.db.session import Database, after_commit, open_database
from app.db.together import Question, ask_together, send_with_next

ADD = (
    "INSERT INTO layout (sha256, document, group_count, layer_count, created_by)"
    " VALUES (%(sha256)s, %(document)s, 1, 1, 'ada')"
)
COUNT = Question(sql="SELECT count(*) AS found FROM layout")
LOCK = Question(sql="SELECT pg_advisory_xact_lock(4711)")


def layout(letter: str) -> Question:
    return Question(sql=ADD, given={"sha256": letter * 64, "document": b"%s {}"})


@pytest.fixture
def other(settings: Settings) -> Iterator[Database]:
    opened = open_database(settings)
    yield opened
    opened.dispose()


def test_each_question_has_its_rows_and_sees_what_came_before(database: Database) -> None:
    with database.transaction() as session:
        none, one, two, pair = ask_together(
            session, layout("a"), COUNT, Question(sql="SELECT 1 AS first UNION SELECT 2 ORDER BY 1"), COUNT
        )
        assert none == []
        assert [row.found for row in one] == [1]
        assert [row.first for row in two] == [1, 2]
        assert [row.found for row in pair] == [1]
    with database.reading() as session:
        assert ask_together(session, COUNT)[0][0].found == 1
        assert ask_together(session) == []


def test_a_question_after_a_lock_sees_what_was_committed_under_it(
    database: Database, other: Database
) -> None:
    """The ledger's edge is asked in the same trip as its lock."""
    counted: list[int] = []

    def wait() -> None:
        with other.transaction() as session:
            counted.append(ask_together(session, LOCK, COUNT)[1][0].found)

    with database.transaction() as session:
        ask_together(session, LOCK, layout("a"))
        thread = threading.Thread(target=wait)
        thread.start()
        waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        while not session.execute(waiting).scalar_one():
            assert thread.is_alive()
        ask_together(session, layout("b"))
    thread.join(20)
    assert counted == [2]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (layout("b"), IntegrityError),
        (Question(sql="SELECT CAST(%(x)s AS bigint)", given={"x": "word"}), DataError),
    ],
)
def test_an_error_is_the_one_that_execute_would_raise_and_tells_no_values(
    database: Database, wrong: Question, kind: type[DBAPIError]
) -> None:
    with pytest.raises(kind) as caught, database.transaction() as session:
        ask_together(session, layout("a"), layout("b"), wrong, COUNT)
    assert wrong.sql in str(caught.value)
    assert "document': b" not in str(caught.value)
    assert not caught.value.connection_invalidated
    with database.transaction() as session:
        assert ask_together(session, COUNT)[0][0].found == 0


def test_a_savepoint_undoes_what_failed_together(database: Database) -> None:
    with database.transaction() as session:
        ask_together(session, layout("a"))
        with pytest.raises(IntegrityError), session.begin_nested():
            ask_together(session, layout("b"), layout("a"))
        assert ask_together(session, COUNT)[0][0].found == 1


def test_a_connection_that_dies_on_the_way_is_thrown_away(database: Database) -> None:
    die = Question(sql="SELECT pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(OperationalError) as caught, database.transaction() as session:
        ask_together(session, layout("a"), die, COUNT)
    assert caught.value.connection_invalidated
    with database.transaction() as session:
        assert ask_together(session, COUNT)[0][0].found == 0


def test_what_waits_goes_in_front_of_the_next(database: Database) -> None:
    with database.transaction() as session:
        send_with_next(session, layout("a"), layout("b"))
        assert ask_together(session, COUNT)[0][0].found == 2
        send_with_next(session, layout("c"))
        assert session.execute(text("SELECT count(*) FROM layout")).scalar_one() == 3
        send_with_next(session, layout("d"))
        savepoint = session.begin_nested()
        ask_together(session, layout("e"))
        savepoint.rollback()
        send_with_next(session, layout("f"))
    with database.reading() as session:
        assert ask_together(session, COUNT)[0][0].found == 5


def test_what_waits_is_committed_with_the_rest_or_nothing_is(database: Database) -> None:
    told: list[str] = []
    with pytest.raises(IntegrityError), database.transaction() as session:  # noqa: PT012
        ask_together(session, layout("a"))
        after_commit(session, lambda: told.append("committed"))
        send_with_next(session, layout("b"), layout("a"))
    with database.transaction() as session:
        assert ask_together(session, COUNT)[0][0].found == 0
        after_commit(session, lambda: told.append("committed"))
        send_with_next(session, layout("b"))
    assert told == ["committed"]
    with pytest.raises(ZeroDivisionError), database.transaction() as session:  # noqa: PT012
        send_with_next(session, layout("c"))
        1 / 0  # noqa: B018
    with database.reading() as session:
        assert ask_together(session, COUNT)[0][0].found == 1
