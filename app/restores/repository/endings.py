"""How rank attempts end: several of one restore alike, with one statement, and their devices freed with it.

Devices are locked first, in the order of their ids, as everybody takes them who takes several.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How attempts end.

    Attributes:
        pages: ``kept`` where the pages stay resident, ``released`` where they are gone or will be.
        problem: what kept the rank from restoring; its ``detail`` is what the event says.
        is_told: its worker knows that it was to retract.
    """

    state: str
    outcome: str | None
    pages: str
    problem: dict[str, Any] | None = None
    is_told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The rank whose problem explains how a restore ended."""

    rank: int
    problem: dict[str, Any]


# Not those that its ended ranks have freed: admission locks free devices, so the two never wait for each
# other. `own` alone, with those that nobody claimed: a rank that ends takes no other claimed one with it.
_LOCK: Final = text(
    """
    SELECT d.id
      FROM rank_attempt AS a
      JOIN device AS d ON d.id = a.device_id AND d.held_by = a.id
     WHERE a.restore_id = :restore_id
       AND (CAST(:own AS uuid) IS NULL OR a.id = :own OR a.state = 'waiting')
     ORDER BY d.id FOR NO KEY UPDATE OF d
    """
)

_END: Final = text(
    """
    WITH ended AS (
      UPDATE rank_attempt
         SET state = :state, outcome = :outcome, problem = :problem, ended_at = :now,
             lease_expires_at = NULL, next_send_at = NULL,
             pages_released_at = CASE WHEN :is_kept THEN pages_released_at ELSE :now END,
             retract_heard_at = CASE WHEN :is_told THEN coalesce(retract_heard_at, :now)
                                ELSE retract_heard_at END
       WHERE restore_id = :restore_id AND ended_at IS NULL
         AND (CAST(:own AS uuid) IS NULL OR id = :own)
         AND (NOT :unclaimed OR state = 'waiting')
      RETURNING id, device_id, rank
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, rank, detail)
      SELECT :restore_id, :state, rank, :detail FROM ended ORDER BY rank
    )
    UPDATE device SET held_by = NULL FROM ended WHERE device.id = ended.device_id AND held_by = ended.id
    """
).bindparams(bindparam("problem", type_=JSONB(none_as_null=True)))

# Corruption before anything else, then the earliest.
_CAUSE: Final = text(
    """
    SELECT rank, problem FROM rank_attempt
     WHERE restore_id = :restore_id AND jsonb_typeof(problem) = 'object'
     ORDER BY outcome IS DISTINCT FROM 'corrupt', ended_at, rank LIMIT 1
    """
)


def lock_devices(session: Session, *, restore_id: UUID, own: UUID | None = None) -> None:
    """Lock the devices that the ranks of a restore hold, in the order of their ids.

    Args:
        own: the attempt that ends: only its device then, and those of ranks that nobody has claimed.
    """
    session.execute(_LOCK, {"restore_id": restore_id, "own": own}).all()


def end_attempts(
    session: Session,
    *,
    restore_id: UUID,
    ending: Ending,
    now: datetime,
    own: UUID | None = None,
    unclaimed: bool = False,
) -> None:
    """End the attempts of a restore that have not ended, and free their devices, which are locked.

    What the session has not written yet is written first, so that events stay in their order.

    Args:
        own: this one only.
        unclaimed: those only that nobody has claimed.
    """
    session.flush()
    detail = ending.problem["detail"] if ending.problem else (ending.outcome or ending.state)
    given = {
        "restore_id": restore_id,
        "own": own,
        "unclaimed": unclaimed,
        "state": ending.state,
        "outcome": ending.outcome,
        "problem": ending.problem,
        "is_kept": ending.pages == "kept",
        "is_told": ending.is_told,
        "detail": str(detail),
        "now": now,
    }
    session.execute(_END, given)


def first_cause(session: Session, *, restore_id: UUID) -> Cause | None:
    """The problem of a rank that explains how a restore ended."""
    row = session.execute(_CAUSE, {"restore_id": restore_id}).one_or_none()
    return None if row is None else Cause(rank=row.rank, problem=row.problem)
