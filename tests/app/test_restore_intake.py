"""Orders of one moment: written together, each answered as if it had come alone."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from fastapi import Response
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from app.core.ledger.leaf import parse_leaf
from app.db.session import Database
from app.errors import AppError, Conflict, NotFound
from app.models import LedgerLeaf, Restore, RestoreEvent
from app.restores.service import intake as intakes
from app.restores.service.admission import Looks
from app.restores.service.intake import Intake, Placed
from app.restores.service.request import Ordered, RestoreOrder, Wish
from app.web.idempotency import Answer, Asked
from tests.app.conftest import RecordedMessages
from tests.app.ring import Ring
from tests.app.test_ledger_audit import audit

PATIENCE_S = 20.0
CROWD = 40


def accepted(ordered: Ordered) -> Answer:
    return Answer(status=202, body=json.dumps(str(ordered.restore.id)).encode())


class Counter:
    """Has orders wait for each other as those of a storm do: all that come behind the first one, together."""

    def __init__(self, intake: Intake, *, ring: Ring) -> None:
        self.intake = intake
        self.order = RestoreOrder(
            context_digest=str(ring.stored.context_digest),
            layout_sha256=str(ring.stored.layout.sha256),
            rank_zero_storage_key=None,
            resident_s=600,
        )
        self._may_go_on = threading.Event()

    def placed(self, *, key: str | None = None, by: str = "ada", **changes: Any) -> Placed:
        order = replace(self.order, **changes)
        asked = Asked(principal=by, key=key or str(uuid4()), request=repr(order).encode())
        return Placed(asked=asked, wish=Wish(order=order, by=by), answer=accepted)

    @contextmanager
    def rush(self) -> Iterator[None]:
        """Whatever is placed here is written once everything is."""
        begun = threading.Event()

        def slow(ordered: Ordered) -> Answer:
            begun.set()
            assert self._may_go_on.wait(PATIENCE_S)
            return accepted(ordered)

        first = self.intake.place(replace(self.placed(), answer=slow))
        assert begun.wait(PATIENCE_S)
        yield
        self._may_go_on.set()
        assert first.result(PATIENCE_S).status_code == 202


@pytest.fixture
def intake(
    ring: Ring, database: Database, messages: RecordedMessages, monkeypatch: pytest.MonkeyPatch
) -> Intake:
    monkeypatch.setattr(intakes, "WRITERS", 1)
    looks = Looks(database, messages=messages, settings=ring.client.app.state.settings)  # type: ignore[attr-defined]
    return Intake(database, looks=looks, silence_s=3600.0)


@pytest.fixture
def counter(intake: Intake, ring: Ring) -> Counter:
    """With the devices held, so that whoever orders has to wait for them."""
    ring.start_restore()
    return Counter(intake, ring=ring)


@contextmanager
def commits(database: Database) -> Iterator[list[object]]:
    seen: list[object] = []

    def note(connection: object) -> None:
        seen.append(connection)

    event.listen(database.engine, "commit", note)
    try:
        yield seen
    finally:
        event.remove(database.engine, "commit", note)


def outcome(future: Future[Response]) -> Any:
    """The status of an answer, or the error."""
    error = future.exception(PATIENCE_S)
    return error if error is not None else future.result().status_code


def test_orders_of_one_moment_share_a_transaction_and_have_a_leaf_each(
    counter: Counter, database: Database, messages: RecordedMessages
) -> None:
    with commits(database) as seen:
        with counter.rush():
            futures = [counter.intake.place(counter.placed(by=f"ada {n}")) for n in range(CROWD)]
        ids = [json.loads(bytes(future.result(PATIENCE_S).body)) for future in futures]
    assert len(set(ids)) == CROWD
    # The first, and two rounds of the others.
    assert len(seen) == 3
    with database.reading() as session:
        rows = {
            str(restore_id): (by, at)
            for restore_id, by, at in session.execute(
                select(Restore.id, Restore.created_by, Restore.created_at)
            )
        }
        told = {str(one.restore_id): one.detail for one in session.scalars(select(RestoreEvent))}
        leaves = session.scalars(select(LedgerLeaf).order_by(LedgerLeaf.index))
        facts = [
            parse_leaf(one.document, subject="leaf").facts
            for one in leaves
            if one.kind == "restore-requested"
        ]
    assert [rows[one][0] for one in ids] == [f"ada {n}" for n in range(CROWD)]
    instants = [rows[one][1] for one in ids]
    assert instants == sorted(instants)
    assert [told[one] for one in ids] == [f"requested by ada {n}" for n in range(CROWD)]
    assert [one["restore"] for one in facts][2:] == ids
    assert [str(one) for one in audit(database)] == []
    assert len(messages.sent) == 4


def test_an_order_that_is_refused_leaves_the_others_alone(counter: Counter, database: Database) -> None:
    with counter.rush():
        good = [counter.intake.place(counter.placed()) for _ in range(3)]
        unknown = counter.intake.place(counter.placed(key="again", context_digest="0" * 64))
        again = counter.intake.place(counter.placed(key="again"))
        good.append(counter.intake.place(counter.placed()))
    assert [outcome(one) for one in good] == [202] * 4
    refused = outcome(unknown)
    assert isinstance(refused, NotFound)
    assert "no node holds a rank of it" in refused.detail
    # The same key beside it, as two requests at once: the later one is told to ask again, and may.
    assert outcome(again).code == "idempotency-in-flight"
    assert outcome(counter.intake.place(counter.placed(key="again"))) == 202
    with database.reading() as session:
        assert len(session.scalars(select(Restore)).all()) == 7


def test_what_the_database_refuses_is_found_among_the_others(
    counter: Counter, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layout that this process knows and this database does not: only writing shows it."""
    from app.layouts import service as layouts

    known = layouts._parsed[counter.order.layout_sha256]
    monkeypatch.setitem(layouts._parsed, "9" * 64, known)
    with counter.rush():
        futures = [
            counter.intake.place(counter.placed(**changes))
            for changes in ({}, {"layout_sha256": "9" * 64}, {})
        ]
    first, lacking, last = [outcome(one) for one in futures]
    assert (first, last) == (202, 202)
    assert isinstance(lacking, NotFound)
    assert lacking.detail == f"layout {'9' * 64}: not registered"
    with database.reading() as session:
        assert len(session.scalars(select(Restore)).all()) == 4
    assert [str(one) for one in audit(database)] == []


