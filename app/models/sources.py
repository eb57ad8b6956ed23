"""Source identities: what code an image or a runtime was built from."""

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.dialects.postgresql import CHAR
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Id, Sha256


class SourceIdentityRow(Base):
    """Repository, commit, tree and source SHA-256 as registered; a part that is not known is NULL."""

    __tablename__ = "source_identity"
    __table_args__ = (
        UniqueConstraint("repository", "commit", "tree", "source_sha256", postgresql_nulls_not_distinct=True),
        Index("ix_source_identity_created", "created_at", "id"),
    )

    id: Mapped[Id]
    repository: Mapped[str]
    commit: Mapped[str] = mapped_column(CHAR(40))
    tree: Mapped[str | None] = mapped_column(CHAR(40))
    source_sha256: Mapped[Sha256 | None]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
