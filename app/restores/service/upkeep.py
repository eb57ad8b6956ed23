"""What the timetable does, each restore in a transaction of its own so that none holds up another."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database, database_time
from app.models import RankAttempt, Restore
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.service import readback, residency
from app.restores.service.admission import admit_waiting
from app.restores.service.completion import advance, end_attempt, hold_devices
from app.restores.service.sending import send_restore

log = logging.getLogger(__name__)


def run(database: Database, *, messages: RankMessages, settings: Settings) -> None:
    """One tick: expire, re-send, tend pages, admit."""
    with database.reading() as session:
        now = database_time(session)
        overdue = repository.overdue_restores(session, now=now)
        unclaimed = repository.unclaimed_due(session, now=now)
        resident = repository.resident_due(session, now=now)
    _each(database, overdue, work=lambda session, restore_id: expire(session, restore_id, messages=messages))
    _each(
        database,
        unclaimed,
        work=lambda session, restore_id: resend(session, restore_id, messages=messages, settings=settings),
    )
    _each(
        database,
        resident,
        work=lambda session, restore_id: residency.tend(
            session,
            restore_id=restore_id,
            messages=messages,
            settings=settings,
            now=database_time(session),
        ),
    )
    with database.transaction() as session:
        readback.expire_readbacks(session)
    with database.transaction() as session:
        admit_waiting(session, messages=messages, settings=settings)


def _each(database: Database, restore_ids: list[UUID], *, work: Callable[[Session, UUID], None]) -> None:
    for restore_id in restore_ids:
        try:
            with database.transaction() as session:
                work(session, restore_id)
        except SQLAlchemyError:
            log.exception("restore %s: left to the next tick", restore_id)


def expire(session: Session, restore_id: UUID, *, messages: RankMessages) -> None:
    """End the attempts whose worker is silent, replaced or late, and move the restore on."""
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None or restore.state not in {"running", "publishing", "retracting"}:
        return
    now = database_time(session)
    hold_devices(session, restore=restore)
    for attempt in restore.attempts:
        reason = _loss(restore, attempt=attempt, now=now)
        if reason is not None:
            _lose(session, attempt=attempt, reason=reason, now=now)
    advance(session, restore=restore, now=now, messages=messages)


def _loss(restore: Restore, *, attempt: RankAttempt, now: datetime) -> str | None:
    """Why an attempt counts as lost, if it does."""
    if attempt.ended_at is not None:
        return None
    device = f"{attempt.device.node.name}/{attempt.device.name}"
    if attempt.device_generation is not None and attempt.device_generation < attempt.device.generation:
        return f"the rank worker of {device} ended and was replaced (generation {attempt.device.generation})"
    if attempt.lease_expires_at is not None and attempt.lease_expires_at < now:
        return f"the rank worker of {device} fell silent: its lease ran out"
    late = (
        restore.decision is None and restore.ready_deadline_at is not None and restore.ready_deadline_at < now
    )
    if late and attempt.state != "ready":
        return f"the rank on {device} was not ready by the deadline ({attempt.state})"
    if _is_undone(restore, attempt=attempt, now=now):
        return f"the rank on {device} said that it is alive but did not {restore.decision} by the deadline"
    return None


def _is_undone(restore: Restore, *, attempt: RankAttempt, now: datetime) -> bool:
    """Whether a rank has had as long for what is decided as it had for getting ready, and has not done it.

    A worker may hang while the thread that beats for it goes on; it must not hold the others for ever.
    """
    if restore.decided_at is None or restore.ready_deadline_at is None or restore.admitted_at is None:
        return False
    if restore.decision == "publish" and attempt.acknowledged_epoch == restore.epoch:
        return False
    return restore.decided_at + (restore.ready_deadline_at - restore.admitted_at) < now


def _lose(session: Session, *, attempt: RankAttempt, reason: str, now: datetime) -> None:
    problem: dict[str, Any] = {"code": "rank-lost", "detail": reason}
    end_attempt(
        session, attempt=attempt, state="lost", outcome=None, problem=problem, now=now, pages="released"
    )


def resend(session: Session, restore_id: UUID, *, messages: RankMessages, settings: Settings) -> None:
    """Send the messages of ranks again that nobody claimed, up to the limit; then they count as lost."""
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None or restore.state != "running":
        return
    now = database_time(session)
    due = [
        attempt
        for attempt in restore.attempts
        if attempt.state == "waiting" and attempt.next_send_at is not None and attempt.next_send_at < now
    ]
    hold_devices(session, restore=restore)
    for attempt in due:
        if attempt.send_count <= settings.resend_limit:
            send_restore(session, attempt=attempt, messages=messages, settings=settings, now=now)
        else:
            device = f"{attempt.device.node.name}/{attempt.device.name}"
            reason = f"no rank worker of {device} claimed the rank after {attempt.send_count} messages"
            _lose(session, attempt=attempt, reason=reason, now=now)
    advance(session, restore=restore, now=now, messages=messages)
