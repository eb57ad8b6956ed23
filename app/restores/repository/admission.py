"""The waiting ranks of a look at the queue: locked and admitted in a few statements, however many they are.

Plain rows: loading restores, attempts, devices and nodes as objects cost more than all else that a look does.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.restores.repository import pool_bytes_held


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One rank of a waiting restore and the device it wants, both locked.

    Attributes:
        pages_bytes: what the rank's pages take from the device's pool.
        pool_bytes: what the pool has in all.
        taken_bytes: what pages of other attempts that are not released take of it.
    """

    restore_id: UUID
    rank_count: int
    attempt_id: UUID
    rank: int
    pages_bytes: int
    device_id: UUID
    device: str
    queue: str
    pool_bytes: int
    held_by: UUID | None
    taken_bytes: int


_RESTORES: Final = text(
    "SELECT id FROM restore WHERE id = ANY(:ids) AND state = 'waiting' ORDER BY id FOR NO KEY UPDATE"
)
# In the order of device ids, as everybody takes them; their keys stay readable for orders.
_DEVICES: Final = text(
    """
    SELECT a.restore_id, r.rank_count, a.id AS attempt_id, a.rank, a.pages_bytes, d.id AS device_id,
           n.name || '/' || d.name AS device, d.queue, d.pool_bytes, d.held_by
      FROM rank_attempt AS a
      JOIN restore AS r ON r.id = a.restore_id
      JOIN device AS d ON d.id = a.device_id
      JOIN node AS n ON n.id = d.node_id
     WHERE a.restore_id = ANY(:ids)
     ORDER BY d.id, a.rank FOR NO KEY UPDATE OF d
    """
)
_ADMIT: Final = text(
    """
    WITH seat AS (
      SELECT * FROM unnest(CAST(:attempts AS uuid[]), CAST(:devices AS uuid[]),
                           CAST(:sends AS timestamptz[]), CAST(:next_sends AS timestamptz[]))
             AS seat (attempt, device, sent, next_send)
    ), devices AS (
      UPDATE device SET held_by = seat.attempt FROM seat WHERE device.id = seat.device
    ), attempts AS (
      UPDATE rank_attempt SET send_count = send_count + 1, sent_at = seat.sent, next_send_at = seat.next_send
        FROM seat WHERE rank_attempt.id = seat.attempt
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, detail)
      SELECT * FROM unnest(CAST(:restores AS uuid[]), CAST(:kinds AS text[]), CAST(:details AS text[]))
    )
    UPDATE restore SET state = 'running', admitted_at = :now, ready_deadline_at = :ready_deadline,
                       version = version + 1
     WHERE id = ANY(:restores)
    """
)


def lock_seats(session: Session, *, restore_ids: Sequence[UUID]) -> list[Seat]:
    """Lock those of the restores that wait still, then their devices in the order of ids; their ranks."""
    waiting = list(session.scalars(_RESTORES, {"ids": list(restore_ids)}))
    rows = session.execute(_DEVICES, {"ids": waiting}).mappings().all()
    devices = list({row["device_id"] for row in rows})
    # Asked once the devices are held: what was claimed before is seen, and nobody claims meanwhile.
    taken = pool_bytes_held(session, device_ids=devices)
    return [Seat(**row, taken_bytes=taken.get(row["device_id"], 0)) for row in rows]


def admit_seats(
    session: Session,
    *,
    seats: Collection[Seat],
    sends: Sequence[datetime],
    next_sends: Sequence[datetime],
    details: dict[UUID, str],
    now: datetime,
    ready_deadline: datetime,
) -> None:
    """Give the seats their devices, note that a message goes out to each, and set their restores running.

    Args:
        sends: when each seat's message is to be heard.
        next_sends: when to send it again.
        details: of each restore, what its event says.
    """
    given = {
        "attempts": [seat.attempt_id for seat in seats],
        "devices": [seat.device_id for seat in seats],
        "sends": list(sends),
        "next_sends": list(next_sends),
        "restores": list(details),
        "kinds": ["admitted"] * len(details),
        "details": list(details.values()),
        "now": now,
        "ready_deadline": ready_deadline,
    }
    session.execute(_ADMIT, given)
