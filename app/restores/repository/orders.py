"""New restores with their attempts and first events, written with one statement however many they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """A rank of an order and the device it waits for; `node` and `device` by name."""

    id: UUID
    rank: int
    device_id: UUID
    node: str
    device: str
    root_document_sha256: str
    root_path: str
    pages_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRestore:
    """An order as it is written down.

    Attributes:
        semantic: ``not asked`` where it has no question.
        event: the detail of its first event.
    """

    id: UUID
    created_by: str
    context_digest: str
    rank_zero_storage_key: str
    layout_sha256: str
    rank_count: int
    span_tokens: int
    resident_s: int
    retry_of_id: UUID | None
    try_number: int
    purpose: str
    image_config_id: str | None
    allowed_by_verdict_id: UUID | None
    allowed_by_exception_id: UUID | None
    question_sha256: str | None
    fault_name: str | None
    fault_rank: int | None
    semantic: str | None
    event: str
    attempts: tuple[NewAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the database has set of a new restore."""

    created_at: datetime
    event_at: datetime


FIRST_EVENT: Final = "requested"

# Column to type.
_RESTORE: Final[Mapping[str, str]] = {
    "id": "uuid",
    "created_by": "text",
    "context_digest": "text",
    "rank_zero_storage_key": "text",
    "layout_sha256": "text",
    "rank_count": "bigint",
    "span_tokens": "bigint",
    "resident_s": "bigint",
    "retry_of_id": "uuid",
    "try_number": "bigint",
    "purpose": "text",
    "image_config_id": "text",
    "allowed_by_verdict_id": "uuid",
    "allowed_by_exception_id": "uuid",
    "question_sha256": "text",
    "fault_name": "text",
    "fault_rank": "bigint",
    "semantic": "text",
}
_ATTEMPT: Final[Mapping[str, str]] = {
    "id": "uuid",
    "device_id": "uuid",
    "root_document_sha256": "text",
    "root_path": "text",
    "rank": "bigint",
    "pages_bytes": "bigint",
}


def _arrays(prefix: str, columns: Mapping[str, str]) -> str:
    return ", ".join(f"CAST(:{prefix}_{name} AS {kind}[])" for name, kind in columns.items())


# One after the other in the order of their places: the older is admitted first.
_ADD: Final = text(
    f"""
    WITH new_restore AS (
      INSERT INTO restore ({", ".join(_RESTORE)})
      SELECT {", ".join(_RESTORE)}
        FROM unnest({_arrays("restore", _RESTORE)}) WITH ORDINALITY AS new ({", ".join(_RESTORE)}, place)
       ORDER BY place
      RETURNING id, created_at
    ), attempts AS (
      INSERT INTO rank_attempt (restore_id, number, {", ".join(_ATTEMPT)})
      SELECT * FROM unnest(CAST(:restore_ids AS uuid[]), CAST(:numbers AS bigint[]),
                           {_arrays("attempt", _ATTEMPT)})
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, detail)
      SELECT id, '{FIRST_EVENT}', detail
        FROM unnest(CAST(:restore_id AS uuid[]), CAST(:details AS text[])) AS new (id, detail)
      RETURNING restore_id, at
    )
    SELECT r.id, r.created_at, e.at AS event_at FROM new_restore AS r JOIN events AS e ON e.restore_id = r.id
    """
)


def add_orders(session: Session, *, restores: Sequence[NewRestore]) -> dict[UUID, Written]:
    """Write restores with their attempts and first events; by id, what the database has set.

    Plain rows: unit of work and reading back cost more than everything else an order does.

    Raises:
        IntegrityError: something they refer to is not there (`lacks_layout`); the transaction is over.
    """
    attempts = [(restore, attempt) for restore in restores for attempt in restore.attempts]
    given: dict[str, Any] = {
        f"restore_{name}": [getattr(restore, name) for restore in restores] for name in _RESTORE
    }
    given |= {f"attempt_{name}": [getattr(attempt, name) for _, attempt in attempts] for name in _ATTEMPT}
    given |= {
        "restore_ids": [restore.id for restore, _ in attempts],
        "numbers": [restore.try_number for restore, _ in attempts],
        "details": [restore.event for restore in restores],
    }
    rows = session.execute(_ADD, given)
    return {row.id: Written(created_at=row.created_at, event_at=row.event_at) for row in rows}


def lacks_layout(error: IntegrityError) -> bool:
    """Whether what is missing is a layout."""
    return isinstance(error.orig, psycopg.errors.ForeignKeyViolation) and "layout" in str(error.orig)
