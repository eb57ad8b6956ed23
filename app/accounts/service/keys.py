"""API keys: made, listed, revoked, and recognised without telling strangers why not."""

import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID
from zlib import crc32

from sqlalchemy.orm import Session

from app.accounts import repository
from app.accounts.service.changes import note_change
from app.accounts.service.people import BESIDE, get_account, scopes_of
from app.core.digest import sha256
from app.db.session import database_time
from app.errors import Forbidden, NotFound, Refused
from app.ledger import service as ledger
from app.models import Account, ApiKey
from app.web.auth import Principal, Scope, reach
from app.web.paging import Cursor

KeyState = Literal["live", "expired", "revoked"]
KEY_PREFIX: Final = "sgk"
KEY_LIFE: Final = timedelta(days=90)
LONGEST_KEY_LIFE: Final = timedelta(days=366)
KEY_LABEL: Final = r"^[A-Za-z0-9][A-Za-z0-9 ._@:-]{0,63}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOrder:
    """A key as somebody wants it."""

    account_name: str
    label: str
    scopes: frozenset[Scope]
    node_name: str | None = None
    life: timedelta = KEY_LIFE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just made, and the only time its text is known."""

    row: ApiKey
    text: str


def create_key(
    session: Session,
    *,
    account_name: str,
    label: str,
    scopes: frozenset[Scope],
    node_name: str | None = None,
    life: timedelta = KEY_LIFE,
) -> str:
    """A new API key, made beside the database; the text returned is shown once and not kept."""
    order = KeyOrder(account_name=account_name, label=label, scopes=scopes, node_name=node_name, life=life)
    return make_key(session, order=order).text


def make_key(session: Session, *, order: KeyOrder, by: str = BESIDE) -> NewKey:
    """A new API key.

    Form: ``sgk_<8 hex: public prefix>_<43 characters of secret><8 hex: CRC-32 of what precedes>``; the
    checksum lets a scanner or a client tell a mistyped key from a refused one.

    Raises:
        NotFound: no such account.
        Refused: a key that reports for a node names none, or the other way round; it would hold what its
            account does not; its label or its life is not acceptable.
    """
    account = get_account(session, name=order.account_name)
    _check_order(order, account=account)
    prefix = secrets.token_hex(4)
    body = f"{KEY_PREFIX}_{prefix}_{secrets.token_urlsafe(32)}"
    text = f"{body}{crc32(body.encode()):08x}"
    now = database_time(session)
    row = ApiKey(
        account=account,
        label=order.label,
        prefix=prefix,
        secret_sha256=sha256(text.encode()),
        scopes=sorted(order.scopes),
        node_name=order.node_name,
        created_at=now,
        created_by=by,
        expires_at=now + order.life,
    )
    session.add(row)
    session.flush()
    _record(session, kind="key-created", by=by, key=row)
    return NewKey(row=row, text=text)


def _record(session: Session, *, kind: str, by: str, key: ApiKey) -> None:
    ledger.record(
        session,
        kind=kind,
        by=by,
        rows={"api_key": [key]},
        facts={"account": key.account.name, "label": key.label},
    )


def _check_order(order: KeyOrder, *, account: Account) -> None:
    key = f"key {order.label!r:.80}"
    if re.fullmatch(KEY_LABEL, order.label) is None:
        raise Refused(f"{key}: expected a label of 1 to 64 letters, digits, spaces, '.', '_', '@', ':', '-'")
    if (Scope.NODES_REPORT in order.scopes) != (order.node_name is not None):
        raise Refused(f"{key}: {Scope.NODES_REPORT} needs a node name and nothing else may have one")
    _check_held(order.scopes, held=scopes_of(account), subject=f"{key}: account {account.name}")
    if order.life > LONGEST_KEY_LIFE:
        raise Refused(f"{key}: expected a life of at most {LONGEST_KEY_LIFE.days} days, found {order.life}")


def _check_held(scopes: frozenset[Scope], *, held: frozenset[Scope], subject: str) -> None:
    beyond = scopes - reach(held)
    if beyond:
        names = ", ".join(sorted(held)) or "nothing"
        raise Refused(f"{subject} holds {names}, found {', '.join(sorted(beyond))} for a key")


def make_key_for(session: Session, *, order: KeyOrder, by: Principal) -> NewKey:
    """A key ordered by REST. An admin's key makes any; another one hands on less than it holds itself: to its
    own account, no scope it lacks, not for longer than it lives.

    Raises:
        Forbidden: the maker may not.
        NotFound, Refused: as `make_key`.
    """
    if not by.may(Scope.ADMIN):
        if order.account_name != by.account:
            raise Forbidden(
                f"account: expected {by.account}, or the scope {Scope.ADMIN}; found {order.account_name}",
                code="scope-missing",
            )
        _check_held(order.scopes, held=by.scopes, subject=f"key {by.name}")
        if by.expires_at is not None and database_time(session) + order.life > by.expires_at:
            raise Refused(
                f"life_s: expected that the new key expires no later than the one that makes it, "
                f"{by.expires_at:%Y-%m-%dT%H:%M:%SZ}, found a later time"
            )
    return make_key(session, order=order, by=by.name)


def get_key(session: Session, *, key_id: UUID, by: Principal, lock: bool = False) -> ApiKey:
    """A key by id; to who is no admin, other accounts' keys do not exist.

    Raises:
        NotFound: none has it.
    """
    key = repository.key_by_id(session, key_id=key_id, lock=lock)
    if key is None or not (by.may(Scope.ADMIN) or key.account.name == by.account):
        raise NotFound(f"key {key_id}: not found")
    return key


def list_keys(
    session: Session, *, account_name: str | None, after: Cursor | None, limit: int
) -> list[ApiKey]:
    """Keys, newest first; of one account or of all."""
    return repository.list_keys(session, account_name=account_name, after=after, limit=limit)


def state_of(key: ApiKey, *, now: datetime) -> KeyState:
    """Whether a key is good now, as far as it alone says."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at <= now else "live"


