"""Which ranks hold published pages, and that they are asked to give them back: all of a restore at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A rank whose pages are not given back, and the queue of its device."""

    attempt_id: UUID
    rank: int
    queue: str


_HOLDERS: Final = text(
    """
    SELECT a.id AS attempt_id, a.rank, d.queue
      FROM rank_attempt AS a
      JOIN device AS d ON d.id = a.device_id
     WHERE a.restore_id = :restore_id AND a.pages_released_at IS NULL
     ORDER BY a.rank
    """
)
_ASKED: Final = text(
    """
    UPDATE rank_attempt SET send_count = 1, sent_at = message.sent, next_send_at = message.next_send
      FROM unnest(CAST(:attempts AS uuid[]), CAST(:sends AS timestamptz[]),
                  CAST(:next_sends AS timestamptz[])) AS message (attempt, sent, next_send)
     WHERE rank_attempt.id = message.attempt
    """
)


def holders(session: Session, *, restore_id: UUID) -> list[Holder]:
    """The ranks of a restore that have not given their pages back; the caller holds its row."""
    session.flush()
    return [Holder(**row) for row in session.execute(_HOLDERS, {"restore_id": restore_id}).mappings()]


def note_asked(
    session: Session,
    *,
    asked: Sequence[Holder],
    sends: Sequence[datetime],
    next_sends: Sequence[datetime],
) -> None:
    """Note the first message to each of these ranks.

    Args:
        sends: when each is to be heard.
        next_sends: when to send it again.
    """
    given = {
        "attempts": [one.attempt_id for one in asked],
        "sends": list(sends),
        "next_sends": list(next_sends),
    }
    session.execute(_ASKED, given)
