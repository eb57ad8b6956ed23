"""SQL for the pages, one statement each where one will do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Select, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session, contains_eager, joinedload, selectinload

from app.models import (
    Device,
    Image,
    Layout,
    ManifestLocation,
    Node,
    RankAttempt,
    Readback,
    Restore,
    RestoreEvent,
    RootDocument,
    SnapshotRow,
)
from app.web.paging import COUNTED, Cursor, Total, count_rows

LATELY = timedelta(hours=24)
# How far back a device's last restore is looked for.
MOST_RESTORES = 200
MOST_ATTEMPTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRows:
    """What the page of one restore shows."""

    restore: Restore
    events: Sequence[RestoreEvent]
    readback: Readback | None


def recent_counts(session: Session, *, now: datetime) -> dict[tuple[str, str | None], int]:
    """The newest restores of the last day, at most `COUNTED` + 1 of them, by (state, outcome)."""
    newest = (
        select(Restore.state, Restore.outcome)
        .where(Restore.created_at > now - LATELY)
        .order_by(Restore.created_at.desc(), Restore.id.desc())
        .limit(COUNTED + 1)
        .subquery()
    )
    query = select(newest.c.state, newest.c.outcome, func.count()).group_by(newest.c.state, newest.c.outcome)
    return {(state, outcome): count for state, outcome, count in session.execute(query)}


def something_is_open(session: Session) -> bool:
    """Whether a restore will still change, however old; those that only hold pages do not count."""
    query = select(Restore.id).where(Restore.state.not_in(("resident", "finished"))).limit(1)
    return session.execute(query).first() is not None


def tries(session: Session, *, restore_id: UUID) -> list[Restore]:
    """The restore, those it tries again and those that try it again, in their order."""
    chain = select(Restore.id, Restore.retry_of_id).where(Restore.id == restore_id).cte(recursive=True)
    linked = or_(Restore.id == chain.c.retry_of_id, Restore.retry_of_id == chain.c.id)
    chain = chain.union(select(Restore.id, Restore.retry_of_id).where(linked))
    query = select(Restore).where(Restore.id.in_(select(chain.c.id))).order_by(Restore.try_number)
    return list(session.scalars(query))


def retried_by(session: Session, *, restore_id: UUID) -> UUID | None:
    """The restore that tries this one again."""
    return session.scalars(select(Restore.id).where(Restore.retry_of_id == restore_id)).one_or_none()


def node_names(session: Session) -> list[str]:
    """The names of all nodes."""
    return list(session.scalars(select(Node.name).order_by(Node.name)))


def nodes(session: Session, *, name: str | None = None) -> list[Node]:
    """All nodes by name, or the one that is asked for, with their devices."""
    query = select(Node).options(selectinload(Node.devices)).order_by(Node.name)
    return list(session.scalars(query if name is None else query.where(Node.name == name)))


def pool_bytes_taken(session: Session) -> dict[UUID, int]:
    """Bytes taken from each device's pool by pages that are not given back."""
    query = (
        select(RankAttempt.device_id, func.sum(RankAttempt.pages_bytes))
        .where(RankAttempt.pages_released_at.is_(None), RankAttempt.claimed_at.is_not(None))
        .group_by(RankAttempt.device_id)
    )
    return {device_id: int(taken) for device_id, taken in session.execute(query)}


def holders(session: Session) -> dict[UUID, RankAttempt]:
    """By device the attempt that has it now, with its restore."""
    query = (
        select(RankAttempt)
        .join(Device, Device.held_by == RankAttempt.id)
        .options(joinedload(RankAttempt.restore))
    )
    return {attempt.device_id: attempt for attempt in session.scalars(query)}


