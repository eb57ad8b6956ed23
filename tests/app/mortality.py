"""A database whose transactions die now and then, and what must be true of all restores afterwards."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine, func, select, text
from sqlalchemy.orm import Session

from app.db.session import Database, before_commit
from app.models import Device, LedgerLeaf, Readback, Restore, RestoreEvent

KILLED: Final = 0.08


class KilledError(Exception):
    """Stands for a process that died within its transaction."""


class Mortal(Database):
    """A database whose transactions end in the middle now and then: rolled back, or their backend killed."""

    def __init__(self, engine: Engine, *, chance: random.Random) -> None:
        super().__init__(engine)
        self.chance = chance

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        with super().transaction() as session:
            yield session
            fate = self.chance.random()
            if fate < KILLED / 4:
                raise KilledError
            if fate < KILLED / 2:
                _die(session)
            if fate < KILLED:
                before_commit(session, _die)  # after the leaf was appended, under the ledger's lock


def _die(session: Session) -> None:
    session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


def check_all_ended(session: Session) -> Counter[str]:
    """Every invariant of restores that are over; returns how they ended."""
    assert session.scalars(select(Device.name).where(Device.held_by.is_not(None))).all() == []
    assert session.scalars(select(Readback.id).where(Readback.ended_at.is_(None))).all() == []
    endings: Counter[str] = Counter()
    for restore in session.scalars(select(Restore)):
        assert (restore.state, restore.released_at is not None) == ("finished", True)
        endings[str(restore.outcome)] += 1
        whole = restore.outcome == "restored"
        for attempt in restore.attempts:
            assert attempt.ended_at is not None
            assert attempt.pages_released_at is not None
            assert (attempt.outcome == "restored") is whole
            if whole:
                assert (restore.decision, attempt.acknowledged_epoch) == ("publish", restore.epoch)
        if whole:
            assert restore.cancel_requested_at is None
        kinds = select(RestoreEvent.kind).where(
            RestoreEvent.restore_id == restore.id, RestoreEvent.rank.is_(None)
        )
        told = Counter(session.scalars(kinds))
        assert told["restored"] + told["corrupt"] + told["incomplete"] + told["failed"] == 1
        assert (told["requested"], told["released"], told["retried"] <= 1) == (1, int(whole), True)
    return endings


def check_leaves(session: Session, *, restores: int) -> None:
    """One leaf for every order and one for every end; none for what was rolled back."""
    leaves = select(LedgerLeaf.kind, func.count()).group_by(LedgerLeaf.kind)
    found = {str(row[0]): int(row[1]) for row in session.execute(leaves)}
    assert (found["restore-requested"], found["restore-ended"]) == (restores, restores)
