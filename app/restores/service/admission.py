"""Gang admission: the oldest waiting restore takes all its devices in one transaction, or none."""

import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import Database, after_commit, database_time
from app.models import Restore
from app.restores import repository
from app.restores.dispatch import RankCall, RankMessages
from app.restores.repository.admission import Seat, admit_seats, lock_seats
from app.restores.service.completion import advance, end_attempt
from app.restores.service.pace import turn_s
from app.restores.service.sending import resend_delay_s, send_after_commit

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
    # All at once, in the order of ids: one restore's after the other's would be an order of its own.
    by_restore: dict[UUID, list[Seat]] = {restore_id: [] for restore_id in next_ones}
    for seat in lock_seats(session, restore_ids=next_ones):
        by_restore[seat.restore_id].append(seat)
    now = database_time(session)
    for restore_id, seats in by_restore.items():
        if any(seat.pages_bytes > seat.pool_bytes for seat in seats):
            _end_too_large(session, restore_id=restore_id, seats=seats, now=now, messages=messages)
    admitted = {restore_id: seats for restore_id, seats in by_restore.items() if _can_start(seats)}
    if admitted:
        _admit(session, admitted=admitted, messages=messages, settings=settings, now=now)
    return list(admitted)


def _can_start(seats: list[Seat]) -> bool:
    """Whether a restore waits still (then it has seats) and every device is free and has room."""
    return bool(seats) and all(
        seat.held_by is None and seat.taken_bytes + seat.pages_bytes <= seat.pool_bytes for seat in seats
    )


def _admit(
    session: Session,
    *,
    admitted: Mapping[UUID, list[Seat]],
    messages: RankMessages,
    settings: Settings,
    now: datetime,
) -> None:
    seats = [seat for of_restore in admitted.values() for seat in of_restore]
    pauses = [turn_s(seat.rank, rank_count=seat.rank_count) for seat in seats]
    sends = [now + timedelta(seconds=pause_s) for pause_s in pauses]
    again = timedelta(seconds=resend_delay_s(1, settings=settings))
    admit_seats(
        session,
        seats=seats,
        sends=sends,
        next_sends=[sent + again for sent in sends],
        details={
            restore_id: "holds " + ", ".join(sorted(seat.device for seat in of_restore))
            for restore_id, of_restore in admitted.items()
        },
        now=now,
        ready_deadline=now + timedelta(seconds=settings.ready_deadline_s),
    )
    calls = [
        RankCall(word="restore", queue=seat.queue, attempt_id=seat.attempt_id, pause_s=pause_s)
        for seat, pause_s in zip(seats, pauses, strict=True)
    ]
    send_after_commit(session, calls, messages=messages)


def _end_too_large(
    session: Session, *, restore_id: UUID, seats: Sequence[Seat], now: datetime, messages: RankMessages
) -> None:
    """End a restore that fits no longer: a device's pool became smaller than one of its ranks.

    It would wait for ever, and whoever came after it for the same device with it.
    """
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None:
        return
    too_large = {seat.attempt_id: seat for seat in seats if seat.pages_bytes > seat.pool_bytes}
    for attempt in restore.attempts:
        if (seat := too_large.get(attempt.id)) is not None:
            detail = (
                f"device {seat.device}: rank {seat.rank} needs {seat.pages_bytes} bytes of pages, its pool "
                f"has {seat.pool_bytes} now"
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
    advance(session, restore=restore, now=now, messages=messages)


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
