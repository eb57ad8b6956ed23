"""When a rank's worker is woken, and when again if it does not answer: back-off and a cap.

Every message may be lost (the broker, or the process between commit and send, was killed) and may come twice.
`next_send_at` of the attempt says when the timetable sends again; an answer clears it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import after_commit
from app.models import RankAttempt
from app.restores.dispatch import RankCall, RankMessages
from app.restores.service.pace import turn_s

_CALLS: Final = "sparkgate.calls"


def send_restore(
    session: Session, *, attempt: RankAttempt, messages: RankMessages, settings: Settings, now: datetime
) -> None:
    """Have the attempt's worker woken after the commit, and say when to try again if nobody claims it."""
    pause_s = turn_s(attempt.rank, rank_count=attempt.restore.rank_count)
    note_sent(attempt, settings=settings, now=now + timedelta(seconds=pause_s))
    call = RankCall(word="restore", queue=attempt.device.queue, attempt_id=attempt.id, pause_s=pause_s)
    send_after_commit(session, [call], messages=messages)


def send_discard(
    session: Session, *, attempt: RankAttempt, messages: RankMessages, settings: Settings, now: datetime
) -> None:
    """Have the worker give the attempt's pages back; asked again until it has said so."""
    pause_s = turn_s(attempt.rank, rank_count=attempt.restore.rank_count)
    note_sent(attempt, settings=settings, now=now + timedelta(seconds=pause_s))
    call = RankCall(word="discard", queue=attempt.device.queue, attempt_id=attempt.id, pause_s=pause_s)
    send_after_commit(session, [call], messages=messages)


def send_readback(
    session: Session, *, attempt: RankAttempt, readback_id: UUID, messages: RankMessages
) -> None:
    """Have the worker digest the attempt's pages; the caller notes when to ask again."""
    queue, attempt_id = attempt.device.queue, attempt.id
    after_commit(session, lambda: messages.readback(queue, attempt_id=attempt_id, readback_id=readback_id))


def send_after_commit(session: Session, calls: Sequence[RankCall], *, messages: RankMessages) -> None:
    """Have all that one transaction calls called together, once it is committed."""
    waiting: list[RankCall] | None = session.info.get(_CALLS)
    if waiting is None:
        session.info[_CALLS] = waiting = []
        after_commit(session, lambda: messages.send(session.info.pop(_CALLS)))
    waiting.extend(calls)


def note_sent(attempt: RankAttempt, *, settings: Settings, now: datetime) -> None:
    """Count a message and say when the next one is due."""
    attempt.send_count += 1
    attempt.sent_at = now
    attempt.next_send_at = now + timedelta(seconds=resend_delay_s(attempt.send_count, settings=settings))


def resend_delay_s(send_count: int, *, settings: Settings) -> float:
    """Doubling from `resend_first_s` up to `resend_cap_s`, in seconds."""
    doublings = min(send_count - 1, 60)
    return min(settings.resend_first_s * 2.0**doublings, settings.resend_cap_s)
