"""What rank workers say, in one or two statements each, as text: building it costs more than asking it.

A claim, a heartbeat and a poll are one statement that is a transaction of its own. Where its condition does
not hold nothing happens, and `attempts` finds out which it was. Every other word first holds the restore's
row and its rank's, then writes in a second statement, which sees what was committed until then. What counts
from the moment a row is held counts by clock_timestamp() in a statement part of its own, after the lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import bindparam, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.models import RankReportRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a worker is told of its restore."""

    decision: str | None
    epoch: int
    outcome: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What a claim has got: the token, and the rank's part of the order."""

    restore_id: UUID
    rank: int
    rank_count: int
    span_tokens: int
    token: int
    root_path: str
    root_document_sha256: str
    storage_key: str
    context_digest: str
    is_pinned: bool
    layout_sha256: str
    question_sha256: str | None
    fault: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rank whose row and whose restore's row this transaction holds, and the time since then."""

    id: UUID
    restore_id: UUID
    rank: int
    state: str
    token: int | None
    ended_at: datetime | None
    lease_expires_at: datetime | None
    runtime: dict[str, Any] | None
    device_generation: int | None
    acknowledged_epoch: int | None
    pages_released_at: datetime | None
    device_id: UUID
    device: str
    node: str
    restore_state: str
    decision: str | None
    epoch: int
    outcome: str | None
    question_sha256: str | None
    now: datetime

    @property
    def told(self) -> Told:
        """What its worker is told while nothing else is decided."""
        return Told(decision=self.decision, epoch=self.epoch, outcome=self.outcome)


# Rows are held in the order of the clauses: the restore's, the rank's, its device's. A claim that is repeated
# with the token it got gets the same answer.
_CLAIM: Final = text(
    """
    WITH held AS MATERIALIZED (
      SELECT a.id, a.restore_id, a.rank, a.state = 'waiting' AS is_new, a.token, a.root_path,
             a.root_document_sha256, a.device_id, d.runtime, n.name || '/' || d.name AS device,
             r.rank_count, r.span_tokens, r.layout_sha256, r.question_sha256,
             CASE r.fault_rank WHEN a.rank THEN r.fault_name END AS fault
        FROM rank_attempt AS a
        JOIN restore AS r ON r.id = a.restore_id
        JOIN device AS d ON d.id = a.device_id
        JOIN node AS n ON n.id = d.node_id
       WHERE a.id = :attempt_id AND n.name = :node
         AND (a.state = 'waiting' AND r.state = 'running' AND r.decision IS NULL
              AND d.held_by = a.id AND d.generation = :generation
              OR a.state = 'claimed' AND a.token = CAST(:token AS bigint)
              AND a.device_generation = :generation AND a.lease_expires_at >= clock_timestamp())
         FOR SHARE OF r FOR NO KEY UPDATE OF a FOR NO KEY UPDATE OF d
    ), granted AS MATERIALIZED (
      SELECT held.*, clock_timestamp() AS now,
             CASE WHEN is_new THEN coalesce(CAST(:token AS bigint), nextval('fencing_token')) ELSE token END
             AS granted
        FROM held
    ), attempts AS (
      UPDATE rank_attempt AS a
         SET state = 'claimed', token = g.granted, device_generation = :generation, next_send_at = NULL,
             runtime = CASE WHEN g.is_new THEN g.runtime ELSE a.runtime END,
             claimed_at = CASE WHEN g.is_new THEN g.now ELSE a.claimed_at END,
             lease_expires_at = g.now + make_interval(secs => :lease_s)
        FROM granted AS g WHERE a.id = g.id
    ), tasks AS (
      UPDATE device SET last_task_at = g.now FROM granted AS g WHERE device.id = g.device_id
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, rank, detail)
      SELECT restore_id, 'claimed', rank, 'by ' || device FROM granted WHERE is_new
    )
    SELECT g.restore_id, g.rank, g.rank_count, g.span_tokens, g.granted AS token, g.root_path,
           g.root_document_sha256, doc.storage_key, doc.context_digest,
           pin.root_document_sha256 IS NOT NULL AS is_pinned, g.layout_sha256, g.question_sha256, g.fault
      FROM granted AS g
      JOIN root_document AS doc ON doc.sha256 = g.root_document_sha256
      LEFT JOIN manifest_pin AS pin ON pin.root_document_sha256 = doc.sha256
    """
)

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

_HOLD: Final = text(
    """
    WITH held AS MATERIALIZED (
      SELECT a.id, a.restore_id, a.rank, a.state, a.token, a.ended_at, a.lease_expires_at,
             a.runtime, a.device_generation, a.acknowledged_epoch, a.pages_released_at, a.device_id,
             d.name AS device, n.name AS node, r.state AS restore_state, r.decision, r.epoch, r.outcome,
             r.question_sha256
        FROM rank_attempt AS a
        JOIN restore AS r ON r.id = a.restore_id
        JOIN device AS d ON d.id = a.device_id
        JOIN node AS n ON n.id = d.node_id
       WHERE a.id = :attempt_id FOR UPDATE OF r FOR UPDATE OF a
    )
    SELECT held.*, clock_timestamp() AS now FROM held
    """
)

