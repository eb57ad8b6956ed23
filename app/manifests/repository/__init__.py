"""SQL of root documents and where they are."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import Select, and_, bindparam, func, literal, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, contains_eager, defer

from app.models import ManifestLocation, ManifestPin, Node, RootDocument, SnapshotRow
from app.web.paging import Cursor, Total, count_rows

_same_snapshot = and_(
    RootDocument.context_digest == SnapshotRow.context_digest,
    RootDocument.rank_zero_storage_key == SnapshotRow.rank_zero_storage_key,
)


def document_names(session: Session, *, digests: Collection[str]) -> dict[str, tuple[str, str]]:
    """(storage key, context digest) of those of these documents that are here."""
    row = RootDocument
    query = select(row.sha256, row.storage_key, row.context_digest).where(row.sha256.in_(digests))
    return {sha256: (storage, context) for sha256, storage, context in session.execute(query)}


def add_document(session: Session, *, values: dict[str, object]) -> tuple[bool, UUID | None]:
    """Keep a document, and its snapshot with the first of its documents.

    Returns:
        Whether the document is new, and the snapshot's id if it is.
    """
    names = {name: values[name] for name in ("context_digest", "rank_zero_storage_key")}
    snapshot = insert(SnapshotRow).values(id=uuid4(), **names).on_conflict_do_nothing()
    snapshot_id = session.execute(snapshot.returning(SnapshotRow.id)).scalar_one_or_none()
    statement = insert(RootDocument).values(**values).on_conflict_do_nothing().returning(RootDocument.sha256)
    return session.execute(statement).scalar_one_or_none() is not None, snapshot_id


def add_pin(session: Session, *, values: dict[str, object]) -> bool:
    statement = insert(ManifestPin).values(**values).on_conflict_do_nothing()
    return session.execute(statement.returning(ManifestPin.root_document_sha256)).first() is not None


def unpinned_documents(session: Session, *, digests: Collection[str]) -> set[str]:
    """Those of these documents that a complete check could pin and none has."""
    row = RootDocument
    query = select(row.sha256).outerjoin(ManifestPin, ManifestPin.root_document_sha256 == row.sha256)
    wanted = row.sha256.in_(digests), row.stream_sha256.is_not(None)
    return set(session.scalars(query.where(*wanted, ManifestPin.root_document_sha256.is_(None))))


def list_documents(
    session: Session, *, context_digest: str | None, after: Cursor | None, limit: int
) -> list[RootDocument]:
    """Root documents, newest first, without their bytes."""
    row = RootDocument
    query = _newest_documents(context_digest).options(defer(row.document))
    if after is not None:
        query = query.where(tuple_(row.created_at, row.sha256) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_documents(session: Session, *, context_digest: str | None) -> Total:
    return count_rows(session, _newest_documents(context_digest))


def _newest_documents(context_digest: str | None) -> Select[RootDocument]:
    query = select(RootDocument).order_by(RootDocument.created_at.desc(), RootDocument.sha256.desc())
    return query if context_digest is None else query.where(RootDocument.context_digest == context_digest)


def places_of(session: Session, *, sha256: str) -> list[ManifestLocation]:
    """Where a root document is now, by node and path."""
    query = _places().where(ManifestLocation.root_document_sha256 == sha256)
    return list(session.scalars(query.order_by(Node.name, ManifestLocation.root_path)))


def get_document(session: Session, *, sha256: str) -> RootDocument | None:
    return session.get(RootDocument, sha256)


def upsert_location(session: Session, *, values: dict[str, object], now: datetime) -> None:
    statement = insert(ManifestLocation).values(id=uuid4(), **values, last_seen_at=now)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["node_id", "root_path", "storage_key", "context_digest"],
            set_={
                "root_document_sha256": statement.excluded.root_document_sha256,
                "last_seen_at": now,
                "gone_at": None,
            },
        )
    )


def mark_gone(session: Session, *, node_id: UUID, seen_at: datetime) -> int:
    """Whatever the scan that ended at `seen_at` did not see is gone since then."""
    statement = (
        update(ManifestLocation)
        .where(
            ManifestLocation.node_id == node_id,
            ManifestLocation.gone_at.is_(None),
            ManifestLocation.last_seen_at < seen_at,
        )
        .values(gone_at=seen_at)
        .returning(ManifestLocation.id)
    )
    return len(session.execute(statement).all())


def locations(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None
) -> list[tuple[ManifestLocation, datetime]]:
    """Where the ranks of a snapshot are now, by rank, node and path; each with the time now."""
    query = _LOCATIONS
    if rank_zero_storage_key is not None:
        query = query.where(RootDocument.rank_zero_storage_key == rank_zero_storage_key)
    found = session.execute(query, {"context_digest": context_digest})
    return [(place, now) for place, now in found]


def _places() -> Select[ManifestLocation]:
    """Places of now. Documents can be 16 MiB each: their bytes come only where somebody asks for them."""
    document = contains_eager(ManifestLocation.root_document)
    return (
        select(ManifestLocation)
        .join(ManifestLocation.root_document)
        .join(ManifestLocation.node)
        .options(
            document.defer(RootDocument.document),
            document.joinedload(RootDocument.pin),
            contains_eager(ManifestLocation.node),
        )
        .where(ManifestLocation.gone_at.is_(None))
    )


# Built once: every order asks it.
_LOCATIONS: Final = (
    _places()
    .add_columns(func.clock_timestamp())
    .where(RootDocument.context_digest == bindparam("context_digest"))
    .order_by(RootDocument.rank, Node.name, ManifestLocation.root_path)
)


def snapshots(session: Session, *, after: Cursor | None, limit: int) -> list[SnapshotRow]:
    """Snapshots that are somewhere now, newest first."""
    row = SnapshotRow
    query = _present_snapshots().limit(limit)
    if after is not None:
        query = query.where(tuple_(row.created_at, row.id) < (after.created_at, after.id))
    return list(session.scalars(query))


def snapshots_of(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None
) -> list[SnapshotRow]:
    """Snapshots of a token prefix that are somewhere now: one for each identity."""
    query = _present_snapshots().where(SnapshotRow.context_digest == context_digest)
    if rank_zero_storage_key is not None:
        query = query.where(SnapshotRow.rank_zero_storage_key == rank_zero_storage_key)
    return list(session.scalars(query))


def count_snapshots(session: Session) -> Total:
    return count_rows(session, _present_snapshots())


def _present_snapshots() -> Select[SnapshotRow]:
    """LATERAL with a limit: one look per snapshot in the order of the list, never all places at once."""
    place = (
        select(literal(1))
        .select_from(RootDocument)
        .join(ManifestLocation, ManifestLocation.root_document_sha256 == RootDocument.sha256)
        .where(_same_snapshot, ManifestLocation.gone_at.is_(None))
        .limit(1)
        .correlate(SnapshotRow)
        .lateral()
    )
    row = SnapshotRow
    return select(row).join(place, true()).order_by(row.created_at.desc(), row.id.desc())
