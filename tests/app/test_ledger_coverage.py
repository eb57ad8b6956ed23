"""After a trip every fact and every ended state stands in a leaf, with the digest it has now."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from app.config import Settings
from app.core.ledger.leaf import parse_leaf
from app.core.oracle.synthesis import SynthesizedOracle
from app.db.session import Database
from app.ledger.repository.rows import stream_due
from app.ledger.repository.views import NOT_COVERED, VIEWS
from app.models import FACT_TABLES, PASSING_TABLES, STATE_TABLES, Base, LedgerLeaf
from app.restores.service.receipt import write_receipts
from tests.app.asked import AskedRing
from tests.app.evidence_documents import raw, receipt
from tests.app.evidence_exports import export_and_give_up
from tests.app.ring import Ring

# Every view that a trip with all its endings fills.
ALL_VIEWS = frozenset(VIEWS)


def covered(session: Session) -> dict[tuple[str, str], str]:
    """(view, key) → the digest of the latest leaf that mentions the row."""
    found: dict[tuple[str, str], str] = {}
    for leaf in session.query(LedgerLeaf).order_by(LedgerLeaf.index):
        for view, rows in parse_leaf(leaf.document, subject="leaf").rows.items():
            found.update({(view, key): digest for key, digest in rows.items()})
    return found


def due(session: Session) -> dict[tuple[str, str], str]:
    return {
        (name, key): digest for name, view in VIEWS.items() for key, digest in stream_due(session, view=view)
    }


def test_every_column_is_in_a_view_or_has_a_reason() -> None:
    inside = {f"{view.model.__tablename__}.{name}" for view in VIEWS.values() for name in view.columns}
    for model in (*FACT_TABLES, *STATE_TABLES):
        if f"{model.__tablename__}.*" in NOT_COVERED:
            continue
        for column in model.__table__.columns:
            name = f"{model.__tablename__}.{column.name}"
            assert (name in inside) != (name in NOT_COVERED), name
    outside = {table.__tablename__ for table in PASSING_TABLES}
    assert outside == {"web_session", "idempotency_record", "image_unjudged"}, "is what is new here evidence?"
    assert Base.metadata.tables.keys() == outside | {
        model.__tablename__ for model in (*FACT_TABLES, *STATE_TABLES)
    }


def run_every_ending(ring: Ring, database: Database) -> None:
    """Restores that end restored and given back, failed and cancelled; a readback; every registration."""
    headers = ring.operator_headers
    ring.pin(0).raise_for_status()
    source = {"repository": "https://example.org/engine", "commit": "a" * 40}
    source_id = (
        ring.client.post("/api/v1/sources", headers=headers, json=source).raise_for_status().json()["id"]
    )
    image = {"title": "an image", "config_id": "b" * 64, "source_id": source_id}
    ring.client.post("/api/v1/images", headers=headers, json=image).raise_for_status()
    resident, ranks = ring.run_to_resident()
    path = f"/api/v1/restores/{resident}/readbacks"
    readback = ring.client.post(path, headers=headers).raise_for_status().json()["id"]
    layers = [{"name": "layer", "pages": 1, "bytes": 16, "sha256": "c" * 64}]
    for rank in ranks:
        body = {"layers": layers}
        rank.say(f"readbacks/{readback}", json=body).raise_for_status()
    ring.client.post(path, headers=headers).raise_for_status()  # still open when the pages go
    ring.client.post(f"/api/v1/restores/{resident}/discard", headers=headers).raise_for_status()
    for rank in ranks:
        rank.say("released").raise_for_status()
    failed = ring.start_restore()
    claimed = ring.claim_all(failed)
    claimed[0].fail().raise_for_status()
    for rank in claimed[1:]:
        rank.say("retracted").raise_for_status()
    retry = ring.client.post(
        f"/api/v1/restores/{failed['id']}/retry", headers={**headers, "Idempotency-Key": "again"}
    )
    again = retry.raise_for_status().json()["id"]
    ring.client.post(f"/api/v1/restores/{again}/cancel", headers=headers).raise_for_status()


def bring_evidence(ring: Ring, database: Database, settings: Settings) -> None:
    """A receipt with a place and an image, a declaration, an exception, an operational restore that fails,
    and the receipts of all restores."""
    headers = ring.operator_headers
    place = {"repository": "r", "path": "v.json", "commit": "c" * 40}
    sha = ring.client.post("/api/v1/receipts", headers=headers, params=place, content=raw(receipt()))
    meant = {"receipts": [sha.raise_for_status().json()["sha256"]], "reason": "by hand"}
    ring.client.post("/api/v1/declarations", headers=headers, json=meant).raise_for_status()
    identity = ring.stored.identities[0]
    exception = {
        "image_config_id": "1a" * 32,
        "reason": "ticket 4711",
        "expires_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        "scope": {
            "target": identity.target_checkpoint,
            "draft": identity.draft_checkpoint,
            "tp": identity.tp_degree,
            "dcp": identity.dcp_degree,
            "publication_schema": "snapshot-v1",
            "manifest_schema": "sparkcache-page-snapshot-manifest/v2",
        },
    }
    granted = ring.client.post("/api/v1/exceptions", headers=headers, json=exception).raise_for_status()
    restore = ring.start_restore(purpose="operational", image_config_id="1a" * 32)
    ring.client.post(f"/api/v1/restores/{restore['id']}/cancel", headers=headers).raise_for_status()
    ring.client.post(
        f"{granted.headers['Location']}/end", headers=headers, json={"reason": "no longer"}
    ).raise_for_status()
    profile = {"schema": "sparkgate-overlay-anchors/v1", "files": {"image/entrypoint.py": "d" * 64}}
    ring.client.post(
        "/api/v1/profiles/documents", headers=headers, params={"path": "anchors.json"}, content=raw(profile)
    ).raise_for_status()
    write_receipts(database, settings=settings)


def ask_and_drill(ring: Ring, asked_store: SynthesizedOracle) -> None:
    """Another snapshot on the same node, with a question: asked once, and once with a fault put in."""
    asked = AskedRing(Ring(ring.client, keys=ring.keys, stored=asked_store.snapshot).join(), made=asked_store)
    asked.register().raise_for_status()
    for changes in ({}, {"fault": {"name": "swap-pages", "rank": 0}}):
        asked.follow(*asked.run(**changes))


def test_a_full_trip_is_covered(
    ring: Ring, database: Database, settings: Settings, asked_store: SynthesizedOracle, tmp_path: Path
) -> None:
    run_every_ending(ring, database)
    bring_evidence(ring, database, settings)
    ask_and_drill(ring, asked_store)
    folder = {"evidence_folder": tmp_path / "bundles"}
    export_and_give_up(database, settings=settings.model_copy(update=folder))
    with database.reading() as session:
        expected, found = due(session), covered(session)
        assert {view for view, _ in expected} == ALL_VIEWS
        assert {name: found.get(name) for name in expected} == expected
        assert found == expected


def test_a_restore_that_runs_is_covered_as_far_as_it_is_fixed(ring: Ring, database: Database) -> None:
    ring.claim_all(ring.start_restore())
    with database.reading() as session:
        assert covered(session) == due(session)
