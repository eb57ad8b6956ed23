"""SQL of restores, rank attempts, events and readbacks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Row, func, or_, select, text
from sqlalchemy.orm import Session, joinedload, selectinload

from app.models import Device, RankAttempt, RankReadback, Readback, Restore, RestoreEvent
from app.restores.repository.answers import add_answer as add_answer
from app.restores.repository.answers import get_answer as get_answer
from app.restores.repository.answers import parts as parts

_admission_lock = 0x53504144
_with_devices = selectinload(Restore.attempts).joinedload(RankAttempt.device).joinedload(Device.node)
_with_attempts = (
    _with_devices,
    selectinload(Restore.attempts).joinedload(RankAttempt.report),
)


def lock_admission(session: Session) -> None:
    """Admissions are one at a time: otherwise two restores could each take half of what both need."""
    session.execute(select(func.pg_advisory_xact_lock(_admission_lock)))


def add_event(
    session: Session, *, restore_id: UUID, kind: str, detail: str, rank: int | None
) -> RestoreEvent:
    event = RestoreEvent(restore_id=restore_id, kind=kind, detail=detail, rank=rank)
    session.add(event)
    return event


def events(session: Session, *, restore_id: UUID) -> list[RestoreEvent]:
    query = select(RestoreEvent).where(RestoreEvent.restore_id == restore_id).order_by(RestoreEvent.id)
    return list(session.scalars(query))


def get_restore(session: Session, *, restore_id: UUID) -> Restore | None:
    """A restore with its attempts and their reports, as they are in this transaction."""
    query = select(Restore).options(*_with_attempts).where(Restore.id == restore_id)
    # Anew: what ends attempts does so with statements, and leaves objects as they were read.
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def has_restore(session: Session, *, restore_id: UUID) -> bool:
    return session.execute(select(Restore.id).where(Restore.id == restore_id)).first() is not None


def lock_restore(session: Session, *, restore_id: UUID) -> Restore | None:
    """The restore and its attempts as they are once this transaction holds its row."""
    # The attempts are asked for once the row is held. Without the reports: a word of one rank would read the
    # documents of all of them.
    query = select(Restore).options(_with_devices).where(Restore.id == restore_id)
    query = query.with_for_update(of=Restore).execution_options(populate_existing=True)
    return session.scalars(query).one_or_none()


def lock_restore_of(session: Session, *, attempt_id: UUID, exclusive: bool = True) -> UUID | None:
    """Lock the row of an attempt's restore and nothing else: a word of one rank must not load all ranks.

    Args:
        exclusive: False where the restore is only to stay as it is, so that its ranks may do it side by side.
    """
    of_attempt = select(RankAttempt.restore_id).where(RankAttempt.id == attempt_id).scalar_subquery()
    query = select(Restore.id).where(Restore.id == of_attempt).with_for_update(read=not exclusive)
    return session.execute(query).scalar_one_or_none()


def held_restore(session: Session, *, restore_id: UUID) -> Restore:
    """A restore whose row this transaction holds, without its attempts."""
    query = select(Restore).where(Restore.id == restore_id)
    return session.scalars(query.execution_options(populate_existing=True)).one()


def rank_states(session: Session, *, restore_id: UUID) -> Sequence[Row[str, str | None, int | None, bool]]:
    """The different (state, outcome, acknowledged epoch, ended) of a restore's ranks, each once."""
    ended = RankAttempt.ended_at.is_not(None)
    row = (RankAttempt.state, RankAttempt.outcome, RankAttempt.acknowledged_epoch, ended)
    return session.execute(select(*row).where(RankAttempt.restore_id == restore_id).distinct()).all()


def holds_pages(session: Session, *, restore_id: UUID) -> bool:
    """Whether some rank of a restore has not given its pages back."""
    query = select(RankAttempt.id).where(
        RankAttempt.restore_id == restore_id, RankAttempt.pages_released_at.is_(None)
    )
    return session.execute(query.limit(1)).first() is not None


def retry_of(session: Session, *, restore_id: UUID) -> UUID | None:
    """The restore that tries this one again."""
    return session.scalars(select(Restore.id).where(Restore.retry_of_id == restore_id)).one_or_none()


# A restore may be next if none of its devices is held or wanted by an older one that waits.
_NEXT: Final = text(
    """
    WITH oldest AS (
      SELECT id, created_at FROM restore WHERE state = 'waiting' ORDER BY created_at, id LIMIT :considered
    ), numbered AS (
      SELECT id, row_number() OVER (ORDER BY created_at, id) AS place FROM oldest
    ), wanted AS (
      SELECT n.id, n.place, d.held_by, min(n.place) OVER (PARTITION BY a.device_id) AS first_place
        FROM numbered AS n
        JOIN rank_attempt AS a ON a.restore_id = n.id
        JOIN device AS d ON d.id = a.device_id
    )
    SELECT id FROM wanted GROUP BY id, place
    HAVING bool_and(first_place = place AND held_by IS NULL) ORDER BY place
    """
)


def next_restores(session: Session, *, considered: int) -> list[UUID]:
    """Of the oldest waiting restores those whose devices nobody holds and no older one wants, in order."""
    return list(session.scalars(_NEXT, {"considered": considered}))


