"""SQL of root documents and where they are."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, joinedload

from app.models import ManifestLocation, ManifestPin, Node, RootDocument


def document_names(session: Session, *, digests: Collection[str]) -> dict[str, tuple[str, str]]:
    """(storage key, context digest) of those of these documents that are here."""
    row = RootDocument
    query = select(row.sha256, row.storage_key, row.context_digest).where(row.sha256.in_(digests))
    return {sha256: (storage, context) for sha256, storage, context in session.execute(query)}


def add_document(session: Session, *, values: dict[str, object]) -> bool:
    statement = insert(RootDocument).values(**values).on_conflict_do_nothing().returning(RootDocument.sha256)
    return session.execute(statement).scalar_one_or_none() is not None


def add_pin(session: Session, *, values: dict[str, object]) -> bool:
    statement = insert(ManifestPin).values(**values).on_conflict_do_nothing()
    return session.execute(statement.returning(ManifestPin.root_document_sha256)).first() is not None


def unpinned_documents(session: Session, *, digests: Collection[str]) -> set[str]:
    """Those of these documents that a complete check could pin and none has."""
    row = RootDocument
    query = select(row.sha256).outerjoin(ManifestPin, ManifestPin.root_document_sha256 == row.sha256)
    wanted = row.sha256.in_(digests), row.stream_sha256.is_not(None)
    return set(session.scalars(query.where(*wanted, ManifestPin.root_document_sha256.is_(None))))


def pinned_documents(session: Session, *, digests: Collection[str]) -> set[str]:
    """Those of these documents that passed a complete check."""
    column = ManifestPin.root_document_sha256
    return set(session.scalars(select(column).where(column.in_(digests))))


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
) -> list[ManifestLocation]:
    """Where the ranks of a snapshot are now, by rank, node and path."""
    query = (
        select(ManifestLocation)
        .join(ManifestLocation.root_document)
        .join(ManifestLocation.node)
        .options(
            joinedload(ManifestLocation.root_document).joinedload(RootDocument.pin),
            joinedload(ManifestLocation.node),
        )
        .where(RootDocument.context_digest == context_digest, ManifestLocation.gone_at.is_(None))
        .order_by(RootDocument.rank, Node.name, ManifestLocation.root_path)
    )
    if rank_zero_storage_key is not None:
        query = query.where(RootDocument.rank_zero_storage_key == rank_zero_storage_key)
    return list(session.scalars(query))


def snapshot_keys(session: Session, *, limit: int) -> list[tuple[str, str]]:
    """Keys (context digest, rank-zero storage key) of the newest snapshots that are somewhere now."""
    key = (RootDocument.context_digest, RootDocument.rank_zero_storage_key)
    query = (
        select(*key)
        .join(ManifestLocation, ManifestLocation.root_document_sha256 == RootDocument.sha256)
        .where(ManifestLocation.gone_at.is_(None))
        .group_by(*key)
        .order_by(func.min(RootDocument.created_at).desc(), *key)
        .limit(limit)
    )
    return [(context, storage) for context, storage in session.execute(query)]
