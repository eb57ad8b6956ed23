"""Dashboard logins: a name and a password for a session that lasts a while."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.orm import Session

from app.accounts import repository
from app.accounts.service.people import passwords
from app.core.digest import sha256
from app.db.session import database_time
from app.models import Account, WebSession
from app.web.auth import Principal, Scope

# Compared when there is no such account, so that the answer takes the same time.
_NOBODY: Final = passwords.hash(secrets.token_urlsafe(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A dashboard session as its browser holds it.

    Attributes: now: the database's clock when the session was looked up, so that a page need not ask again.
    """

    token: str
    form_token: str
    principal: Principal
    now: datetime


def log_in(session: Session, *, name: str, password: str, life: timedelta) -> Login | None:
    """A new dashboard session, or None where name and password do not fit."""
    account = repository.account_by_name(session, name=name)
    usable = account is not None and account.disabled_at is None and account.password_hash is not None
    stored = account.password_hash if usable and account and account.password_hash else _NOBODY
    try:
        passwords.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return None
    if not usable or account is None:
        return None
    return _open_session(session, account=account, life=life)


def _open_session(session: Session, *, account: Account, life: timedelta) -> Login:
    now = database_time(session)
    repository.delete_expired_sessions(session, now=now)
    token, form_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    session.add(
        WebSession(
            token_sha256=sha256(token.encode()),
            account_id=account.id,
            form_token=form_token,
            expires_at=now + life,
        )
    )
    principal = _person(account.name, scopes=account.scopes)
    return Login(token=token, form_token=form_token, principal=principal, now=now)


def resume(session: Session, *, token: str) -> Login | None:
    """The dashboard session a cookie stands for, if it is still good."""
    row = repository.live_session(session, token_sha256=sha256(token.encode()))
    if row is None:
        return None
    principal = _person(row.name, scopes=row.scopes)
    return Login(token=token, form_token=row.form_token, principal=principal, now=row.now)


def log_out(session: Session, *, token: str) -> None:
    """End a dashboard session."""
    repository.delete_session(session, token_sha256=sha256(token.encode()))


def _person(name: str, *, scopes: Sequence[str]) -> Principal:
    return Principal(name=name, account=name, scopes=frozenset(map(Scope, scopes)))
