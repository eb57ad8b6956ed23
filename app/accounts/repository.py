"""SQL of accounts, keys and sessions."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row, delete, func, or_, select, text, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, joinedload

from app.models import Account, ApiKey, WebSession
from app.web.paging import Cursor

# Every page asks it: as text, because building it costs more than asking it.
_LIVE_SESSION: Final = text(
    "SELECT web_session.form_token, account.name, account.scopes, clock_timestamp() AS now "
    "FROM web_session JOIN account ON account.id = web_session.account_id "
    "WHERE web_session.token_sha256 = :token_sha256 AND web_session.expires_at > clock_timestamp() "
    "AND account.disabled_at IS NULL"
)


def add_account(session: Session, *, account: Account) -> bool:
    """Insert it; False where the name is taken, even by a transaction that ends just now."""
    try:
        with session.begin_nested():
            session.add(account)
    except IntegrityError:
        return False
    return True


def account_by_name(session: Session, *, name: str, lock: bool = False) -> Account | None:
    query = select(Account).where(Account.name == name)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalars(query).one_or_none()


def list_accounts(session: Session, *, after: Cursor | None, limit: int) -> list[Account]:
    query = select(Account).order_by(Account.created_at.desc(), Account.id.desc()).limit(limit)
    if after is not None:
        query = query.where(tuple_(Account.created_at, Account.id) < (after.created_at, after.id))
    return list(session.scalars(query))


def lock_admins(session: Session) -> list[Account]:
    """Accounts with `admin`, locked in the order of their ids: two of them must not end each other."""
    query = select(Account).where(Account.scopes.contains(["admin"])).order_by(Account.id)
    return list(session.scalars(query.with_for_update().execution_options(populate_existing=True)))


def key_by_prefix(session: Session, *, prefix: str) -> ApiKey | None:
    query = select(ApiKey).options(joinedload(ApiKey.account)).where(ApiKey.prefix == prefix)
    return session.scalars(query).one_or_none()


def key_by_id(session: Session, *, key_id: UUID, lock: bool = False) -> ApiKey | None:
    query = select(ApiKey).options(joinedload(ApiKey.account)).where(ApiKey.id == key_id)
    if lock:
        query = query.with_for_update(of=ApiKey).execution_options(populate_existing=True)
    return session.scalars(query).one_or_none()


def list_keys(
    session: Session, *, account_name: str | None, after: Cursor | None, limit: int
) -> list[ApiKey]:
    query = select(ApiKey).join(ApiKey.account).options(joinedload(ApiKey.account))
    if account_name is not None:
        query = query.where(Account.name == account_name)
    if after is not None:
        query = query.where(tuple_(ApiKey.created_at, ApiKey.id) < (after.created_at, after.id))
    return list(session.scalars(query.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).limit(limit)))


def note_use(session: Session, *, key_id: UUID) -> None:
    """Set the time of last use to this minute unless it is; a row somebody else holds is left alone."""
    minute = func.date_trunc("minute", func.clock_timestamp())
    is_old = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at < minute)
    free = select(ApiKey.id).where(ApiKey.id == key_id, is_old).with_for_update(skip_locked=True)
    session.execute(update(ApiKey).where(ApiKey.id.in_(free)).values(last_used_at=minute))


def keys_by_label(session: Session, *, label: str) -> list[ApiKey]:
    query = select(ApiKey).where(ApiKey.label == label).order_by(ApiKey.id)
    return list(session.scalars(query.with_for_update()))


def live_session(session: Session, *, token_sha256: str) -> Row[Any] | None:
    """Form token, name and scopes of whoever is logged in, and the database's clock: not over, not
    disabled."""
    return session.execute(_LIVE_SESSION, {"token_sha256": token_sha256}).one_or_none()


def delete_session(session: Session, *, token_sha256: str) -> None:
    session.execute(delete(WebSession).where(WebSession.token_sha256 == token_sha256))


def delete_expired_sessions(session: Session, *, now: datetime) -> None:
    session.execute(delete(WebSession).where(WebSession.expires_at <= now))


def delete_sessions_of(session: Session, *, account_id: UUID) -> None:
    session.execute(delete(WebSession).where(WebSession.account_id == account_id))
