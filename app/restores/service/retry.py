"""A restore that failed is tried again: a new restore with new attempts; the old one stays as it ended."""

from uuid import UUID

from sqlalchemy.orm import Session

from app.config import Settings
from app.errors import Conflict
from app.ledger import service as ledger
from app.models import Restore
from app.restores import repository
from app.restores.service.answers import NO_QUESTION
from app.restores.service.cancellation import locked_restore
from app.restores.service.request import Ordered, RestoreOrder, request_restore


def retry_restore(session: Session, *, restore_id: UUID, by: str, settings: Settings) -> Ordered:
    """Order what a restore ordered once more, planned anew on the nodes that are alive now.

    Raises:
        NotFound: no such restore, or its snapshot or layout is gone.
        Conflict: it is not over, it is restored, it was tried again before, or it was the last try; or, as
            for any order, a rank or a device is missing.
    """
    restore = locked_restore(session, restore_id=restore_id)
    _check_retryable(session, restore=restore, try_limit=settings.try_limit)
    order = RestoreOrder(
        context_digest=restore.context_digest,
        layout_sha256=restore.layout_sha256,
        rank_zero_storage_key=restore.rank_zero_storage_key,
        resident_s=restore.resident_s,
        purpose=restore.purpose,
        image_config_id=restore.image_config_id,
        oracle=restore.question_sha256 or NO_QUESTION,
    )
    tried = restore.id, restore.try_number
    ordered = request_restore(session, order=order, by=by, silence_s=settings.node_silence_s, retry_of=tried)
    newer = ordered.restore
    detail = f"as {newer.id}, try {newer.try_number} of {settings.try_limit}, by {by}"
    event = repository.add_event(session, restore_id=restore.id, kind="retried", detail=detail, rank=None)
    ledger.record(
        session,
        kind="restore-retried",
        by=by,
        rows={"restore_event": [event]},
        facts={"restore": str(restore.id), "as": str(newer.id)},
    )
    return ordered


def _check_retryable(session: Session, *, restore: Restore, try_limit: int) -> None:
    if restore.fault_name is not None:
        raise Conflict(
            f"restore {restore.id}: expected one without a fault put in on purpose, found a drill "
            f"({restore.fault_name}); order it anew",
            code="retry-refused",
        )
    if restore.outcome is None:
        raise Conflict(
            f"restore {restore.id}: expected one that is over, found {restore.state}", code="retry-refused"
        )
    if restore.outcome == "restored":
        raise Conflict(
            f"restore {restore.id}: expected one that is not restored, found restored", code="retry-refused"
        )
    newer = repository.retry_of(session, restore_id=restore.id)
    if newer is not None:
        raise Conflict(f"restore {restore.id}: was tried again already, as {newer}", code="already-retried")
    if restore.try_number >= try_limit:
        raise Conflict(
            f"restore {restore.id}: expected fewer than {try_limit} tries, found try {restore.try_number}; "
            "find out why before you order it anew",
            code="tries-exhausted",
        )
