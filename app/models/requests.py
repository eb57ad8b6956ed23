"""Answers kept for repeated requests."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from app.db.base import Base, CreatedAt, Sha256


class IdempotencyRecord(Base):
    """The answer given to one (principal, Idempotency-Key); the same request again gets it again."""

    __tablename__ = "idempotency_record"

    principal: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[Sha256]
    status: Mapped[int]
    location: Mapped[str | None]
    body: Mapped[bytes]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
