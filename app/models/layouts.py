"""Page layouts: documents kept under their layout_sha256."""

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Sha256


class Layout(Base):
    """One page layout (store format §8.5): its canonical bytes, whose SHA-256 is its key."""

    __tablename__ = "layout"
    __table_args__ = (Index("ix_layout_created", "created_at", "sha256"),)

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    group_count: Mapped[int]
    layer_count: Mapped[int]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
