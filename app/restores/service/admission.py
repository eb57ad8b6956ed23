"""Gang admission: the oldest waiting restore takes all its devices in one transaction, or none."""

import logging
import threading
from collections.abc import Mapping
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
from app.restores.service.completion import advance, end_attempt
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
    # Whoever frees a device after this reading looks at the queue again once that is committed.
    next_ones = repository.next_restores(session, considered=CONSIDERED)
    if not next_ones:
        return []
    restores = [repository.lock_restore(session, restore_id=restore_id) for restore_id in next_ones]
    still_waiting = [one for one in restores if one is not None and one.state == "waiting"]
    # All at once, in the order of ids: one restore's after the other's would be an order of its own.
    locked = nodes.lock_devices(session, ids=[one.device_id for it in still_waiting for one in it.attempts])
    by_id = {device.id: device for device in locked}
    return [
        restore.id
        for restore in still_waiting
        if _admitted(session, restore=restore, devices=by_id, messages=messages, settings=settings)
    ]


def _admitted(
    session: Session,
    *,
    restore: Restore,
    devices: Mapping[UUID, Device],
    messages: RankMessages,
    settings: Settings,
) -> bool:
    own = [devices[attempt.device_id] for attempt in restore.attempts]
    if _end_if_too_large(session, restore=restore, devices=devices, messages=messages):
        return False
    if not _all_free(session, restore=restore, devices=own):
        return False
    _admit(session, restore=restore, devices=own, messages=messages, settings=settings)
    return True


def _end_if_too_large(
    session: Session, *, restore: Restore, devices: Mapping[UUID, Device], messages: RankMessages
) -> bool:
    """End a restore that fits no longer: a device's pool became smaller than one of its ranks.

    It would wait for ever, and whoever came after it for the same device with it.
    """
    now = database_time(session)
    for attempt in restore.attempts:
        device = devices[attempt.device_id]
        if attempt.pages_bytes > device.pool_bytes:
            detail = (
                f"device {attempt.device.node.name}/{device.name}: rank {attempt.rank} needs "
                f"{attempt.pages_bytes} bytes of pages, its pool has {device.pool_bytes} now"
            )
            problem = {"code": "devices-missing", "detail": detail}
            end_attempt(
                session,
                attempt=attempt,
                state="lost",
                outcome=None,
                problem=problem,
                now=now,
                pages="released",
            )
    if all(attempt.ended_at is None for attempt in restore.attempts):
        return False
    advance(session, restore=restore, now=now, messages=messages)
    return True


class Looks:
    """Looks at the queue, one at a time in this process.

    A look that has not begun yet serves everybody who has committed before it begins, so a hundred orders at
    once need two looks and not a hundred, each with a connection that waits for the lock of admission.
    """

    def __init__(self, database: Database, *, messages: RankMessages, settings: Settings) -> None:
        self._database = database
        self._messages = messages
        self._settings = settings
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._next_is_waiting = False

    def look(self) -> None:
        """Look at the queue, or leave it to the look that is about to begin; then to the timetable's."""
        with self._counting:
            if self._next_is_waiting:
                return
            self._next_is_waiting = True
        with self._turn:
            with self._counting:
                self._next_is_waiting = False
            try:
                with self._database.transaction() as session:
                    admit_waiting(session, messages=self._messages, settings=self._settings)
            except SQLAlchemyError:
                log.exception("admission: left to the next tick")

    def look_after(self, session: Session) -> None:
        """Look once the transaction of `session` is committed."""
        after_commit(session, self.look)


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


def _all_free(session: Session, *, restore: Restore, devices: list[Device]) -> bool:
    if any(device.held_by is not None for device in devices):
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
