"""Published pages stay until their time to live or a discard; then every rank gives them back."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.core.canonical_json import JsonObject
from app.db.session import database_time
from app.errors import Conflict, Gone, NotFound
from app.ledger import service as ledger
from app.models import RankAttempt, Readback, Restore
from app.restores import repository
from app.restores.dispatch import RankCall, RankMessages
from app.restores.repository import words
from app.restores.repository.pages import holders, note_asked
from app.restores.repository.words import Held, Told
from app.restores.service.pace import turn_s
from app.restores.service.sending import (
    note_sent,
    resend_delay_s,
    send_after_commit,
    send_discard,
    send_readback,
)


def check_resident(restore: Restore) -> None:
    """Let through only a restore whose pages are visible now.

    Raises:
        Conflict: not published (yet, or ever).
        Gone: the pages were published and have been given back.
    """
    if restore.outcome is None:
        raise Conflict(
            f"restore {restore.id}: {restore.state}, nothing is published yet", code="not-published"
        )
    if restore.outcome != "restored":
        raise Conflict(
            f"restore {restore.id}: {restore.outcome}, nothing was published", code="not-published"
        )
    if restore.state != "resident":
        raise Gone(f"restore {restore.id}: its pages were given back ({restore.release_reason})")


def discard(
    session: Session, *, restore_id: UUID, by: str, messages: RankMessages, settings: Settings
) -> Restore:
    """Have every rank give the published pages back; asking again changes nothing.

    Raises:
        NotFound: no such restore.
        Conflict: nothing was published.
    """
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None:
        raise NotFound(f"restore {restore_id}: not found")
    if restore.outcome != "restored":
        check_resident(restore)
    if restore.state == "resident":
        release(
            session,
            restore=restore,
            reason=f"discarded by {by}",
            messages=messages,
            settings=settings,
            now=database_time(session),
        )
    return restore


def release(
    session: Session,
    *,
    restore: Restore,
    reason: str,
    messages: RankMessages,
    settings: Settings,
    now: datetime,
) -> None:
    """From now on the pages are not visible; the ranks are told to give them back.

    Readbacks that are still open end: a rank that has given its pages back cannot answer.
    """
    for readback in repository.lock_open_readbacks(session, restore_id=restore.id):
        readback.problem = {"code": "gone", "detail": f"the pages were given back: {reason}"}
        end_readback(session, readback=readback, now=now)
    restore.state = "releasing"
    restore.release_reason = reason
    _note(session, restore=restore, kind="releasing", detail=reason)
    _ask_all(session, restore=restore, messages=messages, settings=settings, now=now)


def _ask_all(
    session: Session, *, restore: Restore, messages: RankMessages, settings: Settings, now: datetime
) -> None:
    """Have every rank that holds pages give them back, each when it has its turn."""
    asked = holders(session, restore_id=restore.id)
    pauses = [turn_s(one.rank, rank_count=restore.rank_count) for one in asked]
    sends = [now + timedelta(seconds=pause_s) for pause_s in pauses]
    again = timedelta(seconds=resend_delay_s(1, settings=settings))
    note_asked(session, asked=asked, sends=sends, next_sends=[sent + again for sent in sends])
    calls = [
        RankCall(word="discard", queue=one.queue, attempt_id=one.attempt_id, pause_s=pause_s)
        for one, pause_s in zip(asked, pauses, strict=True)
    ]
    send_after_commit(session, calls, messages=messages)


def end_readback(session: Session, *, readback: Readback, now: datetime) -> None:
    """Nothing is waited for any more: what the ranks read back so far, and why not all, becomes one leaf."""
    readback.ended_at = now
    facts: JsonObject = {"restore": str(readback.restore_id), "readback": str(readback.id)}
    rows: dict[str, list[ledger.RowKey]] = {
        "readback": [readback],
        "rank_readback": [ledger.all_of(readback.id)],
    }
    ledger.record(session, kind="readback-ended", by=ledger.CONTROL_PLANE, rows=rows, facts=facts)


def _pages_lost(
    session: Session, *, restore: Restore, attempts: Sequence[RankAttempt], now: datetime
) -> None:
    """The pages of these ranks are gone; with the last rank the restore is finished."""
    for attempt in attempts:
        if attempt.pages_released_at is None:
            attempt.pages_released_at = now
            attempt.next_send_at = None
    if not repository.holds_pages(session, restore_id=restore.id):
        _finish(session, restore=restore, now=now)


def _finish(session: Session, *, restore: Restore, now: datetime) -> None:
    """No rank holds pages any more: that ends a restore which gives them back."""
    if restore.state != "releasing":
        return
    restore.state = "finished"
    restore.released_at = now
    _note(session, restore=restore, kind="released", detail="all ranks")
    everything = ledger.all_of(restore.id)
    rows: dict[str, Sequence[ledger.RowKey]] = {
        "restore.release": [restore],
        "rank_attempt.release": [everything],
    }
    _record(session, restore=restore, kind="released", rows=rows)


def _note(session: Session, *, restore: Restore, kind: str, detail: str) -> None:
    """An event after the end: what the leaf of the end could not hold."""
    event = repository.add_event(session, restore_id=restore.id, kind=kind, detail=detail, rank=None)
    _record(session, restore=restore, kind=kind, rows={"restore_event": [event]})


def _record(
    session: Session, *, restore: Restore, kind: str, rows: Mapping[str, Sequence[ledger.RowKey]]
) -> None:
    facts: JsonObject = {"restore": str(restore.id), "reason": restore.release_reason}
    ledger.record(session, kind=f"restore-{kind}", by=ledger.CONTROL_PLANE, rows=rows, facts=facts)


def report_gone(session: Session, held: Held, *, messages: RankMessages, settings: Settings) -> Told:
    """A rank says that it no longer holds its pages, asked to give them back or not.

    Pages that went without being asked for take the whole restore with them.
    """
    is_last = words.note_released(session, held)
    if held.restore_state == "resident":
        restore = repository.held_restore(session, restore_id=held.restore_id)
        reason = f"rank {held.rank} no longer held its pages"
        release(session, restore=restore, reason=reason, messages=messages, settings=settings, now=held.now)
    if is_last:
        restore = repository.held_restore(session, restore_id=held.restore_id)
        _finish(session, restore=restore, now=held.now)
    return held.told


def is_wanted(session: Session, *, device_id: UUID) -> bool:
    """Whether a rank of a waiting restore wants a device: then the queue is worth a look."""
    return words.is_wanted(session, device_id=device_id)


def tend(
    session: Session, *, restore_id: UUID, messages: RankMessages, settings: Settings, now: datetime
) -> None:
    """What the timetable does for one restore with pages: end its time, notice lost workers, ask again."""
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None or restore.state not in {"resident", "releasing"}:
        return
    lost = [
        attempt
        for attempt in restore.attempts
        if attempt.pages_released_at is None and (attempt.device_generation or 0) < attempt.device.generation
    ]
    _pages_lost(session, restore=restore, attempts=lost, now=now)
    reason = _end_of_residency(restore, lost=lost, now=now)
    if restore.state == "resident" and reason is not None:
        # Asks every rank that holds pages, so that none is to be asked again yet.
        release(session, restore=restore, reason=reason, messages=messages, settings=settings, now=now)
        _pages_lost(session, restore=restore, attempts=lost, now=now)
        return
    for attempt in restore.attempts:
        if attempt.next_send_at is not None and attempt.next_send_at < now:
            _ask_again(
                session, restore=restore, attempt=attempt, messages=messages, settings=settings, now=now
            )


def _end_of_residency(restore: Restore, *, lost: list[RankAttempt], now: datetime) -> str | None:
    if lost:
        ranks = ", ".join(str(attempt.rank) for attempt in lost)
        return f"the worker that held the pages of rank {ranks} ended"
    if restore.resident_until is not None and restore.resident_until < now:
        return "time to live reached"
    return None


def _ask_again(
    session: Session,
    *,
    restore: Restore,
    attempt: RankAttempt,
    messages: RankMessages,
    settings: Settings,
    now: datetime,
) -> None:
    """Send again what the rank has not answered: the discard, or the readbacks that are still open."""
    if restore.state == "releasing":
        send_discard(session, attempt=attempt, messages=messages, settings=settings, now=now)
        return
    unanswered = repository.unanswered_readbacks(session, restore_id=restore.id, rank=attempt.rank)
    if not unanswered:
        attempt.next_send_at = None
        return
    note_sent(attempt, settings=settings, now=now)
    for readback_id in unanswered:
        send_readback(session, attempt=attempt, readback_id=readback_id, messages=messages)
