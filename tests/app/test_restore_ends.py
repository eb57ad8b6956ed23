"""Every restore ends: what somebody only says he is alive for, and what can never be admitted."""

import pytest
from sqlalchemy import Engine

from app.config import Settings
from app.db.session import Database
from tests.app.conftest import RecordedMessages
from tests.app.ring import NODE, POOL_BYTES, Ring, SimulatedRank, put
from tests.app.test_restore_trip import backdate, code, free_devices, tick


def beat(rank: SimulatedRank) -> None:
    rank.say("heartbeat", method="POST", json={}).raise_for_status()


def test_a_rank_that_beats_but_never_retracts_is_lost_at_the_deadline(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    """Its worker hangs in a read of a dead disk while the thread that beats goes on."""
    ranks = ring.claim_all(restore := ring.start_restore())
    ranks[0].fail().raise_for_status()
    for rank in ranks[1:3]:
        rank.say("retracted").raise_for_status()
    beat(ranks[3])
    tick(database, messages, settings)
    assert ring.restore(restore["id"])["state"] == "retracting"
    backdate(owner_engine, "decided_at", table="restore")
    beat(ranks[3])
    tick(database, messages, settings)
    ended = ring.restore(restore["id"])
    assert (ended["state"], ended["outcome"], ended["attempts"][3]["state"]) == (
        "finished",
        "corrupt",
        "lost",
    )
    assert "retract" in ended["attempts"][3]["problem"]["detail"]
    assert free_devices(ring) == 4
    assert ranks[3].say("retracted").status_code == 200


def test_a_rank_that_beats_but_never_publishes_is_lost_and_the_others_retract(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, owner_engine: Engine
) -> None:
    ranks = ring.claim_all(restore := ring.start_restore())
    for rank in ranks:
        rank.ready().raise_for_status()
    for rank in ranks[:3]:
        rank.publish(1).raise_for_status()
    backdate(owner_engine, "decided_at", table="restore")
    for rank in ranks:
        beat(rank)
    tick(database, messages, settings)
    found = ring.restore(restore["id"])
    assert (found["state"], found["outcome"], found["epoch"]) == ("retracting", None, 2)
    assert [attempt["state"] for attempt in found["attempts"]] == ["ready", "ready", "ready", "lost"]
    assert "publish" in found["attempts"][3]["problem"]["detail"]
    assert code(ranks[3].publish(1)) == (409, "lease-lost")
    tick(database, messages, settings)
    for rank in ranks[:3]:
        assert rank.say("retracted").status_code == 200
    assert ring.restore(restore["id"])["outcome"] == "incomplete"
    assert free_devices(ring) == 4


@pytest.mark.parametrize("kept", [0, 3])
def test_a_restore_that_no_longer_fits_its_device_ends_and_lets_others_pass(
    ring: Ring, database: Database, messages: RecordedMessages, settings: Settings, kept: int
) -> None:
    """A node came back with a smaller pool; waiting for room would be waiting for ever, at the head."""
    running, waiting = ring.start_restore(), ring.start_restore()
    devices = [
        {"name": f"host{n}", "kind": "host", "pool_bytes": POOL_BYTES if n < kept else 1000} for n in range(4)
    ]
    put(ring.client, f"/api/v1/nodes/{NODE}", headers=ring.worker_headers, json={"devices": devices})
    tick(database, messages, settings)
    assert ring.restore(waiting["id"])["state"] == "waiting"
    for rank in ring.claim_all(running):
        rank.fail()
        rank.say("retracted")
    tick(database, messages, settings)
    ended = ring.restore(waiting["id"])
    assert (ended["state"], ended["outcome"]) == ("finished", "incomplete")
    assert ended["problem"]["code"] == "devices-missing"
    assert ended["problem"]["rank"] == kept
    assert free_devices(ring) == 4
