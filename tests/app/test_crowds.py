"""Many at once: shared looks at the queue, no circle of waits for connections, one rank read for its word."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from app.config import Settings
from app.db.session import Database, open_database
from app.main import create_app
from app.models import RankAttempt
from app.restores.service import admission
from app.restores.service.admission import Looks
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring

CROWD = 30
PATIENCE_S = 20.0


class SlowLook:
    """Stands for a look at the queue: says that it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.count = 0

    def __call__(self, _session: Any, **_: Any) -> list[UUID]:
        self.count += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=PATIENCE_S)
        return []


@pytest.fixture
def looks(database: Database, messages: RecordedMessages, settings: Settings) -> Looks:
    return Looks(database, messages=messages, settings=settings)


def test_a_look_that_has_not_begun_serves_all_who_ask(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowLook()
    monkeypatch.setattr(admission, "admit_waiting", slow)
    with ThreadPoolExecutor(CROWD) as pool:
        first = pool.submit(looks.look)
        assert slow.begun.acquire(timeout=PATIENCE_S)
        others = [pool.submit(looks.look) for _ in range(CROWD - 1)]
        # All but the one that will look next have been told that it will look for them.
        while sum(one.done() for one in others) < CROWD - 2:
            assert not first.done()
        slow.may_end.release(2)
        for one in (first, *others):
            one.result(timeout=PATIENCE_S)
    assert slow.count == 2


def test_a_look_that_fails_leaves_the_next_one_its_turn(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_session: Any, **_: Any) -> list[UUID]:
        raise OperationalError("SELECT", {}, Exception("connection lost"))

    monkeypatch.setattr(admission, "admit_waiting", broken)
    looks.look()
    slow = SlowLook()
    slow.may_end.release()
    monkeypatch.setattr(admission, "admit_waiting", slow)
    looks.look()
    assert slow.count == 1


def test_more_readers_than_connections_are_all_answered(
    database: Database, keys: dict[str, str], settings: Settings, messages: RecordedMessages
) -> None:
    """A request that holds a connection while it waits for a thread would starve those that hold a thread."""
    few = settings.model_copy(update={"pool_connections": 2, "pool_wait_s": PATIENCE_S / 2})
    opened = open_database(few)
    app = create_app(few, database=opened, messages=messages)
    headers = {"Authorization": f"Bearer {keys['operator']}"}
    with TestClient(app, raise_server_exceptions=False) as client, ThreadPoolExecutor(CROWD) as pool:

        def read(_: int) -> int:
            return client.get("/api/v1/restores", headers=headers).status_code

        assert set(pool.map(read, range(3 * CROWD))) == {200}


@contextmanager
def loaded_attempts() -> Iterator[set[UUID]]:
    """The attempts that are read from the database meanwhile."""
    seen: set[UUID] = set()

    def note(attempt: RankAttempt, *_: Any) -> None:
        seen.add(attempt.id)

    for name in ("load", "refresh"):
        event.listen(RankAttempt, name, note)
    try:
        yield seen
    finally:
        for name in ("load", "refresh"):
            event.remove(RankAttempt, name, note)


def test_no_word_of_a_rank_loads_ranks_as_objects(ring: Ring) -> None:
    """Not even the last one of its kind, which moves the whole restore forward."""
    restore = ring.start_restore()
    with loaded_attempts() as loaded:
        ranks = ring.claim_all(restore)
        for rank in ranks:
            rank.ready().raise_for_status()
        epoch = ranks[0].decision()["epoch"]
        for rank in ranks:
            rank.publish(epoch).raise_for_status()
    assert ring.restore(restore["id"])["outcome"] == "restored"
    discard = f"/api/v1/restores/{restore['id']}/discard"
    ring.client.post(discard, headers=ring.operator_headers).raise_for_status()
    with loaded_attempts() as released:
        for rank in ranks:
            rank.say("released").raise_for_status()
    assert ring.restore(restore["id"])["state"] == "finished"
    assert loaded == released == set()


def test_no_rank_that_fails_or_retracts_loads_ranks_as_objects(ring: Ring) -> None:
    restore = ring.start_restore()
    ranks = ring.claim_all({"attempts": restore["attempts"][:3]})
    with loaded_attempts() as loaded:
        ranks[0].fail().raise_for_status()
        for rank in ranks[1:]:
            rank.say("retracted").raise_for_status()
    assert ring.restore(restore["id"])["outcome"] == "corrupt"
    assert loaded == set()
