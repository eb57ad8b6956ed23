"""A finished restore leaves one receipt of what was measured; its purpose decides who may order it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.config import Settings
from app.core.canonical_json import encode_canonical
from app.core.digest import sha256
from app.db.session import Database
from app.models import ReceiptRow, Restore
from app.restores.service.receipt import write_receipts
from tests.app import ring as simulated
from tests.app.evidence_documents import IMAGE, publication, raw
from tests.app.ring import Ring

CONFIG_ID = IMAGE.removeprefix("sha256:")


@pytest.fixture
def in_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that measure an image of their container."""
    monkeypatch.setitem(simulated.RUNTIME, "image_config_id", CONFIG_ID)


@pytest.fixture
def imaged(in_container: None, ring: Ring) -> Ring:
    return ring


def get(ring: Ring, path: str, **params: Any) -> dict[str, Any]:
    answer = ring.client.get(f"/api/v1/{path}", params=params, headers=ring.operator_headers)
    return answer.raise_for_status().json()  # type: ignore[no-any-return]


def post(ring: Ring, path: str, **arguments: Any) -> Any:
    return ring.client.post(f"/api/v1/{path}", headers=ring.operator_headers, **arguments)


def written(ring: Ring, database: Database, settings: Settings, restore_id: str) -> dict[str, Any]:
    """The receipt document of a restore."""
    write_receipts(database, settings=settings)
    sha = ring.restore(restore_id)["receipt_sha256"]
    content = ring.client.get(f"/api/v1/receipts/{sha}/document", headers=ring.operator_headers).content
    assert sha256(content) == sha
    return json.loads(content)  # type: ignore[no-any-return]


def test_a_restore_leaves_exactly_one_receipt(ring: Ring, database: Database, settings: Settings) -> None:
    restore_id, _ = ring.run_to_resident()
    document = written(ring, database, settings, restore_id)
    assert document["schema"] == "sparkgate-restore-receipt/v1"
    assert [one["outcome"] for one in document["ranks"]] == ["restored"] * 4
    assert {one["runtime"]["engine"] for one in document["ranks"]} == {"simulated"}
    assert (document["restore_id"], document["semantic"]) == (restore_id, None)
    write_receipts(database, settings=settings)
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 1


def test_without_an_answer_it_is_incomplete_and_an_engine_self_test(
    ring: Ring, database: Database, settings: Settings
) -> None:
    restore_id, _ = ring.run_to_resident()
    written(ring, database, settings, restore_id)
    shown = get(ring, f"receipts/{ring.restore(restore_id)['receipt_sha256']}")
    (verdict,) = shown["verdicts"]
    assert (verdict["outcome"], verdict["image_config_id"]) == ("incomplete", None)
    full = get(ring, f"verdicts/{verdict['id']}")["document"]
    codes = {one["code"] for one in full["findings"]}
    assert {"SEMANTIC_MISSING", "ENGINE_SELF_TEST"} <= codes


def test_the_image_named_in_the_order_is_never_the_subject(
    ring: Ring, database: Database, settings: Settings
) -> None:
    restore_id, _ = ring.run_to_resident(image_config_id=CONFIG_ID)
    document = written(ring, database, settings, restore_id)
    assert CONFIG_ID not in json.dumps(document)
    assert get(ring, "verdicts", image=CONFIG_ID)["verdicts"] == []


