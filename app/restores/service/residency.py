"""Published pages stay until their time to live or a discard; then every rank gives them back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.core.canonical_json import JsonObject
from app.db.session import database_time
from app.errors import Conflict, Gone, NotFound
from app.ledger import service as ledger
from app.models import RankAttempt, Readback, Restore
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.service.sending import note_sent, send_discard, send_readback


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
    for attempt in restore.attempts:
        if attempt.pages_released_at is None:
            attempt.send_count = 0
            send_discard(session, attempt=attempt, messages=messages, settings=settings, now=now)


def end_readback(session: Session, *, readback: Readback, now: datetime) -> None:
    """Nothing is waited for any more: what the ranks read back so far, and why not all, becomes one leaf."""
    readback.ended_at = now
    facts: JsonObject = {"restore": str(readback.restore_id), "readback": str(readback.id)}
    rows: dict[str, list[ledger.RowKey]] = {
        "readback": [readback],
        "rank_readback": [ledger.all_of(readback.id)],
    }
    ledger.record(session, kind="readback-ended", by=ledger.CONTROL_PLANE, rows=rows, facts=facts)


def pages_released(
    session: Session, *, restore: Restore, attempts: Sequence[RankAttempt], now: datetime
) -> None:
    """The pages of these ranks are gone; with the last rank the restore is finished."""
    for attempt in attempts:
        if attempt.pages_released_at is None:
            attempt.pages_released_at = now
            attempt.next_send_at = None
    if restore.state == "releasing" and not repository.holds_pages(session, restore_id=restore.id):
        restore.state = "finished"
        restore.released_at = now
        _note(session, restore=restore, kind="released", detail="all ranks")
        rows: dict[str, Sequence[ledger.RowKey]] = {
            "restore.release": [restore],
            "rank_attempt.release": restore.attempts,
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


def report_gone(
    session: Session, *, attempt: RankAttempt, messages: RankMessages, settings: Settings, now: datetime
) -> None:
    """A rank says that it no longer holds its pages, asked to give them back or not.

    Pages that went without being asked for take the whole restore with them.
    """
    restore = attempt.restore
    attempt.pages_released_at = attempt.pages_released_at or now
    attempt.next_send_at = None
    if restore.state == "resident":
        reason = f"rank {attempt.rank} no longer held its pages"
        release(session, restore=restore, reason=reason, messages=messages, settings=settings, now=now)
    pages_released(session, restore=restore, attempts=[attempt], now=now)


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
    pages_released(session, restore=restore, attempts=lost, now=now)
    if restore.state == "resident":
        reason = _end_of_residency(restore, lost=lost, now=now)
        if reason is not None:
            release(session, restore=restore, reason=reason, messages=messages, settings=settings, now=now)
        pages_released(session, restore=restore, attempts=lost, now=now)
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
