"""Pages that stay: readbacks, discards, their time to live, and the room they take from others."""

from sqlalchemy import Engine, text

from app.config import Settings
from app.db.session import Database
from tests.app.conftest import RecordedMessages
from tests.app.ring import NODE, Ring
from tests.app.test_restore_trip import backdate, code, tick

NO_RESTORE = "00000000-0000-4000-8000-000000000000"


def test_readback_collects_every_rank_and_discard_ends_it(ring: Ring, messages: RecordedMessages) -> None:
    restore_id, ranks = ring.run_to_resident()
    path = f"/api/v1/restores/{restore_id}/readbacks"
    asked = ring.client.post(path, headers=ring.operator_headers)
    assert asked.status_code == 202
    layers = [{"name": "layer", "pages": 1, "bytes": 16, "sha256": "a" * 64}]
    for rank in ranks:
        said = rank.say(f"readbacks/{asked.json()['id']}", json={"layers": layers})
        assert said.status_code == 200
    shown = ring.client.get(asked.headers["location"], headers=ring.operator_headers).json()
    assert shown["done"]
    assert [rank["rank"] for rank in shown["ranks"]] == [0, 1, 2, 3]
    discard = ring.client.post(f"/api/v1/restores/{restore_id}/discard", headers=ring.operator_headers)
    assert discard.status_code == 202
    assert code(ring.client.post(path, headers=ring.operator_headers)) == (410, "gone")
    assert [kind for kind, _, _ in messages.sent[-4:]] == ["discard"] * 4
    for rank in ranks:
        assert rank.say("released").status_code == 200
    assert ring.restore(restore_id)["state"] == "finished"
    assert code(ring.client.post(path, headers=ring.operator_headers)) == (410, "gone")


