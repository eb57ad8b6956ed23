"""SQL of accounts, keys and sessions."""

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session, joinedload

from app.models import Account, ApiKey, WebSession


def account_by_name(session: Session, *, name: str) -> Account | None:
    return session.scalars(select(Account).where(Account.name == name)).one_or_none()


def key_by_prefix(session: Session, *, prefix: str) -> ApiKey | None:
    query = select(ApiKey).options(joinedload(ApiKey.account)).where(ApiKey.prefix == prefix)
    return session.scalars(query).one_or_none()


def keys_by_label(session: Session, *, label: str) -> list[ApiKey]:
    return list(session.scalars(select(ApiKey).where(ApiKey.label == label)))


def live_session(session: Session, *, token_sha256: str, now: datetime) -> WebSession | None:
    query = (
        select(WebSession)
        .options(joinedload(WebSession.account))
        .where(WebSession.token_sha256 == token_sha256, WebSession.expires_at > now)
    )
    return session.scalars(query).one_or_none()


def delete_session(session: Session, *, token_sha256: str) -> None:
    session.execute(delete(WebSession).where(WebSession.token_sha256 == token_sha256))


def delete_expired_sessions(session: Session, *, now: datetime) -> None:
    session.execute(delete(WebSession).where(WebSession.expires_at <= now))