def pool_bytes_held(session: Session, *, device_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Bytes of each device's pool taken by pages that are not released yet."""
    query = (
        select(RankAttempt.device_id, func.sum(RankAttempt.pages_bytes))
        .where(
            RankAttempt.device_id.in_(device_ids),
            RankAttempt.pages_released_at.is_(None),
            RankAttempt.claimed_at.is_not(None),
        )
        .group_by(RankAttempt.device_id)
    )
    return {device_id: int(held) for device_id, held in session.execute(query)}


def get_attempt(session: Session, *, attempt_id: UUID) -> RankAttempt | None:
    query = (
        select(RankAttempt)
        .options(joinedload(RankAttempt.device).joinedload(Device.node), joinedload(RankAttempt.restore))
        .where(RankAttempt.id == attempt_id)
    )
    return session.scalars(query).one_or_none()


def lock_attempt(session: Session, *, attempt_id: UUID) -> tuple[RankAttempt, datetime] | None:
    """The attempt's row alone, because heartbeats of many ranks must not queue up behind one restore; and the
    time then."""
    query = (
        select(RankAttempt, func.clock_timestamp())
        .options(joinedload(RankAttempt.device).joinedload(Device.node), joinedload(RankAttempt.restore))
        .where(RankAttempt.id == attempt_id)
        .with_for_update(of=RankAttempt)
    )
    row = session.execute(query.execution_options(populate_existing=True)).one_or_none()
    return None if row is None else (row[0], row[1])


def overdue_restores(session: Session, *, now: datetime) -> list[UUID]:
    """Restores with a rank whose lease ran out, whose worker was replaced, or that is late: with being ready,
    or with what is decided."""
    open_attempt = (RankAttempt.ended_at.is_(None)) & (RankAttempt.restore_id == Restore.id)
    silent = open_attempt & (RankAttempt.lease_expires_at < now)
    replaced = open_attempt & (RankAttempt.device_generation < Device.generation)
    late = (Restore.state == "running") & (Restore.ready_deadline_at < now)
    allowed = Restore.ready_deadline_at - Restore.admitted_at
    undone = open_attempt & Restore.state.in_(("publishing", "retracting"))
    undone &= Restore.decided_at + allowed < now
    query = (
        select(Restore.id)
        .join(RankAttempt, RankAttempt.restore_id == Restore.id)
        .join(Device, Device.id == RankAttempt.device_id)
        .where(
            Restore.state.in_(("running", "publishing", "retracting")), or_(silent, replaced, late, undone)
        )
        .distinct()
    )
    return list(session.scalars(query))


def unclaimed_due(session: Session, *, now: datetime) -> list[UUID]:
    """Restores with an admitted rank that nobody claimed and whose message is due again."""
    query = (
        select(RankAttempt.restore_id)
        .join(Device, Device.held_by == RankAttempt.id)
        .where(RankAttempt.state == "waiting", RankAttempt.next_send_at < now)
        .distinct()
    )
    return list(session.scalars(query))


def resident_due(session: Session, *, now: datetime) -> list[UUID]:
    """Restores whose pages reached their time to live or lost their worker, or whose rank owes an answer."""
    pages = (RankAttempt.pages_released_at.is_(None)) & (RankAttempt.restore_id == Restore.id)
    replaced = pages & (RankAttempt.device_generation < Device.generation)
    resend = pages & (RankAttempt.next_send_at < now)
    query = (
        select(Restore.id)
        .join(RankAttempt, RankAttempt.restore_id == Restore.id)
        .join(Device, Device.id == RankAttempt.device_id)
        .where(
            or_(
                (Restore.state == "resident") & ((Restore.resident_until < now) | replaced | resend),
                (Restore.state == "releasing") & (resend | replaced),
            )
        )
        .distinct()
    )
    return list(session.scalars(query))


def get_readback(session: Session, *, readback_id: UUID) -> Readback | None:
    query = select(Readback).options(selectinload(Readback.ranks)).where(Readback.id == readback_id)
    return session.scalars(query.execution_options(populate_existing=True)).one_or_none()


def lock_readback(session: Session, *, readback_id: UUID) -> Readback | None:
    query = select(Readback).where(Readback.id == readback_id).with_for_update(of=Readback)
    if session.scalars(query).one_or_none() is None:
        return None
    return get_readback(session, readback_id=readback_id)


def list_readbacks(session: Session, *, restore_id: UUID, limit: int) -> list[Readback]:
    query = select(Readback).options(selectinload(Readback.ranks)).where(Readback.restore_id == restore_id)
    return list(session.scalars(query.order_by(Readback.created_at.desc(), Readback.id).limit(limit)))


def latest_readback(session: Session, *, restore_id: UUID) -> Readback | None:
    query = (
        select(Readback)
        .options(selectinload(Readback.ranks))
        .where(Readback.restore_id == restore_id)
        .order_by(Readback.created_at.desc())
        .limit(1)
    )
    return session.scalars(query).one_or_none()


def lock_open_readbacks(session: Session, *, restore_id: UUID) -> list[Readback]:
    query = (
        select(Readback)
        .where(Readback.restore_id == restore_id, Readback.ended_at.is_(None))
        .order_by(Readback.id)
        .with_for_update(of=Readback)
    )
    return list(session.scalars(query.execution_options(populate_existing=True)))


def unanswered_readbacks(session: Session, *, restore_id: UUID, rank: int) -> list[UUID]:
    """The open readbacks of a restore that a rank has not answered."""
    answered = select(RankReadback.readback_id).where(
        RankReadback.readback_id == Readback.id, RankReadback.rank == rank
    )
    query = (
        select(Readback.id)
        .where(Readback.restore_id == restore_id, Readback.ended_at.is_(None), ~answered.exists())
        .order_by(Readback.created_at)
    )
    return list(session.scalars(query))


def overdue_readbacks(session: Session, *, created_before: datetime) -> list[UUID]:
    """In the order in which `lock_open_readbacks` locks those of one restore."""
    query = select(Readback.id).where(Readback.ended_at.is_(None), Readback.created_at < created_before)
    return list(session.scalars(query.order_by(Readback.id)))
