"""Documents of profiles as submitted, and where they stood. Those that are evidence too are receipts."""

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import GIN, Base, CreatedAt, Id, Sha256


class ProfileDocument(Base):
    """One document, byte for byte under its SHA-256; every other column is an index over it.

    `keys` are the words under which others find it: ``role:value`` (`app/profiles/service/keys.py`).
    """

    __tablename__ = "profile_document"
    __table_args__ = (
        Index("ix_profile_document_created", "created_at", "sha256"),
        Index("ix_profile_document_kind", "kind", "created_at", "sha256"),
        Index("ix_profile_document_keys", "keys", **GIN),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    byte_count: Mapped[int]
    kind: Mapped[str]
    schema_name: Mapped[str | None] = mapped_column(doc="as written, the first 200 characters")
    title: Mapped[str] = mapped_column(doc="one line for lists")
    keys: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]

    places: Mapped[list["ProfilePlace"]] = relationship(order_by="ProfilePlace.created_at")


class ProfilePlace(Base):
    """Where a document stood when it was submitted: what a contract names is looked for beside it."""

    __tablename__ = "profile_place"
    __table_args__ = (
        UniqueConstraint("document_sha256", "repository", "path", "commit"),
        Index("ix_profile_place_name", "name", "created_at", "id"),
    )

    id: Mapped[Id]
    document_sha256: Mapped[Sha256] = mapped_column(ForeignKey("profile_document.sha256"))
    repository: Mapped[str] = mapped_column(doc="empty where none was given")
    path: Mapped[str]
    name: Mapped[str] = mapped_column(doc="the last part of the path: what a contract calls a template")
    commit: Mapped[str] = mapped_column(doc="empty where none was given")
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
