"""Accounts, API keys and dashboard logins: who someone is, decided without telling strangers why not."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from zlib import crc32

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.orm import Session

from app.accounts import repository
from app.core.digest import sha256
from app.db.session import database_time
from app.errors import Conflict, NotFound, Refused
from app.models import Account, ApiKey, WebSession
from app.web.auth import Principal, Scope

KEY_PREFIX: Final = "sgk"
SHORTEST_PASSWORD: Final = 12
KEY_LIFE: Final = timedelta(days=90)

_passwords = PasswordHasher()
# Compared when there is no such account, so that the answer takes the same time.
_NOBODY: Final = _passwords.hash(secrets.token_urlsafe(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A dashboard session as its browser holds it."""

    token: str
    form_token: str
    principal: Principal


def create_account(session: Session, *, name: str, password: str | None, scopes: frozenset[Scope]) -> Account:
    """A new account.

    Raises:
        Refused: the name or password is not acceptable.
        Conflict: the name is taken.
    """
    if not name.strip() or len(name) > 64:
        raise Refused(f"name: expected 1 to 64 characters, found {name!r}")
    if password is not None and len(password) < SHORTEST_PASSWORD:
        raise Refused(f"password: expected at least {SHORTEST_PASSWORD} characters, found {len(password)}")
    if repository.account_by_name(session, name=name) is not None:
        raise Conflict(f"account {name}: already there")
    hashed = _passwords.hash(password) if password is not None else None
    account = Account(name=name, password_hash=hashed, scopes=sorted(scopes))
    session.add(account)
    session.flush()
    return account


def has_account(session: Session, *, name: str) -> bool:
    """Whether there is an account of this name."""
    return repository.account_by_name(session, name=name) is not None


def set_password(session: Session, *, name: str, password: str) -> None:
    """Replace the password of an account.

    Raises:
        NotFound: no such account.
    """
    account = repository.account_by_name(session, name=name)
    if account is None:
        raise NotFound(f"account {name}: not found")
    account.password_hash = _passwords.hash(password)


def create_key(
    session: Session,
    *,
    account_name: str,
    label: str,
    scopes: frozenset[Scope],
    node_name: str | None = None,
    life: timedelta = KEY_LIFE,
) -> str:
    """A new API key; the text returned is shown once and not kept.

    Form: ``sgk_<8 hex: public prefix>_<43 characters of secret><8 hex: CRC-32 of what precedes>``; the
    checksum lets a scanner or a client tell a mistyped key from a refused one.

    Raises:
        NotFound: no such account.
        Refused: a key that reports for a node names none, or the other way round.
    """
    account = repository.account_by_name(session, name=account_name)
    if account is None:
        raise NotFound(f"account {account_name}: not found")
    if (Scope.NODES_REPORT in scopes) != (node_name is not None):
        raise Refused(f"key {label}: {Scope.NODES_REPORT} needs a node name and nothing else may have one")
    prefix = secrets.token_hex(4)
    body = f"{KEY_PREFIX}_{prefix}_{secrets.token_urlsafe(32)}"
    text = f"{body}{crc32(body.encode()):08x}"
    session.add(
        ApiKey(
            account_id=account.id,
            label=label,
            prefix=prefix,
            secret_sha256=sha256(text.encode()),
            scopes=sorted(scopes),
            node_name=node_name,
            expires_at=database_time(session) + life,
        )
    )
    session.flush()
    return text


def authenticate_key(session: Session, *, text: str) -> Principal | None:
    """The principal behind an API key, or None for any reason it is not good."""
    parts = text.split("_", 2)
    if len(parts) != 3 or parts[0] != KEY_PREFIX or len(text) > 128 or not text.isascii():
        return None
    key = repository.key_by_prefix(session, prefix=parts[1])
    if key is None or not hmac.compare_digest(key.secret_sha256, sha256(text.encode())):
        return None
    now = database_time(session)
    if key.revoked_at is not None or key.expires_at <= now or key.account.disabled_at is not None:
        return None
    return Principal(
        name=f"{key.account.name}/{key.label}",
        scopes=frozenset(Scope(scope) for scope in key.scopes),
        node_name=key.node_name,
    )


def revoke_keys(session: Session, *, label: str) -> int:
    """Revoke every live key with this label; returns how many."""
    now = database_time(session)
    live = [key for key in repository.keys_by_label(session, label=label) if key.revoked_at is None]
    for key in live:
        key.revoked_at = now
    return len(live)


def log_in(session: Session, *, name: str, password: str, life: timedelta) -> Login | None:
    """A new dashboard session, or None where name and password do not fit."""
    account = repository.account_by_name(session, name=name)
    usable = account is not None and account.disabled_at is None and account.password_hash is not None
    stored = account.password_hash if usable and account and account.password_hash else _NOBODY
    try:
        _passwords.verify(stored, password)
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
    return Login(token=token, form_token=form_token, principal=_person(account))


def resume(session: Session, *, token: str) -> Login | None:
    """The dashboard session a cookie stands for, if it is still good."""
    row = repository.live_session(session, token_sha256=sha256(token.encode()), now=database_time(session))
    if row is None or row.account.disabled_at is not None:
        return None
    return Login(token=token, form_token=row.form_token, principal=_person(row.account))


def log_out(session: Session, *, token: str) -> None:
    """End a dashboard session."""
    repository.delete_session(session, token_sha256=sha256(token.encode()))


def _person(account: Account) -> Principal:
    return Principal(name=account.name, scopes=frozenset(Scope(scope) for scope in account.scopes))
