"""Every list, filter and count, and every look of the timetable, over 50,000 rows: what is read for it.

Rows read, not time: a plan that reads a bounded number of rows is quick at any length.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, select, text
from sqlalchemy.orm import Session

from app.db.migrate import upgrade
from app.embedded import DatabaseUrls, create_database, drop_database
from app.images import repository as images
from app.ledger.repository import log
from app.manifests import repository as manifests
from app.manifests.repository.whereabouts import rank_places
from app.models import Image, Restore, RootDocument, SnapshotRow, SourceIdentityRow
from app.restores import repository
from app.restores.repository import lists as restores
from app.restores.repository.lists import RestoreFilters
from app.sources import repository as sources
from app.web.paging import COUNTED, Cursor
from tests.bench.control_rows import fill
from tests.conftest import database_urls

ROWS = 50_000
PAGE = 51
# A page of snapshots reads four ranks and their places each; a count looks at 1001 rows and what is theirs.
MOST_READ = 6 * (COUNTED + 1)
NOW = datetime(2026, 11, 1, tzinfo=UTC)

Ask = Callable[[Session], Any]


@pytest.fixture(scope="module")
def filled(postgres_server: DatabaseUrls, worker_id: str) -> Iterator[Engine]:
    name = f"plans_{worker_id}"
    create_database(postgres_server.admin, name=name)
    urls = database_urls(postgres_server, name=name)
    upgrade(urls.owner)
    engine = create_engine(urls.owner)
    fill(engine, rows=ROWS)
    yield engine
    engine.dispose()
    drop_database(postgres_server.admin, name=name)


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What the driver executes meanwhile, whoever asks it."""
    seen: list[tuple[str, Any]] = []
    execute = psycopg.Cursor.execute

    def note(cursor: Any, statement: Any, parameters: Any = None, **rest: Any) -> Any:
        seen.append((statement, parameters))
        return execute(cursor, statement, parameters, **rest)

    with patch.object(psycopg.Cursor, "execute", note):
        yield seen


def rows_read(engine: Engine, ask: Ask) -> int:
    """The most rows that one node of one of the plans takes from a table or an index."""
    with statements() as seen, Session(engine) as session:
        ask(session)
    assert seen, "expected a statement"
    most = 0
    with engine.connect() as connection:
        for statement, parameters in seen:
            explained = connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}", parameters
            ).scalar_one()
            plan = json.loads(explained) if isinstance(explained, str) else explained
            most = max(most, *(_read(node) for node in _nodes(plan[0]["Plan"])))
    return most


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _read(node: dict[str, Any]) -> int:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def deep(model: Any, *, key: str = "id", share: float = 0.9) -> Callable[[Session], Cursor]:
    """The row so far down the list."""

    def find(session: Session) -> Cursor:
        column = getattr(model, key)
        query = select(model.created_at, column).order_by(model.created_at.desc(), column.desc())
        created_at, row_id = session.execute(query.offset(int(ROWS / 4 * share)).limit(1)).one()
        return Cursor(created_at=created_at, id=row_id)

    return find


FILTERS: list[dict[str, Any]] = [
    {},
    {"state": "waiting"},
    {"state": "publishing"},
    {"state": "resident"},
    {"state": "finished"},
    {"outcome": "restored"},
    {"outcome": "corrupt"},
    {"outcome": "failed"},
    {"state": "finished", "outcome": "failed"},
    {"state": "finished", "outcome": "restored"},
    {"state": "resident", "outcome": "restored"},
    {"state": "waiting", "outcome": "corrupt"},
]
# By answer and drill: what is rare among many as well as many, and what there is nothing of.
OF_KINDS: list[dict[str, Any]] = [
    {"semantic": "right"},
    {"semantic": "wrong"},
    {"semantic": "unanswered"},
    {"semantic": "not asked"},
    {"drill": True},
    {"drill": False},
    {"semantic": "wrong", "drill": False},
    {"semantic": "right", "drill": True},
    {"semantic": "not asked", "drill": True},
    {"outcome": "failed", "drill": False},
    {"outcome": "failed", "semantic": "not asked"},
    {"outcome": "restored", "semantic": "wrong"},
    {"state": "finished", "outcome": "failed", "semantic": "wrong", "drill": False},
    {"state": "finished", "drill": False},
    {"state": "resident", "semantic": "right"},
    {"state": "resident", "outcome": "restored", "semantic": "not asked"},
    {"state": "waiting", "drill": True},
]
# So many of the kinds that may fit occur together, and of each a page may be read.
KINDS = 11


@pytest.mark.parametrize("chosen", FILTERS + OF_KINDS, ids=str)
@pytest.mark.parametrize("share", [None, 0.5, 0.99])
def test_restores(filled: Engine, chosen: dict[str, Any], share: float | None) -> None:
    filters = RestoreFilters(**chosen)
    with Session(filled) as session:
        after = deep(Restore, share=share)(session) if share is not None else None

    def ask(session: Session) -> None:
        restores.list_restores(session, filters=filters, after=after, limit=PAGE)

    assert rows_read(filled, ask) <= (4 if chosen in FILTERS else KINDS) * PAGE


