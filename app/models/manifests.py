"""Root documents found in the nodes' store roots."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id, Sha256
from app.models.nodes import Node


class RootDocument(Base):
    """The bytes of one rank's root document under their SHA-256, with an index over them."""

    __tablename__ = "root_document"
    __table_args__ = (Index("ix_root_document_snapshot", "context_digest", "rank_zero_storage_key", "rank"),)

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    storage_key: Mapped[Sha256]
    rank_zero_storage_key: Mapped[Sha256]
    context_digest: Mapped[Sha256]
    rank: Mapped[int]
    rank_count: Mapped[int]
    span_tokens: Mapped[int]
    encoded_bytes: Mapped[int]
    object_count: Mapped[int]
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
