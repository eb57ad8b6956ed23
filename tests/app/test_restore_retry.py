"""Trying again: a new restore with new attempts; the old one stays; a chain of tries has an end."""

from uuid import uuid4

from fastapi.testclient import TestClient
from httpx2 import Response

from app.config import Settings
from app.db.session import Database
from app.main import create_app
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring
from tests.app.test_restore_trip import code


def retry(ring: Ring, restore_id: str, *, key: str | None = None) -> Response:
    headers = {**ring.operator_headers, "Idempotency-Key": key or str(uuid4())}
    return ring.client.post(f"/api/v1/restores/{restore_id}/retry", headers=headers)


def fail(ring: Ring, restore: dict[str, object], *, outcome: str = "absent") -> None:
    ranks = ring.claim_all(restore)
    ranks[1].fail(outcome=outcome)
    for rank in (ranks[0], *ranks[2:]):
        rank.say("retracted").raise_for_status()


def test_retry_is_a_new_restore_with_new_attempts_linked_both_ways(ring: Ring) -> None:
    first = ring.start_restore(resident_s=77)
    fail(ring, first)
    before = ring.restore(first["id"])
    answer = retry(ring, first["id"])
    assert answer.status_code == 202
    newer = ring.restore(answer.json()["id"])
    assert answer.headers["location"] == f"/api/v1/restores/{newer['id']}"
    assert (newer["retry_of"], newer["try_number"], newer["state"]) == (first["id"], 2, "running")
    assert [attempt["number"] for attempt in newer["attempts"]] == [2] * 4
    ranks = ring.claim_all(newer)
    for rank in ranks:
        rank.ready()
    for rank in ranks:
        rank.publish(1)
    assert ring.restore(newer["id"])["outcome"] == "restored"
    after = ring.restore(first["id"])
    assert (after["retried_by"], after["retry_of"], after["try_number"]) == (newer["id"], None, 1)
    assert after["events"][-1]["kind"] == "retried"
    kept = ("state", "outcome", "problem", "attempts", "ended_at")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_each_restore_is_retried_once_and_the_newer_one_is_named(ring: Ring) -> None:
    first = ring.start_restore()
    fail(ring, first)
    key = str(uuid4())
    newer = retry(ring, first["id"], key=key).json()["id"]
    again = retry(ring, first["id"])
    assert code(again) == (409, "already-retried")
    assert newer in again.json()["detail"]
    replay = retry(ring, first["id"], key=key)
    assert (replay.json()["id"], replay.headers["idempotent-replayed"]) == (newer, "true")


def test_only_a_restore_that_is_over_and_not_restored_can_be_retried(ring: Ring) -> None:
    restored, _ = ring.run_to_resident()
    assert code(retry(ring, restored)) == (409, "retry-refused")
    running = ring.start_restore()
    assert code(retry(ring, running["id"])) == (409, "retry-refused")
    bare = ring.client.post(f"/api/v1/restores/{running['id']}/retry", headers=ring.operator_headers)
    assert code(bare) == (400, "idempotency-key-missing")


def test_cancelled_restore_can_be_retried(ring: Ring) -> None:
    restore = ring.start_restore()
    ring.client.post(f"/api/v1/restores/{restore['id']}/cancel", headers=ring.operator_headers)
    assert retry(ring, restore["id"]).status_code == 202


def test_poison_restore_stops_after_so_many_tries(
    ring: Ring, settings: Settings, database: Database, messages: RecordedMessages
) -> None:
    limited = settings.model_copy(update={"try_limit": 3})
    with TestClient(create_app(limited, database=database, messages=messages)) as client:
        ring.client = client
        restore = ring.start_restore()
        for number in (2, 3):
            fail(ring, restore, outcome="corrupt")
            restore = ring.restore(retry(ring, restore["id"]).json()["id"])
            assert restore["try_number"] == number
        fail(ring, restore, outcome="corrupt")
        answer = retry(ring, restore["id"])
    assert code(answer) == (409, "tries-exhausted")
    assert "found try 3" in answer.json()["detail"]


def test_retry_is_planned_on_what_is_there_now(ring: Ring) -> None:
    restore = ring.start_restore()
    fail(ring, restore)
    ring.report_inventory(ring.stored.roots[:3])
    assert code(retry(ring, restore["id"])) == (409, "snapshot-incomplete")
    ring.report_inventory(ring.stored.roots)
    assert retry(ring, restore["id"]).status_code == 202
