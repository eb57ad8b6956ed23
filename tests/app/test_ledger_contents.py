"""Entries with the rows they keep, and where in the log something stands."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from app.core.ledger.leaf import parse_leaf, row_digest
from app.db.session import Database
from app.errors import NotFound
from app.ledger.repository.views import VIEWS
from app.ledger.service import extent
from app.ledger.service.contents import Entry, entries_with_rows
from app.models import LedgerLeaf, ReceiptRow
from tests.app.evidence_rows import add_papers, own_papers

RAW = {"verdict": "document"}


@pytest.fixture
def filled(database: Database) -> Database:
    for paper in own_papers():
        with database.transaction() as session:
            add_papers(session, [paper])
    return database


def entries(database: Database, *, size: int, views: frozenset[str]) -> list[Entry]:
    with database.reading() as session:
        return list(entries_with_rows(session, size=size, views=views, raw=RAW))


def test_every_row_has_the_digest_its_leaf_says(filled: Database) -> None:
    with filled.reading() as session:
        size = extent.size_now(session)
    found = entries(filled, size=size, views=frozenset(VIEWS))
    assert [entry.index for entry in found] == list(range(size))
    for entry in found:
        leaf = parse_leaf(entry.document, subject="leaf")
        said = {(view, key): digest for view, rows in leaf.rows.items() for key, digest in rows.items()}
        assert said == {(row.view, row.key): row_digest(row.view, values=row.columns) for row in entry.rows}
        assert all((row.document is not None) == (row.view == "verdict") for row in entry.rows)


def test_only_so_many_entries_and_only_the_views_asked_for(filled: Database) -> None:
    found = entries(filled, size=3, views=frozenset({"receipt"}))
    assert [entry.index for entry in found] == [0, 1, 2]
    assert {row.view for entry in found for row in entry.rows} == {"receipt"}


def test_many_entries_come_in_parts(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled.reading() as session:
        size = extent.size_now(session)
    whole = entries(filled, size=size, views=frozenset(VIEWS))
    monkeypatch.setattr("app.ledger.service.contents._ROWS_TOGETHER", 1)
    assert entries(filled, size=size, views=frozenset(VIEWS)) == whole


def test_an_instant_has_a_first_entry(filled: Database) -> None:
    with filled.reading() as session:
        leaves = session.query(LedgerLeaf).order_by(LedgerLeaf.index).all()
        size = len(leaves)
        for leaf in leaves:
            first = extent.first_from(session, at=leaf.created_at, size=size)
            # Leaves of one transaction have one time.
            assert leaves[first].created_at == leaf.created_at
            assert first == 0 or leaves[first - 1].created_at < leaf.created_at
        later = leaves[-1].created_at + timedelta(microseconds=1)
        assert extent.first_from(session, at=later, size=size) == size


def test_the_leaf_of_a_receipt_is_found_from_the_time_it_came_in(filled: Database) -> None:
    with filled.reading() as session:
        for receipt in session.query(ReceiptRow):
            index = extent.leaf_of(session, view="receipt", key=receipt.sha256, since=receipt.created_at)
            leaf = session.get(LedgerLeaf, index)
            assert leaf is not None
            assert receipt.sha256 in parse_leaf(leaf.document, subject="leaf").rows["receipt"]
        assert extent.leaf_of(session, view="receipt", key="0" * 64, since=receipt.created_at) is None


def test_a_leaf_far_from_the_time_of_its_row_is_found_too(
    filled: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ledger.repository.log._NEAR", 2)
    with filled.reading() as session:
        first = session.query(LedgerLeaf).filter(LedgerLeaf.index == 0).one().created_at
        newest = session.query(ReceiptRow).order_by(ReceiptRow.created_at.desc()).limit(1).one()
        near = extent.leaf_of(session, view="receipt", key=newest.sha256, since=newest.created_at)
        assert near is not None
        assert near > 6
        assert extent.leaf_of(session, view="receipt", key=newest.sha256, since=first) == near


def test_a_log_with_a_gap_is_said_to_have_one(filled: Database, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("DELETE FROM ledger_leaf WHERE index = 1"))
    with filled.reading() as session:
        at = session.query(LedgerLeaf).filter(LedgerLeaf.index == 0).one().created_at
        with pytest.raises(NotFound, match="ledger entry 1: expected one"):
            extent.first_from(session, at=at + timedelta(microseconds=1), size=2)
