"""What an order is planned from: where the ranks of a snapshot are now, and the devices of those nodes.

Plain rows in one trip: as objects they cost more than all else that an order does.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.db.together import Question, ask_together


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One rank of a snapshot on one node.

    Attributes:
        is_away: the node has been silent for too long to count on it.
    """

    rank: int
    rank_count: int
    span_tokens: int
    rank_zero_storage_key: str
    root_document_sha256: str
    root_path: str
    node_id: UUID
    node: str
    is_away: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seatable:
    """A device that may take a rank, now or once it is free."""

    id: UUID
    node_id: UUID
    name: str
    pool_bytes: int
    is_held: bool


_PLACES: Final = """
    SELECT d.rank, d.rank_count, d.span_tokens, d.rank_zero_storage_key, d.sha256 AS root_document_sha256,
           l.root_path, l.node_id, n.name AS node,
           clock_timestamp() - n.last_seen_at > make_interval(secs => %(silence_s)s) AS is_away
      FROM root_document AS d
      JOIN manifest_location AS l ON l.root_document_sha256 = d.sha256
      JOIN node AS n ON n.id = l.node_id
     WHERE l.gone_at IS NULL AND d.context_digest = %(context_digest)s
       AND d.rank_zero_storage_key = coalesce(%(rank_zero_storage_key)s, d.rank_zero_storage_key)
     ORDER BY d.rank, n.name, l.root_path
"""
_DEVICES: Final = """
    SELECT v.id, v.node_id, v.name, v.pool_bytes, v.held_by IS NOT NULL AS is_held
      FROM device AS v
     WHERE v.node_id IN (
       SELECT l.node_id
         FROM root_document AS d
         JOIN manifest_location AS l ON l.root_document_sha256 = d.sha256
        WHERE l.gone_at IS NULL AND d.context_digest = %(context_digest)s
     )
     ORDER BY v.name
"""


def ask_plan(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None, silence_s: float
) -> tuple[list[Place], list[Seatable]]:
    """The places of a snapshot by rank, node and path, and the devices of all their nodes by name.

    Args:
        rank_zero_storage_key: of which identity; of all that share the digest if not said.
    """
    given = {
        "context_digest": context_digest,
        "rank_zero_storage_key": rank_zero_storage_key,
        "silence_s": float(silence_s),
    }
    places, devices = ask_together(
        session,
        Question(sql=_PLACES, given=given),
        Question(sql=_DEVICES, given={"context_digest": context_digest}),
    )
    return [Place(**row._asdict()) for row in places], [Seatable(**row._asdict()) for row in devices]
