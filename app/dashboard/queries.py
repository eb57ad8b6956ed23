"""SQL for the pages, one statement each where one will do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select, tuple_
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
)
from app.web.paging import Cursor

LATELY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRows:
    """What the page of one restore shows."""

    restore: Restore
    events: Sequence[RestoreEvent]
    readback: Readback | None


def recent_counts(session: Session, *, now: datetime) -> dict[tuple[str, str | None], int]:
    """Restores of the last day by (state, outcome)."""
    query = (
        select(Restore.state, Restore.outcome, func.count())
        .where(Restore.created_at > now - LATELY)
        .group_by(Restore.state, Restore.outcome)
    )
    return {(state, outcome): count for state, outcome, count in session.execute(query)}


def open_restores(session: Session) -> int:
    """Restores that will still change, however old; those that only hold pages do not count."""
    query = select(func.count()).where(Restore.state.not_in(("resident", "finished")))
    return session.execute(query).scalar_one()


def restores(
    session: Session, *, limit: int, after: Cursor | None, state: str | None, outcome: str | None
) -> list[Restore]:
    """Restores, newest first, without their attempts."""
    query = select(Restore).order_by(Restore.created_at.desc(), Restore.id.desc()).limit(limit)
    if after is not None:
        query = query.where(tuple_(Restore.created_at, Restore.id) < (after.created_at, after.id))
    if state is not None:
        query = query.where(Restore.state == state)
    if outcome is not None:
        query = query.where(Restore.outcome == outcome)
    return list(session.scalars(query))


def nodes(session: Session) -> list[Node]:
    """All nodes by name with their devices."""
    return list(session.scalars(select(Node).options(selectinload(Node.devices)).order_by(Node.name)))


def pool_bytes_taken(session: Session) -> dict[UUID, int]:
    """Bytes taken from each device's pool by pages that are not given back."""
    query = (
        select(RankAttempt.device_id, func.sum(RankAttempt.pages_bytes))
        .where(RankAttempt.pages_released_at.is_(None), RankAttempt.claimed_at.is_not(None))
        .group_by(RankAttempt.device_id)
    )
    return {device_id: int(taken) for device_id, taken in session.execute(query)}


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


def places(session: Session, *, snapshots: int) -> list[ManifestLocation]:
    """Where the ranks of the newest snapshots are now, newest snapshot first, then by rank and node."""
    key = (RootDocument.context_digest, RootDocument.rank_zero_storage_key)
    newest = (
        select(*key, func.min(RootDocument.created_at).label("since"))
        .join(ManifestLocation, ManifestLocation.root_document_sha256 == RootDocument.sha256)
        .where(ManifestLocation.gone_at.is_(None))
        .group_by(*key)
        .order_by(func.min(RootDocument.created_at).desc(), *key)
        .limit(snapshots)
        .subquery()
    )
    same = (RootDocument.context_digest == newest.c.context_digest) & (
        RootDocument.rank_zero_storage_key == newest.c.rank_zero_storage_key
    )
    query = (
        select(ManifestLocation)
        .join(ManifestLocation.root_document)
        .join(ManifestLocation.node)
        .join(newest, same)
        .options(
            contains_eager(ManifestLocation.root_document).defer(RootDocument.document),
            contains_eager(ManifestLocation.root_document).joinedload(RootDocument.pin),
            contains_eager(ManifestLocation.node),
        )
        .where(ManifestLocation.gone_at.is_(None))
        .order_by(newest.c.since.desc(), *key, RootDocument.rank, Node.name, ManifestLocation.root_path)
    )
    return list(session.scalars(query))


def images(session: Session, *, after: Cursor | None, limit: int) -> list[Image]:
    """Images, newest first, with their source identities."""
    query = select(Image).options(joinedload(Image.source)).order_by(Image.created_at.desc(), Image.id.desc())
    if after is not None:
        query = query.where(tuple_(Image.created_at, Image.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def layouts(session: Session, *, limit: int) -> list[Layout]:
    """The newest layouts."""
    return list(
        session.scalars(select(Layout).order_by(Layout.created_at.desc(), Layout.sha256).limit(limit))
    )
