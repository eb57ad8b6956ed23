"""Runtime images under their three digests."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id, Sha256
from app.models.sources import SourceIdentityRow


class Image(Base):
    """A container image. `config_id`, `manifest_digest` and `index_digest` are never the same thing.

    `origin` says how we know of it: `registered` by a client, or `imported-record`, retold from a public
    record and neither run nor judged here.
    """

    __tablename__ = "image"
    __table_args__ = (Index("ix_image_created", "created_at", "id"),)

    id: Mapped[Id]
    config_id: Mapped[Sha256 | None] = mapped_column(unique=True)
    manifest_digest: Mapped[Sha256 | None] = mapped_column(unique=True)
    index_digest: Mapped[Sha256 | None] = mapped_column(unique=True)
    title: Mapped[str]
    origin: Mapped[str]
    record: Mapped[str | None] = mapped_column(doc="what the imported record says, and where it stands")
    source_id: Mapped[UUID | None] = mapped_column(ForeignKey("source_identity.id"))
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]

    source: Mapped[SourceIdentityRow | None] = relationship()


class ImageUnjudged(Base):
    """An image about which no scope was judged yet; made again from images and verdicts at any time.

    A row that should be gone does no harm: whoever lists them looks at the verdicts too.
    """

    __tablename__ = "image_unjudged"
    __table_args__ = (Index("ix_image_unjudged_created", "created_at", "image_id"),)

    image_id: Mapped[UUID] = mapped_column(ForeignKey("image.id"), primary_key=True)
    config_id: Mapped[Sha256 | None] = mapped_column(unique=True, doc="of the image")
    created_at: Mapped[datetime] = mapped_column(doc="of the image")
