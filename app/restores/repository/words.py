"""What rank workers say most, in one statement each, as text: building it costs more than asking it.

Where a condition does not hold nothing happens, and `attempts` finds out which it was. A lease counts from
the moment the row is held: clock_timestamp(), not the statement's start.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a worker is told of its restore."""

    decision: str | None
    epoch: int
    outcome: str | None


_BEAT: Final = text(
    """
    UPDATE rank_attempt AS a
       SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease_s),
           state = CASE a.state WHEN 'claimed' THEN 'running' ELSE a.state END,
           progress = coalesce(:progress, a.progress),
           retract_heard_at = CASE r.decision WHEN 'retract'
                              THEN coalesce(a.retract_heard_at, clock_timestamp())
                              ELSE a.retract_heard_at END
      FROM restore AS r, device AS d, node AS n
     WHERE a.id = :attempt_id AND a.token = :token AND a.ended_at IS NULL
       AND a.lease_expires_at >= clock_timestamp()
       AND r.id = a.restore_id AND d.id = a.device_id AND n.id = d.node_id AND n.name = :node
    RETURNING r.decision, r.epoch, r.outcome
    """
).bindparams(bindparam("progress", type_=JSONB(none_as_null=True)))

_ASK: Final = text(
    """
    SELECT r.decision, r.epoch, r.outcome
      FROM rank_attempt AS a
      JOIN restore AS r ON r.id = a.restore_id
      JOIN device AS d ON d.id = a.device_id
      JOIN node AS n ON n.id = d.node_id
     WHERE a.id = :attempt_id AND a.token = :token AND n.name = :node
       AND (r.decision IS DISTINCT FROM 'retract' OR a.ended_at IS NOT NULL
            OR a.retract_heard_at IS NOT NULL)
    """
)


def beat(
    session: Session,
    *,
    attempt_id: UUID,
    token: int,
    node: str | None,
    progress: dict[str, Any] | None,
    lease_s: float,
) -> Told | None:
    """Renew a lease, and note that a retraction was told; None if that is not all there is to it."""
    given = {"attempt_id": attempt_id, "token": token, "node": node, "lease_s": lease_s, "progress": progress}
    row = session.execute(_BEAT, given).one_or_none()
    return None if row is None else Told(decision=row.decision, epoch=row.epoch, outcome=row.outcome)


def ask(session: Session, *, attempt_id: UUID, token: int, node: str | None) -> Told | None:
    """What is decided; None if the question is not in order, or the answer has to be noted."""
    row = session.execute(_ASK, {"attempt_id": attempt_id, "token": token, "node": node}).one_or_none()
    return None if row is None else Told(decision=row.decision, epoch=row.epoch, outcome=row.outcome)
