"""Calling a restore off: what is said is what really happened, and nothing is changed when it is too late."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpx2 import Response
from sqlalchemy import Engine

from app.config import Settings
from app.db.session import Database
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring
from tests.app.test_restore_trip import backdate, code, free_devices, tick


def cancel(ring: Ring, restore_id: str, *, etag: str | None = None, body: Any = None) -> Response:
    headers = {**ring.operator_headers, **({"If-Match": etag} if etag else {})}
    sent = {} if body is None else {"json": body}
    return ring.client.post(f"/api/v1/restores/{restore_id}/cancel", headers=headers, **sent)


def test_waiting_restore_ends_at_once_and_leaves_the_running_one_alone(
    ring: Ring, messages: RecordedMessages
) -> None:
    first, second = ring.start_restore(), ring.start_restore()
    sent = len(messages.sent)
    answer = cancel(ring, second["id"], body={"reason": "not needed"})
    assert answer.status_code == 202
    ended = ring.restore(second["id"])
    assert (ended["state"], ended["outcome"], ended["epoch"]) == ("finished", "incomplete", 1)
    assert ended["problem"]["code"] == "cancelled"
    assert ended["problem"]["detail"] == "cancelled by ada/operator: not needed"
    assert ended["cancellation"]["state"] == "stopped"
    assert {attempt["state"] for attempt in ended["attempts"]} == {"cancelled"}
    assert ring.restore(first["id"])["state"] == "running"
    assert len(messages.sent) == sent


def test_cancelled_waiting_restore_lets_the_next_one_pass(ring: Ring) -> None:
    first, second, third = (ring.start_restore() for _ in range(3))
    cancel(ring, second["id"])
    cancel(ring, first["id"])
    assert ring.restore(third["id"])["state"] == "running"


def test_running_restore_is_told_to_every_rank_and_reports_how_far_that_came(
    ring: Ring, messages: RecordedMessages
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all({**restore, "attempts": restore["attempts"][:3]})
    answer = cancel(ring, restore["id"], body={"reason": "wrong snapshot"}).json()
    assert (answer["state"], answer["outcome"], answer["decision"]) == ("retracting", None, "retract")
    told = answer["cancellation"]
    assert told["state"] == "requested"
    assert (told["requested_by"], told["reason"]) == ("ada/operator", "wrong snapshot")
    assert (told["ranks_open"], told["ranks_not_told"]) == ([0, 1, 2], [0, 1, 2])
    assert [str(one) for one in messages.decisions] == [restore["id"]]
    assert ranks[0].say("heartbeat", method="POST", json={}).json()["decision"] == "retract"
    assert ranks[1].decision()["decision"] == "retract"
    told = ring.restore(restore["id"])["cancellation"]
    assert (told["state"], told["ranks_not_told"], told["acknowledged_at"]) == ("requested", [2], None)
    assert ranks[2].ready().json()["decision"] == "retract"
    told = ring.restore(restore["id"])["cancellation"]
    assert (told["state"], told["ranks_open"], told["stopped_at"]) == ("acknowledged", [0, 1, 2], None)
    assert told["acknowledged_at"] is not None
    assert free_devices(ring) == 1
    assert ranks[0].fail(outcome="cancelled").status_code == 200
    for rank in ranks[1:]:
        assert rank.say("retracted").status_code == 200
    ended = ring.restore(restore["id"])
    assert (ended["state"], ended["outcome"]) == ("finished", "incomplete")
    assert ended["problem"] == {**ended["problem"], "code": "cancelled", "rank": None}
    assert ended["cancellation"]["state"] == "stopped"
    assert ended["cancellation"]["stopped_at"] == ended["ended_at"]
    assert free_devices(ring) == 4


def test_asking_again_changes_nothing(ring: Ring) -> None:
    restore = ring.start_restore()
    ring.claim_all(restore)
    first = cancel(ring, restore["id"], body={"reason": "first"}).json()
    again = cancel(ring, restore["id"], body={"reason": "second"})
    assert (again.status_code, again.json()) == (202, first)


@pytest.mark.parametrize("acknowledged", [0, 3, 4])
def test_once_publish_is_decided_it_is_too_late_and_nothing_changes(ring: Ring, acknowledged: int) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    for rank in ranks:
        rank.ready()
    for rank in ranks[:acknowledged]:
        rank.publish(1)
    before = ring.restore(restore["id"])
    answer = cancel(ring, restore["id"])
    assert code(answer) == (409, "cancel-too-late")
    assert "discard" in answer.json()["detail"]
    assert ring.restore(restore["id"]) == before
    for rank in ranks[acknowledged:]:
        assert rank.publish(1).status_code == 200
    assert ring.restore(restore["id"])["outcome"] == "restored"


def test_restore_that_retracts_or_is_over_cannot_be_cancelled(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    ranks[0].fail()
    assert code(cancel(ring, restore["id"])) == (409, "cancel-too-late")
    for rank in ranks[1:]:
        rank.say("retracted")
    answer = cancel(ring, restore["id"])
    assert code(answer) == (409, "cancel-too-late")
    assert "found corrupt" in answer.json()["detail"]
    assert ring.restore(restore["id"])["cancellation"] is None


def test_corruption_found_meanwhile_weighs_more_than_the_cancellation(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    cancel(ring, restore["id"])
    ranks[1].fail()
    for rank in (ranks[0], *ranks[2:]):
        rank.say("retracted")
    ended = ring.restore(restore["id"])
    assert (ended["outcome"], ended["problem"]["rank"]) == ("corrupt", 1)
    assert ended["cancellation"]["state"] == "stopped"


def test_rank_that_never_answers_is_lost_and_the_cancellation_stops(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    cancel(ring, restore["id"])
    for rank in ranks[:3]:
        rank.say("retracted")
    assert ring.restore(restore["id"])["cancellation"]["ranks_not_told"] == [3]
    backdate(owner_engine, "lease_expires_at", where="rank = 3")
    tick(database, messages, settings)
    ended = ring.restore(restore["id"])
    assert (ended["outcome"], ended["problem"]["code"]) == ("incomplete", "cancelled")
    assert ended["attempts"][3]["problem"]["code"] == "rank-lost"
    assert free_devices(ring) == 4


def test_if_match_is_honoured_when_it_is_sent(ring: Ring) -> None:
    restore = ring.start_restore()
    path = f"/api/v1/restores/{restore['id']}"
    etag = ring.client.get(path, headers=ring.operator_headers).headers["etag"]
    ring.claim_all(restore)
    assert code(cancel(ring, restore["id"], etag=etag)) == (412, "precondition-failed")
    assert ring.restore(restore["id"])["cancellation"] is None
    now = ring.client.get(path, headers=ring.operator_headers).headers["etag"]
    assert cancel(ring, restore["id"], etag=now).status_code == 202


def test_unknown_restore_and_wrong_reason_are_refused(ring: Ring) -> None:
    assert code(cancel(ring, "00000000-0000-4000-8000-000000000000")) == (404, "not-found")
    restore = ring.start_restore()
    assert code(cancel(ring, restore["id"], body={"reason": "a\x00b"})) == (422, "validation-failed")


def test_orders_and_cancellations_side_by_side_never_lock_each_other_up(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings
) -> None:
    """A waiting restore is cancelled while admission holds the devices it waits for, and the reverse."""

    def order_and_cancel(number: int) -> set[int]:
        ordered = ring.post_restore()
        if number % 4 == 0:
            tick(database, messages, settings)
        return {ordered.status_code, cancel(ring, ordered.json()["id"]).status_code}

    with ThreadPoolExecutor(max_workers=8) as pool:
        answered = list(pool.map(order_and_cancel, range(32)))
    assert answered == [{202}] * 32
    listed = ring.client.get("/api/v1/restores?page_size=100", headers=ring.operator_headers).json()
    assert {one["outcome"] for one in listed["restores"]} == {"incomplete"}
    assert {one["problem"]["code"] for one in listed["restores"]} == {"cancelled"}
    assert free_devices(ring) == 4


def test_rank_that_stops_without_being_told_is_lost_with_a_cause(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    ranks[2].fail(outcome="cancelled")
    for rank in (*ranks[:2], ranks[3]):
        rank.say("retracted")
    ended = ring.restore(restore["id"])
    assert (ended["outcome"], ended["problem"]["code"], ended["problem"]["rank"]) == (
        "incomplete",
        "rank-lost",
        2,
    )