def test_one_key_is_one_restore_in_a_storm_too(counter: Counter, database: Database) -> None:
    with counter.rush():
        futures = [counter.intake.place(counter.placed(key="one")) for _ in range(5)]
    found = [outcome(one) for one in futures]
    assert found[0] == 202
    assert all(isinstance(one, Conflict) and one.code == "idempotency-in-flight" for one in found[1:])
    with database.reading() as session:
        assert len(session.scalars(select(Restore)).all()) == 3
    repeated = [counter.intake.place(counter.placed(key="one")).result(PATIENCE_S) for _ in range(2)]
    assert {one.body for one in repeated} == {futures[0].result().body}
    assert {one.headers["idempotent-replayed"] for one in repeated} == {"true"}
    other = outcome(counter.intake.place(counter.placed(key="one", resident_s=5)))
    assert isinstance(other, AppError)
    assert other.code == "idempotency-key-reused"


def test_whoever_has_gone_before_his_turn_has_not_ordered(counter: Counter, database: Database) -> None:
    with counter.rush():
        gone, stays = (counter.intake.place(counter.placed()) for _ in range(2))
        assert gone.cancel()
    assert outcome(stays) == 202
    with database.reading() as session:
        assert len(session.scalars(select(Restore)).all()) == 3


def test_a_database_that_is_away_is_asked_once_and_told_to_all(
    counter: Counter, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    @contextmanager
    def away() -> Iterator[None]:
        nonlocal asked
        asked += 1
        if asked:
            raise OperationalError("SELECT", {}, Exception("connection refused"))
        yield

    with counter.rush():
        futures = [counter.intake.place(counter.placed()) for _ in range(5)]
        monkeypatch.setattr(database, "transaction", away)
    assert all(isinstance(outcome(one), OperationalError) for one in futures)
    assert asked == 1


def test_the_answer_to_an_order_is_what_reading_it_shows(ring: Ring) -> None:
    """The answer is made of what was written, not read back."""
    ring.start_restore()
    answer = ring.post_restore(resident_s=77)
    assert answer.status_code == 202
    shown = ring.restore(answer.json()["id"])
    assert shown.pop("waiting_for") != []
    assert {**answer.json(), "waiting_for": None} == {**shown, "waiting_for": None}
    assert answer.headers["location"] == f"/api/v1/restores/{shown['id']}"


def test_a_crowd_of_clients_is_answered_one_by_one(ring: Ring) -> None:
    with ThreadPoolExecutor(CROWD) as pool:
        answers = list(pool.map(lambda _: ring.post_restore(), range(CROWD)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == CROWD
