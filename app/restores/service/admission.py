"""Gang admission: the oldest waiting restore takes all its devices in one transaction, or none."""

import logging
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database, after_commit, database_time
from app.models import Device, Restore
from app.nodes import service as nodes
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.service.sending import send_restore

log = logging.getLogger(__name__)

# One look at the queue considers so many restores; the next tick sees the rest.
CONSIDERED: Final = 100


def admit_waiting(session: Session, *, messages: RankMessages, settings: Settings) -> list[UUID]:
    """Admit every waiting restore whose devices are free, the oldest first, and wake their workers.

    A restore that has to wait keeps its devices from younger ones, so that a restore over many devices is
    not overtaken for ever by restores over few.

    Returns:
        The restores admitted.
    """
    repository.lock_admission(session)
    spoken_for: set[UUID] = set()
    admitted = []
    for restore_id in repository.waiting_restores(session, limit=CONSIDERED):
        restore = repository.lock_restore(session, restore_id=restore_id)
        if restore is None or restore.state != "waiting":
            continue
        devices = nodes.lock_devices(session, ids=[attempt.device_id for attempt in restore.attempts])
        if _all_free(session, restore=restore, devices=devices, spoken_for=spoken_for):
            _admit(session, restore=restore, devices=devices, messages=messages, settings=settings)
            admitted.append(restore.id)
        spoken_for.update(device.id for device in devices)
    return admitted


def admit_after_commit(
    session: Session, *, database: Database, messages: RankMessages, settings: Settings
) -> None:
    """Look at the queue once this transaction is committed; if that fails, the timetable's look will do."""

    def look() -> None:
        try:
            with database.transaction() as own:
                admit_waiting(own, messages=messages, settings=settings)
        except SQLAlchemyError:
            log.exception("admission: left to the next tick")

    after_commit(session, look)


def waiting_reasons(session: Session, *, restore: Restore) -> list[str]:
    """Why a waiting restore has not been admitted, one sentence per device that is not free for it."""
    if restore.state != "waiting":
        return []
    held = repository.pool_bytes_held(session, device_ids=[one.device_id for one in restore.attempts])
    reasons = []
    for attempt in restore.attempts:
        device, name = attempt.device, f"{attempt.device.node.name}/{attempt.device.name}"
        free = device.pool_bytes - held.get(device.id, 0)
        if device.held_by is not None:
            reasons.append(f"{name} is held by another restore")
        elif free < attempt.pages_bytes:
            reasons.append(
                f"the pool of {name} has {free} bytes free of {device.pool_bytes}, rank {attempt.rank} needs "
                f"{attempt.pages_bytes}; resident pages of other restores hold the rest"
            )
    return reasons or ["an older restore waits for the same devices"]


def _all_free(session: Session, *, restore: Restore, devices: list[Device], spoken_for: set[UUID]) -> bool:
    if any(device.held_by is not None or device.id in spoken_for for device in devices):
        return False
    held = repository.pool_bytes_held(session, device_ids=[device.id for device in devices])
    wanted = {attempt.device_id: attempt.pages_bytes for attempt in restore.attempts}
    return all(held.get(device.id, 0) + wanted[device.id] <= device.pool_bytes for device in devices)


def _admit(
    session: Session, *, restore: Restore, devices: list[Device], messages: RankMessages, settings: Settings
) -> None:
    now = database_time(session)
    by_id = {device.id: device for device in devices}
    restore.state = "running"
    restore.admitted_at = now
    restore.ready_deadline_at = now + timedelta(seconds=settings.ready_deadline_s)
    for attempt in restore.attempts:
        by_id[attempt.device_id].held_by = attempt.id
        send_restore(session, attempt=attempt, messages=messages, settings=settings, now=now)
    names = ", ".join(
        sorted(f"{attempt.device.node.name}/{attempt.device.name}" for attempt in restore.attempts)
    )
    repository.add_event(session, restore_id=restore.id, kind="admitted", detail=f"holds {names}", rank=None)
