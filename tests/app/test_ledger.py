"""Appending: in the transaction of the fact, without holes, whoever else appends."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.core.ledger.leaf import parse_leaf
from app.core.ledger.merkle import Frontier, Node, leaf_hash
from app.db.session import Database, before_commit
from app.ledger import service as ledger
from app.ledger.repository import log
from app.models import Layout, LedgerLeaf, LedgerNode


def add_layout(database: Database, number: int, *, fail: bool = False) -> None:
    with database.transaction() as session:
        sha256 = f"{number:064x}"
        row = Layout(sha256=sha256, document=b"{}", group_count=1, layer_count=number, created_by="ada")
        session.add(row)
        ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})
        if fail:
            raise ArithmeticError


def stored(database: Database) -> tuple[list[LedgerLeaf], dict[Node, bytes]]:
    with database.reading() as session:
        leaves = list(session.query(LedgerLeaf).order_by(LedgerLeaf.index))
        nodes = {Node(row.level, row.position): bytes.fromhex(row.hash) for row in session.query(LedgerNode)}
        session.expunge_all()
    return leaves, nodes


def check_tree(leaves: list[LedgerLeaf], nodes: dict[Node, bytes]) -> None:
    """Indices without holes, and every complete subtree, no more."""
    frontier, expected = Frontier(), {}
    for index, leaf in enumerate(leaves):
        assert leaf.index == index
        assert bytes.fromhex(leaf.leaf_hash) == leaf_hash(leaf.document)
        expected.update(frontier.append(leaf_hash(leaf.document)))
    assert nodes == expected


def test_a_fact_and_its_leaf(database: Database) -> None:
    add_layout(database, 7)
    (leaf,), nodes = stored(database)
    parsed = parse_leaf(leaf.document, subject="leaf")
    assert (parsed.kind, parsed.by, parsed.at) == ("layout-registered", "ada", leaf.created_at)
    assert list(parsed.rows) == ["layout"]
    assert list(parsed.rows["layout"]) == [f"{7:064x}"]
    assert nodes == {}


def test_leaves_have_no_holes(database: Database) -> None:
    for number in range(21):
        add_layout(database, number)
        check_tree(*stored(database))


def test_the_end_of_the_log_is_looked_up_however_small_the_log_was(
    database: Database, owner_engine: Engine
) -> None:
    """A connection keeps its plan while the log grows: one made for a log of no page would read all of it
    each time, and everybody waits meanwhile."""
    with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE ledger_leaf, ledger_node"))
    for number in range(63):
        add_layout(database, number)
    read = text(
        "SELECT relname, seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_xact_user_tables "
        "WHERE relname LIKE 'ledger%'"
    )
    with database.transaction() as session:
        before = {row.relname: row.rows for row in session.execute(read)}
        edge = log.ask_and_lock(session)[1]
        rows = {row.relname: row.rows - before[row.relname] for row in session.execute(read)}
    assert (edge.size, sorted(edge.hashes)) == (63, [0, 1, 2, 3, 4, 5])
    assert (rows["ledger_leaf"], rows["ledger_node"]) == (1, 5)


def test_a_transaction_that_is_rolled_back_leaves_no_trace(database: Database) -> None:
    add_layout(database, 1)
    with pytest.raises(ArithmeticError):
        add_layout(database, 2, fail=True)
    add_layout(database, 3)
    leaves, nodes = stored(database)
    check_tree(leaves, nodes)
    assert [list(parse_leaf(leaf.document, subject="leaf").rows["layout"]) for leaf in leaves] == [
        [f"{1:064x}"],
        [f"{3:064x}"],
    ]
    with database.reading() as session:
        assert session.get(Layout, f"{2:064x}") is None


def test_eight_threads_append_at_once(database: Database) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: add_layout(database, number), range(200)))
    leaves, nodes = stored(database)
    check_tree(leaves, nodes)
    assert len(leaves) == 200
    mentioned = [key for leaf in leaves for key in parse_leaf(leaf.document, subject="leaf").rows["layout"]]
    assert sorted(mentioned) == [f"{number:064x}" for number in range(200)]
    assert [leaf.created_at for leaf in leaves] == sorted(leaf.created_at for leaf in leaves)


def test_records_of_one_kind_are_one_leaf(database: Database) -> None:
    with database.transaction() as session:
        for number in (1, 2):
            row = Layout(
                sha256=f"{number:064x}", document=b"{}", group_count=1, layer_count=1, created_by="ada"
            )
            session.add(row)
            ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})
    (leaf,), _ = stored(database)
    assert len(parse_leaf(leaf.document, subject="leaf").rows["layout"]) == 2


def test_a_row_that_is_not_there_is_refused_with_everything(database: Database) -> None:
    with (
        pytest.raises(LookupError, match=r"layout: expected row f+, found none"),
        database.transaction() as s,
    ):
        ledger.record(s, kind="layout-registered", by="ada", rows={"layout": ["f" * 64]})
    with pytest.raises(LookupError, match="found nothing"), database.transaction() as session:
        ledger.record(session, kind="layout-registered", by="ada", rows={"nothing": []})
    assert stored(database) == ([], {})


def test_no_fact_is_committed_before_its_leaf(database: Database) -> None:
    """Neither by a commit of one's own, nor where every statement is one."""
    row = Layout(sha256=f"{1:064x}", document=b"{}", group_count=1, layer_count=1, created_by="ada")

    def commit_early() -> None:
        with database.transaction() as session:
            session.add(row)
            ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})
            session.commit()

    with pytest.raises(RuntimeError, match="found before its last actions"):
        commit_early()
    with database.single() as session, pytest.raises(RuntimeError, match="commits every statement"):
        ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})
    with database.reading() as session:
        assert session.query(Layout).count() == 0
    assert stored(database) == ([], {})


def test_what_is_recorded_by_a_last_action_gets_its_leaf_too(database: Database) -> None:
    def record_late(session: Session) -> None:
        row = Layout(sha256=f"{1:064x}", document=b"{}", group_count=1, layer_count=1, created_by="ada")
        session.add(row)
        ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})

    with database.transaction() as session:
        before_commit(session, record_late)
    assert [leaf.kind for leaf in stored(database)[0]] == ["layout-registered"]


def test_a_savepoint_is_no_commit(database: Database) -> None:
    with database.transaction() as session:
        row = Layout(sha256=f"{1:064x}", document=b"{}", group_count=1, layer_count=1, created_by="ada")
        session.add(row)
        ledger.record(session, kind="layout-registered", by="ada", rows={"layout": [row]})
        with session.begin_nested():
            session.flush()
    assert len(stored(database)[0]) == 1