_REPORT: Final = """
      INSERT INTO rank_report (attempt_id, document, sha256, service_start_ns, claim_round_trip_ns,
                               pool_commit_ns, part)
      VALUES (:attempt_id, :document, :sha256, :service_start_ns, :claim_round_trip_ns,
              :pool_commit_ns, :part)
"""
_KEEP_REPORT: Final = text(_REPORT)

# Whether any other rank keeps its restore waiting is looked for from the last rank on: ranks speak in turn,
# so that one is found at once, and none only by the last.
_READY: Final = text(
    f"""
    WITH reports AS ({_REPORT}), attempts AS (
      UPDATE rank_attempt
         SET state = 'ready', ready_at = :now,
             retract_heard_at = CASE WHEN :is_told THEN coalesce(retract_heard_at, :now)
                                ELSE retract_heard_at END
       WHERE id = :attempt_id
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, rank, detail)
      VALUES (:restore_id, 'ready', :rank, :detail)
    )
    SELECT (SELECT rank FROM rank_attempt
             WHERE restore_id = :restore_id AND id <> :attempt_id AND state IN ('waiting','claimed','running')
             ORDER BY rank DESC LIMIT 1) IS NULL
    """
)

_PUBLISHED: Final = text(
    """
    WITH attempts AS (
      UPDATE rank_attempt SET acknowledged_epoch = :epoch, acknowledged_at = :now WHERE id = :attempt_id
    ), events AS (
      INSERT INTO restore_event (restore_id, kind, rank, detail)
      VALUES (:restore_id, 'published', :rank, :detail)
    )
    SELECT (SELECT rank FROM rank_attempt
             WHERE restore_id = :restore_id AND id <> :attempt_id AND ended_at IS NULL
               AND acknowledged_epoch IS DISTINCT FROM :epoch
             ORDER BY rank DESC LIMIT 1) IS NULL
    """
)

_RELEASED: Final = text(
    """
    WITH attempts AS (
      UPDATE rank_attempt SET pages_released_at = coalesce(pages_released_at, :now), next_send_at = NULL
       WHERE id = :attempt_id
    )
    SELECT (SELECT rank FROM rank_attempt
             WHERE restore_id = :restore_id AND id <> :attempt_id AND pages_released_at IS NULL
             ORDER BY rank DESC LIMIT 1) IS NULL
    """
)

# An attempt that waits holds no pages, so the index over what pages are not given back yet finds it.
_WANTED: Final = text(
    """
    SELECT 1
      FROM rank_attempt AS a
      JOIN restore AS r ON r.id = a.restore_id
     WHERE a.device_id = :device_id AND a.pages_released_at IS NULL AND a.state = 'waiting'
       AND r.state = 'waiting' LIMIT 1
    """
)


def claim(
    session: Session,
    *,
    attempt_id: UUID,
    node: str | None,
    generation: int,
    token: int | None,
    lease_s: float,
) -> Granted | None:
    """Give an admitted rank to the worker that asks, or give it the same answer again; None if it may not
    have it, and then nothing has changed."""
    given = {
        "attempt_id": attempt_id,
        "node": node,
        "generation": generation,
        "token": token,
        "lease_s": lease_s,
    }
    row = session.execute(_CLAIM, given).mappings().one_or_none()
    return None if row is None else Granted(**row)


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


def hold(session: Session, *, attempt_id: UUID) -> Held | None:
    """Lock the row of an attempt's restore, then the attempt's; no other rank is read."""
    row = session.execute(_HOLD, {"attempt_id": attempt_id}).mappings().one_or_none()
    return None if row is None else Held(**row)


def report_sha256(session: Session, *, attempt_id: UUID) -> str | None:
    """The digest of the report that was received of an attempt. Asked once its row is held."""
    query = select(RankReportRow.sha256).where(RankReportRow.attempt_id == attempt_id)
    return session.scalars(query).one_or_none()


def keep_report(session: Session, *, attempt_id: UUID, values: Mapping[str, object]) -> None:
    """Keep the report document of a rank; `values` are the other columns."""
    session.execute(_KEEP_REPORT, {"attempt_id": attempt_id, **values})


def note_ready(session: Session, held: Held, *, report: Mapping[str, object], detail: str) -> bool:
    """A rank is ready, and has heard what is decided; whether no other rank is still on its way.

    Args:
        report: the columns of its report's row.
    """
    given = {**report, **_of(held), "detail": detail, "is_told": held.decision == "retract"}
    return bool(session.scalar(_READY, given))


def note_published(session: Session, held: Held, *, epoch: int) -> bool:
    """A rank has published under an epoch; whether every other rank has done so or has ended."""
    given = _of(held) | {"detail": f"epoch {epoch}", "epoch": epoch}
    return bool(session.scalar(_PUBLISHED, given))


def note_released(session: Session, held: Held) -> bool:
    """The pages of a rank are gone; whether no other rank holds any."""
    given = {"attempt_id": held.id, "restore_id": held.restore_id, "now": held.now}
    return bool(session.scalar(_RELEASED, given))


def _of(held: Held) -> dict[str, object]:
    return {
        "attempt_id": held.id,
        "restore_id": held.restore_id,
        "rank": held.rank,
        "now": held.now,
    }


def is_wanted(session: Session, *, device_id: UUID) -> bool:
    """Whether a rank of a waiting restore wants this device."""
    return session.execute(_WANTED, {"device_id": device_id}).first() is not None
