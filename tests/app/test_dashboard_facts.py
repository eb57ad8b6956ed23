"""Pages of snapshots, images and the ledger."""

import re
from datetime import timedelta
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from app.core.canonical_json import JsonValue
from app.db.session import Database, database_time
from app.ledger import service as ledger
from app.models import Image, ManifestLocation, ManifestPin, Restore
from tests.app.browser import text_of
from tests.app.dashboard_rows import HOSTILE, PASSWORD

# Snapshots


def key_of(session_rows: Database) -> str:
    with session_rows.reading() as session:
        document = session.query(ManifestLocation).first()
        assert document is not None
        root = document.root_document
        return f"{root.context_digest}.{root.rank_zero_storage_key}"


def test_a_snapshot_says_what_is_pinned_gone_and_why_it_is_not_complete(
    filled: TestClient, database: Database
) -> None:
    key = key_of(database)
    with database.transaction() as session:
        found = {place.root_document.rank: place for place in session.query(ManifestLocation)}
        found[1].gone_at = database_time(session) - timedelta(hours=2)
        pin = {"stream_sha256": "e" * 64, "node_name": "node-a", "root_path": "/x"}
        session.add(ManifestPin(root_document_sha256=found[0].root_document_sha256, **pin))
    words = text_of(filled.get(f"/snapshots/{key}").text)
    assert "0 pinned 1 gone 2 h ago 2 present 3 present" in words
    assert "Rank 1: gone from node-a" in words
    assert "1 of 4 ranks; the others’ streams are digested anew" in words
    assert "Restore this snapshot" not in words
    assert "not complete" in text_of(filled.get("/snapshots").text)


def test_a_complete_snapshot_offers_its_restore(filled: TestClient, database: Database) -> None:
    html = filled.get(f"/snapshots/{key_of(database)}").text
    assert f'href="/restores/new?snapshot={key_of(database)}"' in html
    assert all(f"/srv/sparkcache/glm/rank{rank}" in html for rank in range(4))


def test_a_snapshot_that_is_gone_altogether_still_has_its_page(
    filled: TestClient, database: Database
) -> None:
    key = key_of(database)
    with database.transaction() as session:
        for place in session.query(ManifestLocation):
            place.gone_at = database_time(session)
    assert "No snapshot has been found" in text_of(filled.get("/snapshots").text)
    words = text_of(filled.get(f"/snapshots/{key}").text)
    assert words.count("gone from node-a") == 8


@pytest.mark.parametrize("key", ["x", "0.0", f"{'0' * 64}.{'0' * 64}", "%00"])
def test_an_unknown_snapshot_is_not_found(filled: TestClient, key: str) -> None:
    assert filled.get(f"/snapshots/{key}").status_code == 404


# Images


def test_an_image_shows_what_is_known_of_its_identity(filled: TestClient, database: Database) -> None:
    with database.reading() as session:
        image = session.query(Image).filter_by(origin="imported-record").one()
        session.expunge_all()
    html = filled.get(f"/images/{image.id}").text
    words = text_of(html)
    order = ["Index digest", "Manifest digest", "Config id", "Source identity"]
    assert sorted(order, key=words.index) == order
    assert f"SHA-256 {image.config_id}" in words
    assert html.count('<p class="muted">not known</p>') == 1
    assert "eabe7fd" in words
    assert "Retold, neither run nor judged here." in words
    assert f'href="/images/{image.id}"' in filled.get("/images").text
    assert filled.get("/images/00000000-0000-0000-0000-000000000000").status_code == 404


# The ledger


def test_the_ledger_lists_its_entries_newest_first(filled: TestClient, restores: dict[str, UUID]) -> None:
    html = filled.get("/ledger").text
    indices = [int(one) for one in re.findall(r'<th scope="row"[^>]*><a href="/ledger/(\d+)"', html)]
    assert indices == list(range(len(indices)))[::-1]
    words = text_of(html)
    assert "restore ended" in words
    assert "none is set, so nothing can be signed" in words
    entry = filled.get(f"/ledger/{indices[0]}").text
    assert "rank_attempt.result" in text_of(entry)
    assert "&#34;schema&#34;:&#34;sparkgate-ledger-leaf/v1&#34;" in entry
    assert f'href="/restores/{restores["restored"]}"' in entry
    assert filled.get(f"/ledger/{indices[0] + 1}").status_code == 404
    assert filled.get("/ledger?before=1").text.count('<th scope="row"') == 1
    assert filled.get(f"/ledger?before={2**62}").status_code == 200


def test_facts_of_an_entry_are_words(filled: TestClient, database: Database) -> None:
    with database.transaction() as session:
        layout = session.get_one(Restore, rows_restore(session)).layout_sha256
        facts: dict[str, JsonValue] = {
            "devices": ["a", "b"],
            "reason": "words that are longer than any digest is, and stay",
            "count": 4,
            "digest": "ab" * 32,
            "nothing": None,
        }
        ledger.record(session, kind="test-made", by="dana", rows={"layout": [layout]}, facts=facts)
    words = text_of(filled.get("/ledger?before=9999").text)
    told = ("count 4", "devices a, b", "digest abababababab…", "nothing null", f"reason {facts['reason']}")
    assert [fact for fact in told if fact not in words] == []


def rows_restore(session: Session) -> UUID:
    return session.query(Restore).limit(1).one().id


def test_a_changed_leaf_is_said_to_be_one(filled: TestClient, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        change = "UPDATE ledger_leaf SET document = :bytes WHERE index = 0"
        connection.execute(text(change), {"bytes": HOSTILE.encode() + b"\xff"})
    html = filled.get("/ledger").text
    assert "not a leaf: " in text_of(html)
    entry = filled.get("/ledger/0")
    assert entry.status_code == 200
    assert HOSTILE not in entry.text
    assert "sparkgate ledger audit" in entry.text


def test_a_log_with_a_hole_takes_no_page_with_it(filled: TestClient, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("DELETE FROM ledger_node"))
        connection.execute(text("DELETE FROM ledger_leaf WHERE index = 1"))
    for path in ("/", "/ledger", "/ledger/0"):
        assert filled.get(path).status_code == 200
    assert "not readable" in text_of(filled.get("/").text)
    assert "The log cannot be read" in text_of(filled.get("/ledger").text)


def test_only_who_may_export_evidence_reads_the_ledger(filled: TestClient) -> None:
    assert 'href="/ledger"' in filled.get("/").text
    filled.cookies.clear()
    filled.post("/login", data={"name": "vera", "password": PASSWORD})
    assert 'href="/ledger"' not in filled.get("/").text
    assert filled.get("/ledger").status_code == 403
    assert filled.get("/ledger/0").status_code == 403


def test_an_empty_ledger_explains_itself(client: TestClient, empty: TestClient, owner_engine: Engine) -> None:
    with owner_engine.begin() as connection:
        connection.execute(text("TRUNCATE ledger_leaf, ledger_node, ledger_checkpoint"))
    assert "No entry yet. The first fact makes the first one" in text_of(empty.get("/ledger").text)
    assert "Ledger : no entry yet" in text_of(empty.get("/").text)
