"""Who locks which devices: no two transactions can wait for each other.

Each test stands in for one transaction and lets another give up a lock at once instead of waiting for it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database, open_database
from app.models import Device, RankAttempt, Readback, RestoreEvent
from app.nodes import repository as node_rows
from app.nodes import service as nodes
from app.nodes.service import DeviceStatement
from app.restores import repository
from app.restores.service import attempts, claims, completion, readback
from app.restores.service.attempts import Speaker
from app.restores.service.claims import ClaimAsked
from app.web.auth import PRESETS, Principal
from tests.app.conftest import RecordedMessages
from tests.app.ring import NODE, POOL_BYTES, Ring, failed_report, wire

PATIENCE_S = 20.0
WORKER = Principal(name="ada/worker", scopes=PRESETS["worker"], node_name=NODE)


@pytest.fixture
def impatient(settings: Settings) -> Iterator[Database]:
    """A second process that would rather fail than wait for a lock."""
    opened = open_database(settings)

    @contextmanager
    def transaction() -> Iterator[Session]:
        with Database.transaction(opened) as session:
            session.execute(text("SET LOCAL lock_timeout = '1s'"))
            yield session

    opened.transaction = transaction  # type: ignore[method-assign]
    yield opened
    opened.dispose()


def device_ids(session: Session) -> list[UUID]:
    return list(session.scalars(select(Device.id).order_by(Device.id)))


def test_a_restore_is_ordered_while_somebody_holds_its_devices(
    ring: Ring, database: Database, impatient: Database
) -> None:
    """An order only refers to devices; waiting for them in the order of ranks would be a deadlock."""
    restore = ring.start_restore()
    with database.transaction() as holder:
        node_rows.lock_devices(holder, ids=device_ids(holder))
        with impatient.transaction() as session:
            first = session.get_one(RankAttempt, UUID(restore["attempts"][0]["id"]))
            session.add(
                RankAttempt(
                    restore_id=first.restore_id,
                    rank=first.rank,
                    number=2,
                    device_id=first.device_id,
                    root_document_sha256=first.root_document_sha256,
                    root_path=first.root_path,
                    pages_bytes=first.pages_bytes,
                )
            )


def test_whoever_ends_ranks_leaves_devices_alone_that_its_restore_has_freed(
    ring: Ring, database: Database, impatient: Database
) -> None:
    """Admission may hold those, for another restore, while it waits for this one's."""
    restore = ring.start_restore()
    ranks = ring.claim_all(restore)
    ranks[0].fail().raise_for_status()
    with database.transaction() as admission:
        freed = select(Device.id).where(Device.held_by.is_(None))
        assert len(node_rows.lock_devices(admission, ids=list(admission.scalars(freed)))) == 1
        with impatient.transaction() as session:
            found = repository.lock_restore(session, restore_id=UUID(restore["id"]))
            assert found is not None
            completion.hold_devices(session, restore=found)


def waits_for_a_lock(session: Session) -> bool:
    """Whether somebody waits; `pg_locks` is read anew by every statement, `pg_stat_activity` is not."""
    return bool(session.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())


def test_a_node_that_registers_locks_its_devices_in_the_order_of_their_ids(
    ring: Ring, database: Database
) -> None:
    statements = [DeviceStatement(name=f"host{n}", kind="host", pool_bytes=POOL_BYTES) for n in range(4)]

    def register() -> None:
        with database.transaction() as session:
            nodes.register_node(session, name=NODE, devices=statements, by="ada")

    thread = threading.Thread(target=register)
    with database.transaction() as holder:
        first, *others = device_ids(holder)
        node_rows.lock_devices(holder, ids=[first])
        thread.start()
        give_up = time.monotonic() + PATIENCE_S
        while not waits_for_a_lock(holder):
            assert thread.is_alive()
            assert time.monotonic() < give_up
        # What comes after the first in the order of ids is free: it waits for the first alone.
        free = select(Device.id).where(Device.id.in_(others)).with_for_update(skip_locked=True)
        assert len(list(holder.scalars(free))) == len(others)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_readbacks_expire_in_the_order_in_which_a_release_ends_them(ring: Ring, database: Database) -> None:
    restore_id, _ = ring.run_to_resident()
    with database.transaction() as session:
        made = [
            Readback(restore_id=UUID(restore_id), created_by="ada", id=UUID(int=number))
            for number in (3, 1, 2)
        ]
        for one in made:
            session.add(one)
            session.flush()
        session.execute(text("UPDATE readback SET created_at = created_at - interval '1 hour'"))
    with database.transaction() as session:
        overdue = repository.overdue_readbacks(
            session, created_before=session.execute(text("SELECT now()")).scalar_one() - readback.DEADLINE
        )
        assert overdue == sorted(overdue)
        assert len(overdue) == 3


def test_a_rank_that_fails_or_retracts_locks_no_other_claimed_ranks_device(
    ring: Ring, database: Database, impatient: Database, messages: RecordedMessages
) -> None:
    """Somebody registers the machine of two other ranks meanwhile."""
    ranks = ring.claim_all(ring.start_restore())
    failing, retracting, *others = [
        Speaker(attempt_id=UUID(one.attempt_id), principal=WORKER, token=one.claim["token"]) for one in ranks
    ]
    raw = wire(failed_report(ring.report(0)))
    with database.transaction() as holder:
        held = select(Device.id).where(Device.held_by.in_([one.attempt_id for one in others]))
        assert len(node_rows.lock_devices(holder, ids=list(holder.scalars(held)))) == 2
        with impatient.transaction() as session:
            told = attempts.record_failure(session, failing, raw=raw, messages=messages)
            assert told.decision == "retract"
        with impatient.transaction() as session:
            attempts.record_retracted(session, retracting, messages=messages)
    with database.reading() as session:
        freed = select(Device.id).where(Device.held_by.is_(None))
        assert len(list(session.scalars(freed))) == 2


def test_a_claim_waits_for_what_is_being_decided_and_then_hears_of_it(
    ring: Ring, database: Database, impatient: Database, messages: RecordedMessages, settings: Settings
) -> None:
    """The claim's one statement holds the restore's row like any other word."""
    restore = ring.start_restore()
    (first,) = ring.claim_all({"attempts": restore["attempts"][:1]})
    speaker = Speaker(attempt_id=UUID(first.attempt_id), principal=WORKER, token=first.claim["token"])
    second, asked = UUID(restore["attempts"][1]["id"]), ClaimAsked(generation=1, token=7)
    given: dict[str, Any] = {"asked": asked, "lease_s": settings.lease_s}
    with database.transaction() as holder:
        attempts.record_failure(holder, speaker, raw=wire(failed_report(ring.report(0))), messages=messages)
        with pytest.raises(Exception, match="lock timeout"), impatient.transaction() as session:
            claims.claim(session, attempt_id=second, principal=WORKER, **given)
    with pytest.raises(Exception, match="cancelled in a finished one"), database.transaction() as session:
        claims.claim(session, attempt_id=second, principal=WORKER, **given)
    with database.reading() as session:
        assert session.get_one(RankAttempt, second).token is None
        granted = select(RestoreEvent).where(RestoreEvent.kind == "claimed")
        assert len(list(session.scalars(granted))) == 1
