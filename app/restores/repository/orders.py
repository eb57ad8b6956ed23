"""A new restore, its attempts and its first event, written with one statement."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.models import RankAttempt, Restore, RestoreEvent

_ADD: Final = text(
    """
    WITH new_restore AS (
      INSERT INTO restore (id, created_by, context_digest, rank_zero_storage_key, layout_sha256, rank_count,
                           span_tokens, resident_s, retry_of_id, try_number, purpose, image_config_id,
                           allowed_by_verdict_id, allowed_by_exception_id, question_sha256, fault_name,
                           fault_rank, semantic)
      VALUES (:id, :created_by, :context_digest, :rank_zero_storage_key, :layout_sha256, :rank_count,
              :span_tokens, :resident_s, :retry_of_id, :try_number, :purpose, :image_config_id,
              :allowed_by_verdict_id, :allowed_by_exception_id, :question_sha256, :fault_name, :fault_rank,
              :semantic)
      RETURNING created_at
    ), attempts AS (
      INSERT INTO rank_attempt (id, restore_id, rank, number, device_id, root_document_sha256, root_path,
                                pages_bytes)
      SELECT id, :id, rank, :try_number, device_id, sha256, root_path, pages_bytes
        FROM unnest(CAST(:ids AS uuid[]), CAST(:ranks AS bigint[]), CAST(:device_ids AS uuid[]),
                    CAST(:digests AS text[]), CAST(:root_paths AS text[]), CAST(:pages_bytes AS bigint[]))
             AS new (id, rank, device_id, sha256, root_path, pages_bytes)
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, detail) VALUES (:id, :event_kind, :event_detail)
      RETURNING id, at
    )
    SELECT new_restore.created_at, events.id AS event_id, events.at FROM new_restore, events
    """
)
_RESTORE: Final = (
    *("id", "created_by", "context_digest", "rank_zero_storage_key", "layout_sha256", "rank_count"),
    *("span_tokens", "resident_s", "retry_of_id", "try_number"),
    *("purpose", "image_config_id", "allowed_by_verdict_id", "allowed_by_exception_id"),
    *("question_sha256", "fault_name", "fault_rank", "semantic"),
)


def add_order(session: Session, *, restore: Restore, event: RestoreEvent) -> bool:
    """Write a restore with its attempts and its first event; False where its layout is not there, and then
    the transaction is over.

    The objects are given what the database has set; they stay outside the session: unit of work and reading
    back cost more than everything else an order does.
    """
    given: dict[str, Any] = {name: getattr(restore, name) for name in _RESTORE}
    given |= _attempts(restore.attempts) | {"event_kind": event.kind, "event_detail": event.detail}
    try:
        row = session.execute(_ADD, given).one()
    except IntegrityError as error:
        if isinstance(error.orig, psycopg.errors.ForeignKeyViolation) and "layout" in str(error.orig):
            return False
        raise
    restore.created_at, event.id, event.at = row.created_at, row.event_id, row.at
    return True


def _attempts(attempts: Sequence[RankAttempt]) -> dict[str, Any]:
    return {
        "ids": [one.id for one in attempts],
        "ranks": [one.rank for one in attempts],
        "device_ids": [one.device.id for one in attempts],
        "digests": [one.root_document_sha256 for one in attempts],
        "root_paths": [one.root_path for one in attempts],
        "pages_bytes": [one.pages_bytes for one in attempts],
    }