def test_a_readback_with_a_key_is_asked_for_once_and_all_are_listed(
    ring: Ring, messages: RecordedMessages
) -> None:
    restore_id, _ = ring.run_to_resident()
    path = f"/api/v1/restores/{restore_id}/readbacks"
    assert ring.client.get(path, headers=ring.operator_headers).json() == {"readbacks": []}
    messages.sent.clear()
    keyed = {**ring.operator_headers, "Idempotency-Key": "once"}
    first, again = (ring.client.post(path, headers=keyed) for _ in range(2))
    assert (first.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    assert [kind for kind, _, _ in messages.sent] == ["readback"] * 4
    other, _ = ring.run_to_resident()
    reused = ring.client.post(f"/api/v1/restores/{other}/readbacks", headers=keyed)
    assert code(reused) == (422, "idempotency-key-reused")
    unkeyed = ring.client.post(path, headers=ring.operator_headers).json()["id"]
    listed = ring.client.get(path, headers=ring.operator_headers).json()["readbacks"]
    assert [one["id"] for one in listed] == [unkeyed, first.json()["id"]]
    nowhere = ring.client.get(f"/api/v1/restores/{NO_RESTORE}/readbacks", headers=ring.operator_headers)
    assert code(nowhere) == (404, "not-found")


def test_unanswered_readback_is_asked_again_with_back_off(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore_id, ranks = ring.run_to_resident()
    path = f"/api/v1/restores/{restore_id}/readbacks"
    asked = ring.client.post(path, headers=ring.operator_headers).json()["id"]
    layers = [{"name": "layer", "pages": 1, "bytes": 16, "sha256": "a" * 64}]
    for rank in ranks[:3]:
        rank.say(f"readbacks/{asked}", json={"layers": layers}).raise_for_status()
    messages.sent.clear()
    tick(database, messages, settings)
    assert messages.sent == []
    for _ in range(2):
        backdate(owner_engine, "next_send_at")
        tick(database, messages, settings)
    assert [(kind, str(attempt)) for kind, _, attempt in messages.sent] == [
        ("readback", ranks[3].attempt_id)
    ] * 2
    ranks[3].say(f"readbacks/{asked}", json={"layers": layers}).raise_for_status()
    backdate(owner_engine, "next_send_at")
    tick(database, messages, settings)
    assert len(messages.sent) == 2


def test_readback_that_is_open_when_the_pages_go_ends_and_says_so(ring: Ring) -> None:
    restore_id, _ = ring.run_to_resident()
    path = f"/api/v1/restores/{restore_id}/readbacks"
    asked = ring.client.post(path, headers=ring.operator_headers)
    ring.client.post(f"/api/v1/restores/{restore_id}/discard", headers=ring.operator_headers)
    shown = ring.client.get(asked.headers["location"], headers=ring.operator_headers).json()
    assert shown["done"]
    assert shown["problem"]["code"] == "gone"
    assert "discarded by" in shown["problem"]["detail"]


def test_pages_of_a_machine_that_never_comes_back_are_given_up_by_a_person(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore_id, _ = ring.run_to_resident()
    running = ring.start_restore()
    ring.claim_all(running)
    ring.client.post(f"/api/v1/restores/{restore_id}/discard", headers=ring.operator_headers)
    path = f"/api/v1/nodes/{NODE}/gone"
    early = ring.client.post(path, headers=ring.operator_headers, json={"reason": "its board failed"})
    assert code(early) == (409, "conflict")
    assert "stop its agent first" in early.json()["detail"]
    tick(database, messages, settings)
    assert ring.restore(restore_id)["state"] == "releasing"
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE node SET last_seen_at = last_seen_at - interval '1 hour'"))
    assert code(ring.client.post(path, headers=ring.operator_headers, json={"reason": " "}))[0] == 422
    gone = ring.client.post(path, headers=ring.operator_headers, json={"reason": "its board failed"})
    assert gone.status_code == 200
    assert [device["generation"] for device in gone.json()["devices"]] == [
        generation + 1 for generation in ring.generations.values()
    ]
    tick(database, messages, settings)
    assert ring.restore(restore_id)["state"] == "finished"
    ended = ring.restore(running["id"])
    assert (ended["state"], ended["outcome"]) == ("finished", "incomplete")


def test_unanswered_discard_is_sent_again_and_the_pause_grows_to_its_cap(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore_id, _ = ring.run_to_resident()
    ring.client.post(f"/api/v1/restores/{restore_id}/discard", headers=ring.operator_headers)
    pauses = []
    for _ in range(6):
        with owner_engine.connect() as connection:
            query = "SELECT extract(epoch FROM next_send_at - sent_at)::int FROM rank_attempt WHERE rank = 0"
            pauses.append(connection.execute(text(query)).scalar_one())
        backdate(owner_engine, "next_send_at")
        tick(database, messages, settings)
    assert pauses == [5, 10, 20, 40, 60, 60]
    assert [kind for kind, _, _ in messages.sent].count("discard") == 4 * 7


def test_residency_ends_with_its_time_to_live(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore_id, _ = ring.run_to_resident(resident_s=60)
    backdate(owner_engine, "resident_until", table="restore")
    tick(database, messages, settings)
    shown = ring.restore(restore_id)
    assert (shown["state"], shown["release_reason"]) == ("releasing", "time to live reached")


def test_pages_of_a_replaced_worker_take_the_whole_restore_with_them(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings
) -> None:
    restore_id, ranks = ring.run_to_resident()
    ring.start_worker("host2")
    tick(database, messages, settings)
    assert ring.restore(restore_id)["state"] == "releasing"
    for rank in (ranks[0], ranks[1], ranks[3]):
        rank.say("released")
    shown = ring.restore(restore_id)
    assert (shown["state"], shown["outcome"]) == ("finished", "restored")
    assert "rank 2" in shown["release_reason"]


def test_restore_waits_until_resident_pages_leave_room_in_the_pool(ring: Ring) -> None:
    first, ranks = ring.run_to_resident()
    ring.run_to_resident()
    third = ring.start_restore()
    assert third["state"] == "waiting"
    assert len(third["waiting_for"]) == 4
    assert "resident pages of other restores" in third["waiting_for"][0]
    ring.client.post(f"/api/v1/restores/{first}/discard", headers=ring.operator_headers)
    for rank in ranks:
        assert ring.restore(third["id"])["state"] == "waiting"
        rank.say("released")
    assert ring.restore(third["id"])["state"] == "running"
