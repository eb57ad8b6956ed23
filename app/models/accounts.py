"""People, their keys and their dashboard sessions."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id, Sha256


class Account(Base):
    """A person who logs in by name, or the owner of keys; never deleted, only disabled."""

    __tablename__ = "account"

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(unique=True)
    password_hash: Mapped[str | None]
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str] = mapped_column(server_default="bootstrap")
    disabled_at: Mapped[datetime | None]
    disabled_by: Mapped[str | None]


class ApiKey(Base):
    """An API key: only the SHA-256 of its secret is kept."""

    __tablename__ = "api_key"

    id: Mapped[Id]
    account_id: Mapped[UUID] = mapped_column(ForeignKey("account.id"))
    label: Mapped[str]
    prefix: Mapped[str] = mapped_column(unique=True)
    secret_sha256: Mapped[Sha256]
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    node_name: Mapped[str | None] = mapped_column(doc="the one node a key with nodes:report may speak for")
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str] = mapped_column(server_default="bootstrap")
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    revoked_by: Mapped[str | None]
    last_used_at: Mapped[datetime | None] = mapped_column(doc="to the minute; not part of the ledger")

    account: Mapped[Account] = relationship()


class WebSession(Base):
    """A dashboard login; the cookie holds the token, the table its SHA-256."""

    __tablename__ = "web_session"

    token_sha256: Mapped[Sha256] = mapped_column(primary_key=True)
    account_id: Mapped[UUID] = mapped_column(ForeignKey("account.id"))
    form_token: Mapped[str] = mapped_column(doc="expected in every form of this session (CSRF)")
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]

    account: Mapped[Account] = relationship()
