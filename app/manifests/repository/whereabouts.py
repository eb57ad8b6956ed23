"""Where the ranks of snapshots are now, as plain rows: a page of fifty has two hundred places and more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """One rank of a snapshot in one place, and what its root document says of the snapshot.

    Attributes:
        is_away: its node has been silent for too long to count on it.
        is_pinned: its root document passed a complete check.
    """

    snapshot_id: UUID
    context_digest: str
    rank_zero_storage_key: str
    rank_count: int
    span_tokens: int
    encoded_bytes: int
    object_count: int
    rank: int
    node: str
    is_away: bool
    root_path: str
    root_document_sha256: str
    is_pinned: bool
    first_seen_at: datetime


_PLACES: Final = text(
    """
    SELECT s.id AS snapshot_id, d.context_digest, d.rank_zero_storage_key, d.rank_count, d.span_tokens,
           d.encoded_bytes, d.object_count, d.rank, n.name AS node,
           clock_timestamp() - n.last_seen_at > make_interval(secs => :silence_s) AS is_away,
           l.root_path, l.root_document_sha256, p.root_document_sha256 IS NOT NULL AS is_pinned,
           l.first_seen_at
      FROM snapshot AS s
      JOIN root_document AS d
        ON d.context_digest = s.context_digest AND d.rank_zero_storage_key = s.rank_zero_storage_key
      JOIN manifest_location AS l ON l.root_document_sha256 = d.sha256 AND l.gone_at IS NULL
      JOIN node AS n ON n.id = l.node_id
      LEFT JOIN manifest_pin AS p ON p.root_document_sha256 = d.sha256
     WHERE s.id = ANY(:snapshot_ids)
     ORDER BY s.id, d.rank, n.name, l.root_path
    """
)


def rank_places(session: Session, *, snapshot_ids: Sequence[UUID], silence_s: float) -> list[RankPlace]:
    """The places of all ranks of these snapshots; each snapshot's by rank, node and path."""
    given = {"snapshot_ids": list(snapshot_ids), "silence_s": silence_s}
    return [RankPlace(**row) for row in session.execute(_PLACES, given).mappings()]
