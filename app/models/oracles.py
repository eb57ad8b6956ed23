"""Questions that restores are asked, kept under the SHA-256 of their bytes."""

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Sha256


class OracleQuestionRow(Base):
    """One question (docs/FORMAT.md): its canonical bytes, whose SHA-256 is its key, with an index over them.

    It can be asked of every snapshot of its context digest that has as many ranks, restored with its layout.
    """

    __tablename__ = "oracle_question"
    __table_args__ = (
        Index("ix_oracle_question_created", "created_at", "sha256"),
        Index("ix_oracle_question_context", "context_digest", "created_at", "sha256"),
    )

    sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    document: Mapped[bytes]
    context_digest: Mapped[Sha256]
    layout_sha256: Mapped[Sha256]
    rank_count: Mapped[int]
    span_tokens: Mapped[int]
    expected: Mapped[str]
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