def newest_attempts_by_device(session: Session) -> dict[UUID, RankAttempt]:
    """By device the newest attempt that was claimed and whose restore has an outcome, with that restore.

    Only so many of the newest restores are looked at as have `MOST_ATTEMPTS` ranks together: a device that
    none of them used is missing.
    """
    place = (Restore.created_at.desc(), Restore.id.desc())
    newest = (
        select(Restore.id, Restore.rank_count, Restore.created_at)
        .order_by(*place)
        .limit(MOST_RESTORES)
        .subquery()
    )
    upto = func.sum(newest.c.rank_count).over(order_by=(newest.c.created_at.desc(), newest.c.id.desc()))
    summed = select(newest.c.id, (upto - newest.c.rank_count).label("before")).subquery()
    query = (
        select(RankAttempt)
        .join(RankAttempt.restore)
        .join(summed, (summed.c.id == Restore.id) & (summed.c.before < MOST_ATTEMPTS))
        .where(RankAttempt.claimed_at.is_not(None), Restore.outcome.is_not(None))
        .ext(distinct_on(RankAttempt.device_id))
        .order_by(RankAttempt.device_id, *place, RankAttempt.number.desc())
        .options(contains_eager(RankAttempt.restore))
    )
    return {attempt.device_id: attempt for attempt in session.scalars(query)}


def restore_rows(session: Session, *, restore_id: UUID) -> RestoreRows | None:
    """One restore with its attempts, reports, history and newest readback."""
    attempts = selectinload(Restore.attempts)
    query = (
        select(Restore)
        .options(
            attempts.joinedload(RankAttempt.device).joinedload(Device.node),
            attempts.joinedload(RankAttempt.report),
        )
        .where(Restore.id == restore_id)
    )
    restore = session.scalars(query).one_or_none()
    if restore is None:
        return None
    events = select(RestoreEvent).where(RestoreEvent.restore_id == restore_id).order_by(RestoreEvent.id)
    readback = (
        select(Readback)
        .options(selectinload(Readback.ranks))
        .where(Readback.restore_id == restore_id)
        .order_by(Readback.created_at.desc(), Readback.id)
        .limit(1)
    )
    return RestoreRows(
        restore=restore,
        events=list(session.scalars(events)),
        readback=session.scalars(readback).one_or_none(),
    )


def places(session: Session, *, snapshots: Sequence[SnapshotRow]) -> list[tuple[UUID, ManifestLocation]]:
    """(snapshot, place) of where the ranks of these snapshots are and were, each by rank, node and path."""
    same = (RootDocument.context_digest == SnapshotRow.context_digest) & (
        RootDocument.rank_zero_storage_key == SnapshotRow.rank_zero_storage_key
    )
    query = (
        _located()
        .add_columns(SnapshotRow.id)
        .join(SnapshotRow, same)
        .where(SnapshotRow.id.in_([row.id for row in snapshots]))
        .order_by(SnapshotRow.id, RootDocument.rank, Node.name, ManifestLocation.root_path)
    )
    return [(snapshot_id, place) for place, snapshot_id in session.execute(query)]


def snapshot(session: Session, *, context_digest: str, rank_zero_storage_key: str) -> SnapshotRow | None:
    """A snapshot by its two digests, its ranks present or not."""
    same = {"context_digest": context_digest, "rank_zero_storage_key": rank_zero_storage_key}
    return session.scalars(select(SnapshotRow).filter_by(**same)).one_or_none()


def _located() -> Select[ManifestLocation]:
    return (
        select(ManifestLocation)
        .join(ManifestLocation.root_document)
        .join(ManifestLocation.node)
        .options(
            contains_eager(ManifestLocation.root_document).defer(RootDocument.document),
            contains_eager(ManifestLocation.root_document).joinedload(RootDocument.pin),
            contains_eager(ManifestLocation.node),
        )
    )


def images(session: Session, *, after: Cursor | None, limit: int) -> list[Image]:
    """Images, newest first, with their source identities."""
    query = _images().options(joinedload(Image.source))
    if after is not None:
        query = query.where(tuple_(Image.created_at, Image.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_images(session: Session) -> Total:
    """How many images there are, counted up to a bound."""
    return count_rows(session, _images())


def _images() -> Select[Image]:
    return select(Image).order_by(Image.created_at.desc(), Image.id.desc())


def layouts(session: Session, *, limit: int) -> list[Layout]:
    """The newest layouts."""
    return list(
        session.scalars(select(Layout).order_by(Layout.created_at.desc(), Layout.sha256).limit(limit))
    )
