"""Evidence documents as submitted, where they came from, and what is known of an image's identity."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import GIN, Base, CreatedAt, Id, Sha256


class ReceiptRow(Base):
    """One submitted document, byte for byte under its SHA-256; every other column is an index over it.

    `keys` are the words under which judging finds it: ``role:value``, with a digest in place of a value that
    is long (`app/core/qualify/keys.py` makes and explains them).
    """

    __tablename__ = "receipt"
    __table_args__ = (
        Index("ix_receipt_created", "created_at", "sha256"),
        Index("ix_receipt_image", "image_config_id", "created_at", "sha256"),
        Index("ix_receipt_kind", "kind", "created_at", "sha256"),
        Index("ix_receipt_schema", "schema_name", "created_at", "sha256"),
        Index("ix_receipt_schema_kind", "schema_name", "kind", "capability", "created_at", "sha256"),
        Index("ix_receipt_capability", "capability", "created_at", "sha256"),
        Index("ix_receipt_kind_capability", "kind", "capability", "created_at", "sha256"),
        Index("ix_receipt_canonical", "canonical_sha256"),
        Index("ix_receipt_keys", "keys", **GIN),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    canonical_sha256: Mapped[Sha256]
    byte_count: Mapped[int]
    schema_name: Mapped[str | None] = mapped_column(doc="as written, the first 200 characters")
    kind: Mapped[str]
    family: Mapped[str]
    capability: Mapped[str]
    image_config_id: Mapped[Sha256 | None] = mapped_column(doc="of the document's subject")
    release: Mapped[str | None]
    title: Mapped[str] = mapped_column(doc="one line for lists")
    keys: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]

    origins: Mapped[list["ReceiptOrigin"]] = relationship(order_by="ReceiptOrigin.created_at")


class ReceiptOrigin(Base):
    """Where a document stood when it was submitted; the same bytes may have stood in several places.

    `keys` as in `ReceiptRow`: its place, and the places it points to, which depend on its own.
    """

    __tablename__ = "receipt_origin"
    __table_args__ = (
        UniqueConstraint("receipt_sha256", "repository", "path", "commit"),
        Index("ix_receipt_origin_keys", "keys", **GIN),
    )

    id: Mapped[Id]
    receipt_sha256: Mapped[Sha256] = mapped_column(ForeignKey("receipt.sha256"))
    repository: Mapped[str]
    path: Mapped[str]
    commit: Mapped[str] = mapped_column(doc="empty where none was given")
    committed_at: Mapped[datetime | None] = mapped_column(
        doc="orders versions of one path, before created_at"
    )
    keys: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]


class ImageIdentity(Base):
    """The first receipt that gave an image this value on one axis of its identity (commit, tree, …)."""

    __tablename__ = "image_identity"
    __table_args__ = (UniqueConstraint("image_config_id", "axis", "value_sha256"),)

    id: Mapped[Id]
    image_config_id: Mapped[Sha256]
    axis: Mapped[str]
    value: Mapped[str] = mapped_column(doc="the first 200 characters")
    value_sha256: Mapped[Sha256]
    receipt_sha256: Mapped[Sha256] = mapped_column(ForeignKey("receipt.sha256"))
    created_at: Mapped[CreatedAt]
