"""The proof of one receipt: verified with the core alone, against its own size."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text

from app.config import Settings
from app.core.ledger.checkpoint import NoteVerifier, decode_base64
from app.core.ledger.leaf import parse_leaf
from app.core.ledger.proof import parse_inclusion, verify_inclusion_proof
from app.db.session import Database
from tests.app.evidence_exports import with_key
from tests.app.evidence_rows import add_papers, own_papers


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return with_key(settings, tmp_path)


@pytest.fixture
def auditor(client: TestClient, keys: dict[str, str], database: Database) -> TestClient:
    for paper in own_papers():
        with database.transaction() as session:
            add_papers(session, [paper])
    client.headers["Authorization"] = f"Bearer {keys['auditor']}"
    return client


def receipts(auditor: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = auditor.get("/api/v1/receipts").json()["receipts"]
    return found


def test_every_receipt_proves_itself(auditor: TestClient) -> None:
    verifier = NoteVerifier.parse(auditor.get("/api/v1/ledger").json()["key"])
    for receipt in receipts(auditor):
        proof = auditor.get(f"/api/v1/receipts/{receipt['sha256']}/proof").raise_for_status()
        index = parse_inclusion(proof.content).index
        entry = auditor.get(f"/api/v1/ledger/entries/{index}").json()
        document = decode_base64(entry["document"], subject="document")
        verify_inclusion_proof(proof.content, document=document, verifier=verifier)
        assert receipt["sha256"] in parse_leaf(document, subject="leaf").rows["receipt"]


def test_a_proof_of_a_size_never_changes(auditor: TestClient) -> None:
    path = f"/api/v1/receipts/{receipts(auditor)[0]['sha256']}/proof"
    size = auditor.get("/api/v1/ledger").json()["size"]
    first = auditor.get(path, params={"size": size})
    assert "immutable" in first.headers["cache-control"]
    assert auditor.get(path, params={"size": size}).content == first.content
    too_small = auditor.get(path, params={"size": 1})
    assert (too_small.status_code, too_small.json()["code"]) == (400, "ledger-out-of-range")


def test_who_may_only_look_gets_no_proof(auditor: TestClient, keys: dict[str, str]) -> None:
    path = f"/api/v1/receipts/{receipts(auditor)[0]['sha256']}/proof"
    assert auditor.get(path, headers={"Authorization": f"Bearer {keys['viewer']}"}).status_code == 403


def test_a_receipt_that_is_not_there_and_one_that_no_leaf_mentions(
    auditor: TestClient, owner_engine: Engine
) -> None:
    assert auditor.get(f"/api/v1/receipts/{'0' * 64}/proof").status_code == 404
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO receipt SELECT repeat('9', 64), document, canonical_sha256, byte_count, "
                "schema_name, kind, family, capability, image_config_id, release, title, keys, created_at, "
                "created_by FROM receipt LIMIT 1"
            )
        )
    answer = auditor.get(f"/api/v1/receipts/{'9' * 64}/proof")
    assert (answer.status_code, "ledger audit" in answer.json()["detail"]) == (404, True)
