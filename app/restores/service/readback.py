"""Read the published pages back on every rank: what is really there, digested layer by layer."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.db.session import database_time
from app.errors import Conflict, NotFound
from app.ledger import service as ledger
from app.models import RankAttempt, RankReadback, Readback
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.service.residency import check_resident, end_readback
from app.restores.service.sending import note_sent, send_readback

DEADLINE: Final = timedelta(seconds=120)
MOST_LISTED: Final = 100


def request_readback(
    session: Session, *, restore_id: UUID, by: str, messages: RankMessages, settings: Settings
) -> Readback:
    """Ask every rank for the digests of its published pages; a rank that does not answer is asked again.

    Raises:
        NotFound: no such restore.
        Conflict: nothing is published.
        Gone: the pages were given back.
    """
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None:
        raise NotFound(f"restore {restore_id}: not found")
    check_resident(restore)
    readback = Readback(restore_id=restore.id, created_by=by)
    session.add(readback)
    session.flush()
    now = database_time(session)
    for attempt in restore.attempts:
        attempt.send_count = 0
        note_sent(attempt, settings=settings, now=now)
        send_readback(session, attempt=attempt, readback_id=readback.id, messages=messages)
    return get_readback(session, restore_id=restore_id, readback_id=readback.id)


def get_readback(session: Session, *, restore_id: UUID, readback_id: UUID) -> Readback:
    """One readback of a restore.

    Raises:
        NotFound: the restore has none with this id.
    """
    readback = repository.get_readback(session, readback_id=readback_id)
    if readback is None or readback.restore_id != restore_id:
        raise NotFound(f"readback {readback_id} of restore {restore_id}: not found")
    return readback


def list_readbacks(session: Session, *, restore_id: UUID) -> list[Readback]:
    """The newest hundred readbacks of a restore, newest first.

    Raises:
        NotFound: no such restore.
    """
    if not repository.has_restore(session, restore_id=restore_id):
        raise NotFound(f"restore {restore_id}: not found")
    return repository.list_readbacks(session, restore_id=restore_id, limit=MOST_LISTED)


def record_rank(
    session: Session, *, readback_id: UUID, attempt: RankAttempt, layers: list[dict[str, Any]]
) -> Readback:
    """Keep what one rank read back; the same again changes nothing.

    Raises:
        NotFound: no such readback.
        Conflict: the rank said something else before.
    """
    readback = repository.lock_readback(session, readback_id=readback_id)
    if readback is None or readback.restore_id != attempt.restore_id:
        raise NotFound(f"readback {readback_id} of restore {attempt.restore_id}: not found")
    rank = attempt.rank
    known = next((one for one in readback.ranks if one.rank == rank), None)
    if known is not None:
        if known.layers != layers:
            raise Conflict(
                f"readback {readback_id}: rank {rank} read something else before", code="report-differs"
            )
        return readback
    now = database_time(session)
    row = RankReadback(readback_id=readback_id, rank=rank, layers=layers, received_at=now)
    readback.ranks.append(row)
    if readback.ended_at is not None:  # it expired without this rank: what ended stays as it ended
        ledger.record(
            session,
            kind="readback-answered-late",
            by=ledger.CONTROL_PLANE,
            rows={"rank_readback": [row]},
            facts={"restore": str(readback.restore_id), "readback": str(readback.id)},
        )
    elif len(readback.ranks) == attempt.restore.rank_count:
        end_readback(session, readback=readback, now=now)
    return readback


def expire_readbacks(session: Session) -> int:
    """End readbacks that some rank did not answer in time; returns how many."""
    now = database_time(session)
    overdue = repository.overdue_readbacks(session, created_before=now - DEADLINE)
    for readback_id in overdue:
        readback = repository.lock_readback(session, readback_id=readback_id)
        if readback is not None and readback.ended_at is None:
            answered = sorted(one.rank for one in readback.ranks)
            readback.problem = {
                "code": "rank-silent",
                "detail": f"only ranks {answered} answered within {DEADLINE.seconds} s",
            }
            end_readback(session, readback=readback, now=now)
    return len(overdue)
