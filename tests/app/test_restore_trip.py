"""Trip 1 through the real API and database, with simulated rank workers, one word at a time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from app.config import Settings
from app.db.session import Database
from app.restores.service import upkeep
from tests.app.conftest import RecordedMessages
from tests.app.ring import NODE, Ring, SimulatedRank, failed_report, wire


def free_devices(ring: Ring) -> int:
    answer = ring.client.get(f"/api/v1/nodes/{NODE}", headers=ring.operator_headers).json()
    return sum(not device["busy"] for device in answer["devices"])


def tick(database: Database, messages: RecordedMessages, settings: Settings) -> None:
    upkeep.run(database, messages=messages, settings=settings)


def backdate(owner_engine: Engine, column: str, *, where: str = "true", table: str = "rank_attempt") -> None:
    with owner_engine.begin() as connection:
        connection.execute(text(f"UPDATE {table} SET {column} = {column} - interval '1 day' WHERE {where}"))


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_four_ranks_restore_and_stay_resident(ring: Ring) -> None:
    restore_id, _ = ring.run_to_resident()
    restore = ring.restore(restore_id)
    assert (restore["state"], restore["outcome"], restore["epoch"]) == ("resident", "restored", 1)
    assert [attempt["state"] for attempt in restore["attempts"]] == ["reported"] * 4
    assert free_devices(ring) == 4
    kinds = [event["kind"] for event in restore["events"]]
    assert kinds[:2] == ["requested", "admitted"]
    assert kinds[-1] == "restored"
    for attempt in restore["attempts"]:
        report = attempt["report"]
        assert sum(report["phases_ns"].values()) + report["unattributed_ns"] == report["service_ns"]


def test_one_message_per_device_and_only_after_all_devices_are_held(
    ring: Ring, messages: RecordedMessages
) -> None:
    restore = ring.start_restore()
    assert free_devices(ring) == 0
    assert {queue for _, queue, _ in messages.sent} == {f"gpu.{NODE}.host{n}" for n in range(4)}
    assert {str(attempt) for _, _, attempt in messages.sent} == {a["id"] for a in restore["attempts"]}


def test_second_delivery_is_refused_before_it_places_anything(ring: Ring) -> None:
    restore = ring.start_restore()
    attempt = restore["attempts"][0]
    assert ring.claim(attempt).status_code == 200
    assert code(ring.claim(attempt)) == (409, "attempt-not-claimable")


def test_claim_whose_answer_was_lost_is_the_same_claim_when_said_again(ring: Ring) -> None:
    restore = ring.start_restore()
    attempt = restore["attempts"][0]
    first, again = (ring.claim(attempt, token=4711).json() for _ in range(2))
    assert first == again
    assert first["token"] == 4711
    assert code(ring.claim(attempt, token=4712)) == (409, "attempt-not-claimable")
    assert code(ring.claim(attempt)) == (409, "attempt-not-claimable")
    assert [event["kind"] for event in ring.restore(restore["id"])["events"]].count("claimed") == 1
    SimulatedRank(ring, attempt["id"], first).say("heartbeat", method="POST", json={}).raise_for_status()
    assert code(ring.claim(attempt, token=4711)) == (409, "attempt-not-claimable")


def test_claim_is_not_granted_again_once_its_lease_ran_out(ring: Ring, owner_engine: Engine) -> None:
    attempt = ring.start_restore()["attempts"][0]
    ring.claim(attempt, token=4711).raise_for_status()
    backdate(owner_engine, "lease_expires_at", where="rank = 0")
    assert code(ring.claim(attempt, token=4711)) == (409, "attempt-not-claimable")


def test_waiting_restore_cannot_be_claimed(ring: Ring) -> None:
    ring.start_restore()
    second = ring.start_restore()
    assert second["state"] == "waiting"
    assert second["waiting_for"][0] == f"{NODE}/host0 is held by another restore"
    assert code(ring.claim(second["attempts"][0])) == (409, "attempt-not-claimable")


def test_two_restores_on_the_same_devices_both_finish_one_after_the_other(
    ring: Ring, messages: RecordedMessages
) -> None:
    first, second = ring.start_restore(), ring.start_restore()
    for restore in (first, second):
        assert ring.restore(restore["id"])["state"] == "running"
        ranks = ring.claim_all(restore)
        for rank in ranks:
            assert rank.ready().status_code == 200
        for rank in ranks:
            assert rank.publish(1).status_code == 200
    assert [ring.restore(one["id"])["outcome"] for one in (first, second)] == ["restored", "restored"]


def test_nothing_is_visible_until_the_last_acknowledgement(ring: Ring) -> None:
    restore = ring.start_restore()
    path = f"/api/v1/restores/{restore['id']}/readbacks"
    ranks = ring.claim_all(restore)
    for rank in ranks:
        assert code(ring.client.post(path, headers=ring.operator_headers)) == (409, "not-published")
        rank.ready()
    for rank in ranks:
        assert code(ring.client.post(path, headers=ring.operator_headers)) == (409, "not-published")
        rank.publish(1)
    assert ring.client.post(path, headers=ring.operator_headers).status_code == 202


def test_corrupt_rank_is_named_with_its_object_and_all_retract(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    for rank in ranks[:2] + ranks[3:]:
        rank.ready()
    assert ranks[2].fail().status_code == 200
    assert [rank.decision()["decision"] for rank in ranks] == ["retract"] * 4
    assert ring.restore(restore["id"])["outcome"] is None
    for rank in ranks[:2] + ranks[3:]:
        assert rank.say("retracted").status_code == 200
    ended = ring.restore(restore["id"])
    assert (ended["state"], ended["outcome"]) == ("finished", "corrupt")
    assert ended["problem"]["rank"] == 2
    assert ended["problem"]["subject"] == "object 3 (ab)"
    assert free_devices(ring) == 4
    path = f"/api/v1/restores/{restore['id']}/readbacks"
    assert code(ring.client.post(path, headers=ring.operator_headers)) == (409, "not-published")


def test_absent_rank_makes_the_restore_incomplete(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    ranks[1].fail(outcome="absent")
    for rank in (ranks[0], *ranks[2:]):
        rank.say("retracted")
    assert ring.restore(restore["id"])["outcome"] == "incomplete"


def test_silent_rank_is_lost_when_its_lease_runs_out(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    for rank in ranks[1:]:
        rank.ready()
    backdate(owner_engine, "lease_expires_at", where="rank = 0")
    assert code(ranks[0].ready()) == (409, "lease-lost")
    tick(database, messages, settings)
    for rank in ranks[1:]:
        rank.say("retracted")
    ended = ring.restore(restore["id"])
    assert (ended["outcome"], ended["problem"]["code"], ended["problem"]["rank"]) == (
        "incomplete",
        "rank-lost",
        0,
    )
    assert free_devices(ring) == 4


def test_rank_lost_between_ready_and_publish_retracts_under_a_new_epoch(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    for rank in ranks:
        rank.ready()
    for rank in ranks[:3]:
        assert rank.publish(1).json()["decision"] == "publish"
    ring.start_worker("host3")
    tick(database, messages, settings)
    assert code(ranks[3].publish(1)) == (409, "lease-lost")
    decided = ranks[0].decision()
    assert (decided["decision"], decided["epoch"], decided["outcome"]) == ("retract", 2, None)
    for rank in ranks[:3]:
        assert rank.say("retracted").status_code == 200
    assert ring.restore(restore["id"])["outcome"] == "incomplete"
    assert free_devices(ring) == 4


def test_acknowledgement_of_another_epoch_is_refused(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    assert code(ranks[0].publish(1)) == (409, "epoch-stale")
    for rank in ranks:
        rank.ready()
    assert code(ranks[0].publish(2)) == (409, "epoch-stale")


def test_replaced_worker_cannot_claim_with_its_old_generation(ring: Ring) -> None:
    restore = ring.start_restore()
    old = dict(ring.generations)
    ring.start_worker("host0")
    ring.generations = old
    assert code(ring.claim(restore["attempts"][0])) == (409, "attempt-not-claimable")


def test_unclaimed_rank_is_sent_again_with_back_off_and_then_lost(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore = ring.start_restore()
    ranks = [ring.claim(attempt) for attempt in restore["attempts"][:3]]
    assert all(answer.status_code == 200 for answer in ranks)
    limited = settings.model_copy(update={"resend_limit": 2})
    tick(database, messages, limited)
    assert len(messages.sent) == 4
    for expected in (5, 6, 6):
        backdate(owner_engine, "next_send_at", where="state = 'waiting'")
        tick(database, messages, limited)
        assert len(messages.sent) == expected
    lost = ring.restore(restore["id"])["attempts"][3]
    assert lost["state"] == "lost"
    assert "no rank worker" in lost["problem"]["detail"]


def test_rank_that_is_not_ready_by_the_deadline_is_lost(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    for rank in ranks[:3]:
        rank.ready()
    backdate(owner_engine, "ready_deadline_at", table="restore")
    tick(database, messages, settings)
    states = [attempt["state"] for attempt in ring.restore(restore["id"])["attempts"]]
    assert states == ["ready", "ready", "ready", "lost"]


def test_stale_token_and_foreign_node_are_refused(ring: Ring) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[0]
    rank.claim["token"] += 1000
    for answer in (rank.ready(), rank.say("heartbeat", method="POST", json={}), rank.publish(1)):
        assert code(answer) == (409, "fencing-token-stale")
    body = {"devices": [{"name": "host0", "kind": "host", "pool_bytes": 1}]}
    foreign = ring.client.put("/api/v1/nodes/node-b", headers=ring.worker_headers, json=body)
    assert code(foreign) == (403, "other-node")


def test_heartbeat_renews_the_lease_and_tells_the_decision(ring: Ring, owner_engine: Engine) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    progress = {"objects": 1, "bytes": 65536, "total_bytes": 400000}
    answer = ranks[0].say("heartbeat", method="POST", json={"progress": progress})
    assert answer.json() == {"decision": None, "epoch": 0, "outcome": None}
    shown = ring.restore(restore["id"])["attempts"][0]
    assert (shown["state"], shown["progress"]) == ("running", progress)
    ranks[1].fail()
    assert ranks[0].say("heartbeat", method="POST", json={}).json()["decision"] == "retract"


def test_same_report_twice_is_one_report_and_another_one_is_refused(ring: Ring) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[0]
    assert rank.ready().status_code == 200
    assert rank.ready().status_code == 200
    assert code(rank.fail()) == (409, "report-differs")


@pytest.mark.parametrize("field", ["unattributed_ns", "service_ns"])
def test_report_whose_times_do_not_add_up_is_refused(ring: Ring, field: str) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[0]
    report = ring.report(0)
    report[field] += 1
    assert code(rank.say("ready", content=wire(report))) == (422, "document-refused")
    assert ring.restore(restore["id"])["attempts"][0]["state"] == "claimed"


def test_ready_with_a_failure_report_is_refused(ring: Ring) -> None:
    restore = ring.start_restore()
    rank = ring.claim_all(restore)[0]
    assert rank.say("ready", content=wire(failed_report(ring.report(0)))).status_code == 422


def test_hundred_parallel_posts_with_one_key_make_one_restore(ring: Ring) -> None:
    key = str(uuid4())
    with ThreadPoolExecutor(max_workers=20) as pool:
        answers = list(pool.map(lambda _: ring.post_restore(key=key), range(100)))
    assert {answer.status_code for answer in answers} <= {202, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {
        "idempotency-in-flight"
    }
    listed = ring.client.get("/api/v1/restores", headers=ring.operator_headers).json()["restores"]
    assert len(listed) == 1
    replay = ring.post_restore(key=key)
    assert (replay.status_code, replay.headers["idempotent-replayed"]) == (202, "true")


def test_idempotency_key_is_required_and_not_reused(ring: Ring) -> None:
    bare = ring.client.post("/api/v1/restores", headers=ring.operator_headers, json=ring.order())
    assert code(bare) == (400, "idempotency-key-missing")
    key = str(uuid4())
    assert ring.post_restore(key=key).status_code == 202
    assert code(ring.post_restore(key=key, resident_s=5)) == (422, "idempotency-key-reused")


def test_snapshot_with_a_missing_rank_is_refused_by_name(ring: Ring) -> None:
    ring.report_inventory(ring.stored.roots[:3])
    answer = ring.post_restore()
    assert code(answer) == (409, "snapshot-incomplete")
    assert "found none for rank 3" in answer.json()["detail"]


def test_unknown_snapshot_and_layout_are_named(ring: Ring) -> None:
    assert code(ring.post_restore(context_digest="0" * 64)) == (404, "not-found")
    answer = ring.post_restore(layout_sha256="1" * 64)
    assert code(answer) == (404, "not-found")
    assert "1" * 64 in answer.json()["detail"]


def test_outcome_once_written_is_final_whoever_writes(ring: Ring, owner_engine: Engine) -> None:
    restore_id, _ = ring.run_to_resident()
    with owner_engine.begin() as connection, pytest.raises(DBAPIError, match="is final"):
        connection.execute(
            text("UPDATE restore SET outcome = 'failed', state = 'finished' WHERE id = :id"),
            {"id": restore_id},
        )


@pytest.mark.parametrize("statement", ["UPDATE rank_report SET document = ''", "DELETE FROM restore_event"])
def test_app_role_cannot_change_facts(ring: Ring, database: Database, statement: str) -> None:
    ring.run_to_resident()
    with pytest.raises(DBAPIError, match="permission denied"), database.transaction() as session:
        session.execute(text(statement))
