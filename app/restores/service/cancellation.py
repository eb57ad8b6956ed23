"""A client calls a restore off: told to every rank, or too late. What really happened can be read off.

requested      the wish is written down and *retract* is decided with it, in one transaction
acknowledged   the worker of every rank that was claimed has been told
stopped        every rank has given its pages back, or is lost; the restore is over
"""

from uuid import UUID

from sqlalchemy.orm import Session

from app.db.session import database_time
from app.errors import Conflict, NotFound
from app.models import Restore
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.service.completion import advance, hold_devices


def locked_restore(session: Session, *, restore_id: UUID) -> Restore:
    """The restore, its row held until the end of the transaction.

    Raises:
        NotFound: there is none with this id.
    """
    restore = repository.lock_restore(session, restore_id=restore_id)
    if restore is None:
        raise NotFound(f"restore {restore_id}: not found")
    return restore


def request_cancel(
    session: Session, *, restore: Restore, by: str, reason: str | None, messages: RankMessages
) -> None:
    """Call a restore off, which the caller holds (`locked_restore`); asking again changes nothing.

    Raises:
        Conflict: publish is decided, or the restore retracts or is over already; nothing is changed.
    """
    if restore.cancel_requested_at is not None:
        return
    obstacle = _too_late(restore)
    if obstacle is not None:
        raise Conflict(f"restore {restore.id}: {obstacle}", code="cancel-too-late")
    now = database_time(session)
    if restore.state != "waiting":
        # A waiting restore holds no device; locking them while admission holds them and waits for this row
        # would be a deadlock.
        hold_devices(session, restore=restore)
    restore.cancel_requested_at = now
    restore.cancel_requested_by = by
    restore.cancel_reason = reason
    detail = f"by {by}: {reason}" if reason else f"by {by}"
    repository.add_event(session, restore_id=restore.id, kind="cancel requested", detail=detail, rank=None)
    advance(session, restore=restore, now=now, messages=messages)


def _too_late(restore: Restore) -> str | None:
    """Why there is nothing to cancel any more, if so."""
    if restore.state in {"publishing", "resident"}:
        return f"expected nothing to be published yet, found {restore.state}; discard gives its pages back"
    if restore.state == "retracting":
        return "expected a restore that goes on, found one that gives its pages back already"
    if restore.outcome is not None:
        return f"expected a restore that is not over, found {restore.outcome} ({restore.state})"
    return None
