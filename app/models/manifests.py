"""Root documents found in the nodes' store roots."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id, Sha256
from app.models.nodes import Node


class RootDocument(Base):
    """The bytes of one rank's root document under their SHA-256, with an index over them.

    `stream_sha256` is what the document states of its whole stream; only a flat snapshot's states it.
    """

    __tablename__ = "root_document"
    __table_args__ = (
        Index("ix_root_document_snapshot", "context_digest", "rank_zero_storage_key", "rank"),
        Index("ix_root_document_created", "created_at", "sha256"),
        Index("ix_root_document_context", "context_digest", "created_at", "sha256"),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    kind: Mapped[str]
    stream_sha256: Mapped[Sha256 | None]
    storage_key: Mapped[Sha256]
    rank_zero_storage_key: Mapped[Sha256]
    context_digest: Mapped[Sha256]
    rank: Mapped[int]
    rank_count: Mapped[int]
    span_tokens: Mapped[int]
    encoded_bytes: Mapped[int]
    object_count: Mapped[int]
    created_at: Mapped[CreatedAt]

    pin: Mapped["ManifestPin | None"] = relationship(uselist=False)


class SnapshotRow(Base):
    """One row per snapshot, made with the first of its root documents: what the list of snapshots pages over.

    Ranks belong to the same snapshot where both digests are equal (store format §6.1).
    """

    __tablename__ = "snapshot"
    __table_args__ = (
        UniqueConstraint("context_digest", "rank_zero_storage_key"),
        Index("ix_snapshot_created", "created_at", "id"),
    )

    id: Mapped[Id]
    context_digest: Mapped[Sha256]
    rank_zero_storage_key: Mapped[Sha256]
    created_at: Mapped[CreatedAt]


class ManifestLocation(Base):
    """Where a root document was seen, from when until when; `gone_at` when a scan no longer found it."""

    __tablename__ = "manifest_location"
    __table_args__ = (UniqueConstraint("node_id", "root_path", "storage_key", "context_digest"),)

    id: Mapped[Id]
    node_id: Mapped[UUID] = mapped_column(ForeignKey("node.id"))
    root_path: Mapped[str]
    storage_key: Mapped[Sha256]
    context_digest: Mapped[Sha256]
    root_document_sha256: Mapped[Sha256] = mapped_column(ForeignKey("root_document.sha256"), index=True)
    first_seen_at: Mapped[CreatedAt]
    last_seen_at: Mapped[datetime]
    gone_at: Mapped[datetime | None]

    node: Mapped[Node] = relationship()
    root_document: Mapped[RootDocument] = relationship()


class ManifestPin(Base):
    """A complete check of what a root document names: every object, and the digest over the whole stream.

    It holds for the document wherever it lies: its objects are authenticated at every restore, and authentic
    objects in its order can only be this stream.
    """

    __tablename__ = "manifest_pin"

    root_document_sha256: Mapped[Sha256] = mapped_column(ForeignKey("root_document.sha256"), primary_key=True)
    stream_sha256: Mapped[Sha256]
    node_name: Mapped[str]
    root_path: Mapped[str]
    checked_at: Mapped[CreatedAt]