def revoke_key(session: Session, *, key: ApiKey, by: str) -> None:
    """Revoke a key for good; revoking it again changes nothing."""
    _revoke(session, keys=[key], by=by)


def revoke_key_for(session: Session, *, key: ApiKey, by: Principal) -> None:
    """Revoke a key by REST. As a key hands on less than it holds, it takes away no more: itself, and keys of
    its account that may do nothing it may not; an admin's key any.

    Raises:
        Forbidden: the key may do more.
    """
    beyond = frozenset(Scope(scope) for scope in key.scopes) - by.scopes
    if beyond and key.id != by.key_id and not by.may(Scope.ADMIN):
        raise Forbidden(
            f"key {key.id}: expected one with no scope this key lacks, or the scope {Scope.ADMIN}; found "
            f"{', '.join(sorted(beyond))}",
            code="scope-missing",
        )
    _revoke(session, keys=[key], by=by.name)


def revoke_keys(session: Session, *, label: str, by: str = BESIDE) -> int:
    """Revoke every live key with this label; returns how many."""
    live = [key for key in repository.keys_by_label(session, label=label) if key.revoked_at is None]
    _revoke(session, keys=live, by=by)
    return len(live)


def _revoke(session: Session, *, keys: Collection[ApiKey], by: str) -> None:
    now = database_time(session)
    for key in keys:
        if key.revoked_at is None:
            key.revoked_at, key.revoked_by = now, by
            session.flush()
            note_change(session)
            _record(session, kind="key-revoked", by=by, key=key)


def authenticate_key(session: Session, *, text: str) -> Principal | None:
    """The principal behind an API key, or None for any reason it is not good.

    It may do what the key says as far as its account may do it now.
    """
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
        scopes=frozenset(Scope(scope) for scope in key.scopes) & reach(scopes_of(key.account)),
        account=key.account.name,
        node_name=key.node_name,
        key_id=key.id,
        expires_at=key.expires_at,
    )
