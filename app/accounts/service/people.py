"""Accounts: who there is, what each may do, and their passwords."""

import re
from typing import Final

from argon2 import PasswordHasher
from sqlalchemy.orm import Session

from app.accounts import repository
from app.accounts.service.changes import note_change
from app.db.session import database_time
from app.errors import Conflict, NotFound, Refused
from app.ledger import service as ledger
from app.models import Account
from app.web.auth import Scope
from app.web.paging import Cursor

SHORTEST_PASSWORD: Final = 12
LONGEST_PASSWORD: Final = 1024
# Part of addresses and of what authors are written down as (`account/label`).
ACCOUNT_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
# Who made what was made beside the database, without a request.
BESIDE: Final = "bootstrap"

passwords: Final = PasswordHasher()


def create_account(
    session: Session, *, name: str, password: str | None, scopes: frozenset[Scope], by: str = BESIDE
) -> Account:
    """A new account; without a password nobody logs in, but its keys work.

    Raises:
        Refused: the name or password is not acceptable.
        Conflict: the name is taken.
    """
    if re.fullmatch(ACCOUNT_NAME, name) is None:
        raise Refused(f"name: expected 1 to 64 letters, digits, '.', '_', '@', '-', found {name!r:.100}")
    hashed = _hashed(password) if password is not None else None
    account = Account(name=name, password_hash=hashed, scopes=sorted(scopes), created_by=by)
    if not repository.add_account(session, account=account):
        raise Conflict(f"account {name}: already there")
    _record(session, kind="account-created", by=by, account=account)
    return account


def has_account(session: Session, *, name: str) -> bool:
    """Whether there is an account of this name."""
    return repository.account_by_name(session, name=name) is not None


def get_account(session: Session, *, name: str, lock: bool = False) -> Account:
    """An account by name; with `lock` it, and before it every admin, is held for the rest of the transaction.

    Raises:
        NotFound: none has it.
    """
    if lock:
        repository.lock_admins(session)
    account = repository.account_by_name(session, name=name, lock=lock)
    if account is None:
        raise NotFound(f"account {name}: not found")
    return account


def list_accounts(session: Session, *, after: Cursor | None, limit: int) -> list[Account]:
    """Accounts, newest first."""
    return repository.list_accounts(session, after=after, limit=limit)


def change_account(
    session: Session,
    *,
    account: Account,
    by: str,
    scopes: frozenset[Scope] | None = None,
    disabled: bool | None = None,
) -> None:
    """Give an account, locked, other scopes, disable it or enable it again; its keys follow at once.

    Raises:
        Conflict: nobody who is not disabled would be left with `admin`.
    """
    admins = repository.lock_admins(session)
    if scopes is not None:
        account.scopes = sorted(scopes)
    if disabled is not None and disabled != (account.disabled_at is not None):
        account.disabled_at = database_time(session) if disabled else None
        account.disabled_by = by if disabled else None
    if admins and not any(one.disabled_at is None and Scope.ADMIN in one.scopes for one in admins):
        raise Conflict(
            f"account {account.name}: expected that somebody else who is not disabled holds {Scope.ADMIN}, "
            "found nobody",
            code="last-admin",
        )
    session.flush()
    note_change(session)
    _record(session, kind="account-changed", by=by, account=account)


def set_password(session: Session, *, name: str, password: str, by: str = BESIDE) -> None:
    """Replace the password of an account and end its dashboard sessions.

    Raises:
        NotFound: no such account.
        Refused: the password is too short or too long.
    """
    account = get_account(session, name=name, lock=True)
    account.password_hash = _hashed(password)
    repository.delete_sessions_of(session, account_id=account.id)
    _record(session, kind="password-set", by=by, account=account)


def _record(session: Session, *, kind: str, by: str, account: Account) -> None:
    ledger.record(session, kind=kind, by=by, rows={"account": [account]}, facts={"account": account.name})


def _hashed(password: str) -> str:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise Refused(
            f"password: expected at least {SHORTEST_PASSWORD} characters and at most {LONGEST_PASSWORD}, "
            f"found {len(password)}"
        )
    return passwords.hash(password)


def scopes_of(account: Account) -> frozenset[Scope]:
    """What an account may do."""
    return frozenset(Scope(scope) for scope in account.scopes)
