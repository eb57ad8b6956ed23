"""Receipts of restores that were asked: rejected although every hash is right; a drill decides no scope."""

import json
from typing import Any

from fastapi.testclient import TestClient

from app.config import Settings
from app.core.qualify.own_receipt import ONE_TOKEN_CHANGED
from app.db.session import Database
from app.restores.service.receipt import write_receipts
from tests.app.asked import AskedRing


def receipt_of(
    asked: AskedRing, database: Database, settings: Settings, **changes: Any
) -> tuple[str, dict[str, Any]]:
    """Digest and content of the receipt of a restore that was run to its end."""
    restore, ranks = asked.run(**changes)
    asked.follow(restore, ranks)
    write_receipts(database, settings=settings)
    sha256 = asked.ring.restore(restore["id"])["receipt_sha256"]
    path = f"/api/v1/receipts/{sha256}/document"
    document = asked.ring.client.get(path, headers=asked.ring.operator_headers).raise_for_status().json()
    return sha256, document


def verdict_of(asked: AskedRing, sha256: str) -> dict[str, Any]:
    answer = asked.ring.client.get(f"/api/v1/receipts/{sha256}", headers=asked.ring.operator_headers)
    return answer.raise_for_status().json()["verdicts"][0]  # type: ignore[no-any-return]


def scopes(client: TestClient, asked: AskedRing) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/verdicts", headers=asked.ring.operator_headers)
    return answer.raise_for_status().json()["verdicts"]  # type: ignore[no-any-return]


def test_a_drill_beside_the_healthy_restore(
    asked: AskedRing, database: Database, settings: Settings, client: TestClient
) -> None:
    healthy, document = receipt_of(asked, database, settings)
    assert document["semantic"]["passed"]
    assert document["semantic"]["observed"] == "red"
    assert (document["control"]["observed"], document["control"]["relationship"]) == (
        "blue",
        ONE_TOKEN_CHANGED,
    )
    assert document["oracle"] == {"question_sha256": asked.question.sha256, "diagnosis": None}
    assert document["injected_fault"] is None
    meant = {"receipts": [healthy], "reason": "meant for qualification"}
    client.post("/api/v1/declarations", headers=asked.ring.operator_headers, json=meant).raise_for_status()
    verdict = verdict_of(asked, healthy)
    assert (verdict["outcome"], verdict["deployable_reason"]) == ("qualified", "ENGINE_SELF_TEST")
    before = scopes(client, asked)
    assert [one["outcome"] for one in before] == ["qualified"]

    drill, document = receipt_of(asked, database, settings, fault={"name": "swap-pages", "rank": 2})
    assert document["injected_fault"] == {"name": "swap-pages", "rank": 2}
    assert (document["semantic"]["expected"], document["semantic"]["observed"]) == ("red", "spark")
    assert document["control"]["passed"]
    assert document["oracle"]["diagnosis"]["fault"] == "swap-pages"
    assert [one["outcome"] for one in document["ranks"]] == ["restored"] * 4
    assert [one["partials"]["wrong_pages"] > 0 for one in document["ranks"]] == [False, False, True, False]
    verdict = verdict_of(asked, drill)
    assert verdict["outcome"] == "rejected"
    assert "SEMANTIC_ORACLE_MISMATCH" in json.dumps(verdict)
    assert "put in on purpose" in verdict["reason"]
    # It shows that the check works, and bears on nothing else.
    assert scopes(client, asked) == before


def test_without_a_question_the_receipt_says_so(
    asked: AskedRing, database: Database, settings: Settings
) -> None:
    restore = asked.ring.start_restore(oracle="none")
    ranks = asked.ring.claim_all(restore)
    for rank in ranks:
        asked.ready(rank, oracle=None).raise_for_status()
    asked.follow(restore, ranks)
    write_receipts(database, settings=settings)
    sha256 = asked.ring.restore(restore["id"])["receipt_sha256"]
    assert "SEMANTIC_MISSING" in json.dumps(verdict_of(asked, sha256))


def test_a_wrong_answer_that_nobody_put_in_rejects_the_scope(
    asked: AskedRing, database: Database, settings: Settings, client: TestClient
) -> None:
    restore = asked.ring.start_restore()
    ranks = asked.ring.claim_all(restore)
    ranks[1].claim["fault"] = "stale-batch"  # its machine does by itself what nobody asked for
    for rank in ranks:
        asked.ready(rank).raise_for_status()
    done = asked.follow(restore, ranks)
    assert (done["outcome"], done["semantic"], done["fault"]) == ("failed", "wrong", None)
    assert done["answer"]["diagnosis"] == "stale-batch"
    write_receipts(database, settings=settings)
    verdict = verdict_of(asked, asked.ring.restore(restore["id"])["receipt_sha256"])
    assert verdict["outcome"] == "rejected"
    assert verdict["reason"].endswith("structure and control are in order.")
    assert [one["outcome"] for one in scopes(client, asked)] == ["rejected"]