def test_a_failed_restore_leaves_a_receipt_that_says_so(
    ring: Ring, database: Database, settings: Settings
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    ranks[2].fail().raise_for_status()
    for rank in (ranks[0], ranks[1], ranks[3]):
        rank.say("retracted").raise_for_status()
    document = written(ring, database, settings, restore["id"])
    assert document["ranks"][2]["outcome"] == "corrupt"
    assert "a restore on every rank" in document["not_established"]


def test_a_cancelled_restore_is_no_evidence(ring: Ring, database: Database, settings: Settings) -> None:
    restore = ring.start_restore()
    post(ring, f"restores/{restore['id']}/cancel").raise_for_status()
    write_receipts(database, settings=settings)
    shown = ring.restore(restore["id"])
    assert (shown["receipt_sha256"], shown["receipt_problem"][:17]) == (None, "it was called off")
    with database.reading() as session:
        assert session.query(ReceiptRow).count() == 0
        assert session.query(Restore).filter(Restore.receipt_problem.is_(None)).count() == 0


def qualify(ring: Ring, database: Database, settings: Settings) -> str:
    """Evidence with an answer, published and declared, about the runtime of the ring."""
    restore_id, _ = ring.run_to_resident()
    document = written(ring, database, settings, restore_id)
    document["semantic"] = {
        "prompt_sha256": "8c" * 32,
        "expected": "red",
        "observed": " red",
        "normalisation": "strip-lower/v1",
        "passed": True,
        "response_sha256": str(sha256(b" red")),
        "finish_reason": "stop",
    }
    sha: str = post(ring, "receipts", content=encode_canonical(document)).raise_for_status().json()["sha256"]
    post(ring, "receipts", content=raw(publication())).raise_for_status()
    return sha


def test_a_declaration_lets_the_rules_decide(imaged: Ring, database: Database, settings: Settings) -> None:
    sha = qualify(imaged, database, settings)
    before = get(imaged, f"receipts/{sha}")["verdicts"][0]
    assert (before["outcome"], before["codes"]) == ("incomplete", ["STATUS_ABSENT"])
    body = {"reason": "compared by hand", "receipts": [sha]}
    made = post(imaged, "declarations", json=body).raise_for_status().json()
    assert (made["created_by"], made["reason"]) == ("ada/operator", "compared by hand")
    assert {(one["kind"], one["outcome"]) for one in made["changed"]} == {
        ("receipt", "qualified"),
        ("scope", "qualified"),
    }
    assert {one["cause"] for one in made["changed"]} == {"declared"}
    assert get(imaged, f"declarations/{made['id']}")["receipts"] == [sha]
    refused = post(imaged, "declarations", json={**body, "receipts": ["0" * 64]})
    assert refused.status_code == 404


def test_a_declaration_does_not_carry_what_the_evidence_does_not(
    imaged: Ring, database: Database, settings: Settings
) -> None:
    restore_id, _ = imaged.run_to_resident()
    written(imaged, database, settings, restore_id)
    sha = imaged.restore(restore_id)["receipt_sha256"]
    body = {"reason": "it ran", "receipts": [sha]}
    post(imaged, "declarations", json=body).raise_for_status()
    assert get(imaged, f"receipts/{sha}")["verdicts"][0]["outcome"] == "incomplete"


def test_operational_restores_need_an_image_that_is_deployable_for_this(
    imaged: Ring, database: Database, settings: Settings
) -> None:
    order = {"purpose": "operational", "image_config_id": CONFIG_ID}
    nothing = imaged.post_restore(**order)
    assert (nothing.status_code, nothing.json()["code"]) == (409, "image-not-deployable")
    assert "no restore evidence about this image" in nothing.json()["detail"]
    sha = qualify(imaged, database, settings)
    before = imaged.post_restore(**order)
    assert "incomplete, STATUS_ABSENT" in before.json()["detail"]
    post(imaged, "declarations", json={"reason": "r", "receipts": [sha]}).raise_for_status()
    (verdict,) = get(imaged, "verdicts", deployable=True)["verdicts"]
    made = imaged.post_restore(**order)
    assert made.status_code == 202, made.text
    assert made.json()["allowed_by_verdict_id"] == verdict["id"]
    assert (made.json()["purpose"], made.json()["image_config_id"]) == ("operational", CONFIG_ID)
    other = imaged.post_restore(purpose="operational", image_config_id="2b" * 32)
    assert other.status_code == 409
    unnamed = imaged.post_restore(purpose="operational")
    assert (unnamed.status_code, unnamed.json()["errors"][0]["pointer"]) == (422, "/image_config_id")


def scope_of(ring: Ring, **changes: Any) -> dict[str, Any]:
    identity = ring.stored.identities[0]
    return {
        "target": str(identity.target_checkpoint),
        "draft": str(identity.draft_checkpoint),
        "tp": identity.tp_degree,
        "dcp": identity.dcp_degree,
        "publication_schema": "snapshot-v1",
        "manifest_schema": "sparkcache-page-snapshot-manifest/v2",
        **changes,
    }


def test_an_exception_holds_for_its_scope_until_its_end(ring: Ring) -> None:
    order = {"purpose": "operational", "image_config_id": CONFIG_ID}
    soon = datetime.now(UTC) + timedelta(hours=1)
    body = {"image_config_id": CONFIG_ID, "reason": "ticket 4711", "expires_at": soon.isoformat()}
    post(ring, "exceptions", json={**body, "scope": scope_of(ring, tp=8)}).raise_for_status()
    assert ring.post_restore(**order).status_code == 409
    granted = post(ring, "exceptions", json={**body, "scope": scope_of(ring)}).raise_for_status().json()
    assert (granted["created_by"], granted["reason"]) == ("ada/operator", "ticket 4711")
    made = ring.post_restore(**order)
    assert made.status_code == 202, made.text
    assert made.json()["allowed_by_exception_id"] == granted["id"]
    assert get(ring, f"exceptions/{granted['id']}") == granted
    assert get(ring, "exceptions")["total"]["count"] == 2


def test_an_exception_is_ended_once_and_allows_nothing_more(ring: Ring) -> None:
    order = {"purpose": "operational", "image_config_id": CONFIG_ID}
    soon = datetime.now(UTC) + timedelta(hours=1)
    body = {"image_config_id": CONFIG_ID, "reason": "ticket 4711", "expires_at": soon.isoformat()}
    granted = post(ring, "exceptions", json={**body, "scope": scope_of(ring)}).raise_for_status().json()
    assert granted["end"] is None
    assert ring.post_restore(**order).status_code == 202
    path = f"exceptions/{granted['id']}/end"
    assert post(ring, path, json={"reason": ""}).status_code == 422
    ended = post(ring, path, json={"reason": "pulled again"}).raise_for_status().json()
    assert (ended["end"]["created_by"], ended["end"]["reason"]) == ("ada/operator", "pulled again")
    assert get(ring, f"exceptions/{granted['id']}") == ended
    refused = ring.post_restore(**order)
    assert (refused.status_code, refused.json()["code"]) == (409, "image-not-deployable")
    again = post(ring, path, json={"reason": "pulled again"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "ended by ada/operator" in again.json()["detail"]
    assert post(ring, f"exceptions/{uuid4()}/end", json={"reason": "r"}).status_code == 404


@pytest.mark.parametrize("ahead", [timedelta(seconds=-1), timedelta(days=31)])
def test_an_exception_ends_within_a_month(ring: Ring, ahead: timedelta) -> None:
    body = {
        "image_config_id": CONFIG_ID,
        "reason": "r",
        "scope": scope_of(ring),
        "expires_at": (datetime.now(UTC) + ahead).isoformat(),
    }
    refused = post(ring, "exceptions", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/expires_at")