@pytest.mark.parametrize("chosen", FILTERS + OF_KINDS, ids=str)
def test_count_of_restores(filled: Engine, chosen: dict[str, Any]) -> None:
    def ask(session: Session) -> None:
        total = restores.count_restores(session, filters=RestoreFilters(**chosen))
        assert total.count <= COUNTED

    # Where only what is finished is asked for, what is resident is read beside it, and there is little of it.
    assert rows_read(filled, ask) <= COUNTED + 1 + (ROWS // 1000 if "state" in chosen else 0)


def test_few_wrong_answers_stand_among_many_drills(filled: Engine) -> None:
    """What the rows above are made for: were nothing rare, every plan would be quick."""
    with Session(filled) as session:
        counts = [
            restores.count_restores(session, filters=RestoreFilters(semantic="wrong", drill=drill)).count
            for drill in (True, False)
        ]
    assert counts == [ROWS // 250 - 1, 1]


LISTS: dict[str, tuple[Callable[[Session], Cursor], Callable[[Session, Cursor | None], Any]]] = {
    "images": (
        deep(Image),
        lambda session, after: images.list_images(session, digests={}, after=after, limit=PAGE),
    ),
    "sources": (
        deep(SourceIdentityRow),
        lambda session, after: sources.list_sources(session, after=after, limit=PAGE),
    ),
    "documents": (
        deep(RootDocument, key="sha256"),
        lambda session, after: manifests.list_documents(
            session, context_digest=None, after=after, limit=PAGE
        ),
    ),
    "snapshots": (
        deep(SnapshotRow),
        lambda session, after: manifests.snapshots(session, after=after, limit=PAGE),
    ),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("is_deep", [False, True])
def test_other_lists(filled: Engine, name: str, is_deep: bool) -> None:
    find, ask = LISTS[name]
    with Session(filled) as session:
        after = find(session) if is_deep else None
    assert rows_read(filled, lambda session: ask(session, after)) <= 4 * PAGE


COUNTS: dict[str, Ask] = {
    "images": lambda session: images.count_images(session, digests={}),
    "sources": sources.count_sources,
    "snapshots": manifests.count_snapshots,
}


@pytest.mark.parametrize("name", COUNTS)
def test_other_counts(filled: Engine, name: str) -> None:
    assert rows_read(filled, COUNTS[name]) <= MOST_READ


def test_places_of_a_page_of_snapshots(filled: Engine) -> None:
    with Session(filled) as session:
        ids: list[UUID] = [row.id for row in manifests.snapshots(session, after=None, limit=PAGE)]
    assert len(ids) == PAGE
    assert rows_read(filled, lambda session: rank_places(session, snapshot_ids=ids, silence_s=30)) <= 4 * PAGE


def test_snapshots_of_a_token_prefix(filled: Engine) -> None:
    with Session(filled) as session:
        context = session.scalars(select(SnapshotRow.context_digest).limit(1)).one()

    def ask(session: Session) -> None:
        found = manifests.snapshots_of(session, context_digest=context, rank_zero_storage_key=None)
        assert len(found) == 1

    assert rows_read(filled, ask) <= 4 * PAGE


def test_documents_of_a_snapshot(filled: Engine) -> None:
    with Session(filled) as session:
        context = session.scalars(select(RootDocument.context_digest).limit(1)).one()

    def ask(session: Session) -> None:
        found = manifests.list_documents(session, context_digest=context, after=None, limit=PAGE)
        assert len(found) == 4

    assert rows_read(filled, ask) <= 4 * PAGE


@pytest.mark.parametrize("start", [0, ROWS // 2, ROWS - 100])
def test_ledger_entries(filled: Engine, start: int) -> None:
    assert rows_read(filled, lambda session: log.entries(session, start=start, limit=100)) <= 100


TIMETABLE: dict[str, Ask] = {
    "overdue": lambda session: repository.overdue_restores(session, now=NOW),
    "unclaimed": lambda session: repository.unclaimed_due(session, now=NOW),
    "resident": lambda session: repository.resident_due(session, now=NOW),
    "waiting": lambda session: repository.next_restores(session, considered=100),
    "readbacks": lambda session: repository.overdue_readbacks(
        session, created_before=NOW - timedelta(hours=1)
    ),
}


@pytest.mark.parametrize("name", TIMETABLE)
def test_the_timetable_reads_what_is_open(filled: Engine, name: str) -> None:
    """Every second: it must not read the history."""
    with filled.connect() as connection:
        open_rows = connection.execute(
            text("SELECT count(*) FROM restore WHERE state <> 'finished'")
        ).scalar_one()
    assert rows_read(filled, TIMETABLE[name]) <= 4 * open_rows


def test_a_count_ends_at_its_bound(filled: Engine) -> None:
    with Session(filled) as session:
        everything = restores.count_restores(session, filters=RestoreFilters())
        few = restores.count_restores(session, filters=RestoreFilters(state="resident"))
    assert (str(everything), everything.count, everything.is_exact) == ("1000+", COUNTED, False)
    assert (few.is_exact, str(few)) == (True, str(few.count))
    assert few.count == len([n for n in range(1, ROWS + 1) if n % 10007 == 3])
