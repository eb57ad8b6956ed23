"""What a word of a rank costs the database, what it leaves behind, and when it has the queue looked at."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event, select

from app.db.session import Database
from app.models import Device
from app.restores.service import admission
from tests.app.ring import Ring


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """What is asked of ranks meanwhile; the keys of their workers are remembered for a second."""
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if "rank_attempt" in statement:
            seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(database.engine, "before_cursor_execute", note)


def test_a_claim_a_beat_and_a_poll_are_one_statement_each(ring: Ring, database: Database) -> None:
    ring.run_to_resident()  # so that this process knows the layout
    restore = ring.start_restore()
    with statements(database) as seen:
        (rank,) = ring.claim_all({"attempts": restore["attempts"][:1]})
        rank.say("heartbeat", method="POST", json={"progress": None}).raise_for_status()
        rank.decision()
    assert len(seen) == 3


def test_ready_and_publish_hold_their_rows_and_write_unless_they_are_the_last(
    ring: Ring, database: Database
) -> None:
    ranks = ring.claim_all(ring.start_restore())
    with statements(database) as ready:
        for rank in ranks[:3]:
            rank.ready().raise_for_status()
    ranks[3].ready().raise_for_status()
    epoch = ranks[0].decision()["epoch"]
    with statements(database) as published:
        for rank in ranks[:3]:
            rank.publish(epoch).raise_for_status()
    assert len(ready) == len(published) == 3 * 2


def test_the_end_of_a_restore_costs_as_many_statements_however_many_ranks_it_has(
    ring: Ring, database: Database
) -> None:
    """Attempts are ended, events written and devices freed all at once."""
    ranks = ring.claim_all(ring.start_restore())
    for rank in ranks:
        rank.ready().raise_for_status()
    epoch = ranks[0].decision()["epoch"]
    for rank in ranks[:3]:
        rank.publish(epoch).raise_for_status()
    with statements(database) as seen:
        ranks[3].publish(epoch).raise_for_status()
    for part in ("UPDATE rank_attempt", "UPDATE device", "INSERT INTO restore_event"):
        assert sum(part in one for one in seen) <= 2, part
    assert len(seen) == 6  # held, noted, how all stand, devices locked, all ended, digested


def test_released_has_the_queue_looked_at_only_where_somebody_waits_for_the_device(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, ranks = ring.run_to_resident()
    looks = []
    real = admission.admit_waiting

    def counted(session: Any, **given: Any) -> list[UUID]:
        looks.append(session)
        return real(session, **given)

    monkeypatch.setattr(admission, "admit_waiting", counted)
    path = f"/api/v1/restores/{first}/discard"
    ring.client.post(path, headers=ring.operator_headers).raise_for_status()
    for rank in ranks[:3]:
        rank.say("released").raise_for_status()
    assert looks == []
    ring.run_to_resident()
    waiting = ring.start_restore()  # the pool of the last rank's device has no room for a third
    assert waiting["state"] == "waiting"
    looks.clear()
    ranks[3].say("released").raise_for_status()
    assert len(looks) == 1
    assert ring.restore(waiting["id"])["state"] == "running"
    ranks[3].say("released").raise_for_status()  # nothing came free by saying it again
    assert len(looks) == 1


def test_a_rank_that_fails_first_ends_those_that_nobody_claimed_and_frees_their_devices(
    ring: Ring, database: Database
) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all({"attempts": restore["attempts"][:2]})
    ranks[0].fail().raise_for_status()
    shown = ring.restore(restore["id"])
    assert [one["state"] for one in shown["attempts"]] == ["reported", "claimed", "cancelled", "cancelled"]
    with database.reading() as session:
        holders = [one.held_by for one in session.scalars(select(Device)) if one.held_by is not None]
    assert holders == [UUID(ranks[1].attempt_id)]


def test_what_happened_is_told_in_the_order_in_which_it_happened(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all({"attempts": restore["attempts"][:2]})
    ranks[0].fail().raise_for_status()
    ranks[1].say("retracted").raise_for_status()
    told = [(one["kind"], one["rank"]) for one in ring.restore(restore["id"])["events"]]
    assert told == [
        ("requested", None),
        ("admitted", None),
        ("claimed", 0),
        ("claimed", 1),
        ("reported", 0),
        ("decided", None),
        ("cancelled", 2),
        ("cancelled", 3),
        ("cancelled", 1),
        ("corrupt", None),
    ]
