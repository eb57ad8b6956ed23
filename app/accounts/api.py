"""Routes of accounts and API keys: an admin administers all of them, anybody their own account's keys."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from sqlalchemy.orm import Session

from app.accounts import service
from app.accounts.schemas import (
    AccountBody,
    AccountChangeBody,
    AccountList,
    AccountName,
    AccountResource,
    KeyBody,
    KeyList,
    KeyResource,
    NewKeyResource,
    PasswordBody,
)
from app.core.canonical_json import encode_canonical
from app.db.session import database_time
from app.errors import Forbidden, NotFound
from app.models import Account, ApiKey
from app.web.auth import Principal, Scope, current_principal
from app.web.deps import Admin, ReadSession, WriteSession
from app.web.etag import IfMatchRequired, conditional_json, tagged_json
from app.web.idempotency import Answer, IdempotencyKey, answer_once
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses

router = ApiRouter(prefix="/api/v1/accounts", tags=["accounts"])
keys_router = ApiRouter(prefix="/api/v1/keys", tags=["keys"])

KEY_NEEDED = ("idempotency-key-missing", "idempotency-in-flight", "idempotency-key-reused")
MATCH_NEEDED = ("precondition-failed", "precondition-required")


def person(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
    """The principal, if it is somebody's: a node's key speaks for its node and administers nothing.

    Raises:
        Forbidden: it is bound to a node.
    """
    if principal.node_name is not None:
        raise Forbidden(
            f"scope: expected a key of a person, found one of node {principal.node_name}",
            code="scope-missing",
        )
    return principal


Person = Annotated[Principal, Depends(person)]


def _account(row: Account) -> AccountResource:
    return AccountResource(
        **{name: getattr(row, name) for name in ("id", "name", "created_at", "created_by")},
        scopes=[Scope(scope) for scope in row.scopes],
        has_password=row.password_hash is not None,
        disabled=row.disabled_at is not None,
        disabled_at=row.disabled_at,
        disabled_by=row.disabled_by,
    )


def _key(row: ApiKey, *, now: datetime) -> KeyResource:
    taken = ("id", "label", "created_at", "created_by", "expires_at", "revoked_at", "revoked_by")
    return KeyResource(
        **{name: getattr(row, name) for name in (*taken, "last_used_at")},
        account=row.account.name,
        prefix=f"{service.KEY_PREFIX}_{row.prefix}",
        scopes=[Scope(scope) for scope in row.scopes],
        node=row.node_name,
        state=service.state_of(row, now=now),
    )


@router.post(
    "",
    operation_id="create_account",
    summary="Make an account",
    description="Without a password nobody logs in by its name; set one with the account's `password`.",
    status_code=201,
    response_model=AccountResource,
    responses=problem_responses(*KEY_NEEDED, "conflict"),
)
def create_account(
    body: AccountBody, principal: Admin, key: IdempotencyKey, session: WriteSession
) -> Response:
    def produce() -> Answer:
        row = service.create_account(
            session, name=body.name, password=None, scopes=frozenset(body.scopes), by=principal.name
        )
        shown = _account(row).model_dump_json().encode()
        return Answer(status=201, body=shown, location=f"/api/v1/accounts/{row.name}")

    fingerprint = b"POST /api/v1/accounts\n" + encode_canonical(body.model_dump(mode="json"))
    return answer_once(session, principal=principal.name, key=key, request=fingerprint, produce=produce)


@router.get(
    "",
    operation_id="list_accounts",
    summary="List accounts, newest first",
    response_model=AccountList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_accounts(request: Request, _principal: Admin, session: ReadSession, page: PageDep) -> Response:
    rows = service.list_accounts(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    return conditional_json(
        request, AccountList(accounts=[_account(row) for row in shown], next_page_token=token)
    )


@router.get(
    "/{name}",
    operation_id="get_account",
    summary="One account; without the scope admin, your own",
    response_model=AccountResource,
    responses=problem_responses("not-found"),
)
def get_account(name: AccountName, request: Request, principal: Person, session: ReadSession) -> Response:
    if not principal.may(Scope.ADMIN) and name != principal.account:
        raise NotFound(f"account {name}: not found")
    return conditional_json(request, _account(service.get_account(session, name=name)))


@router.patch(
    "/{name}",
    operation_id="change_account",
    summary="Give an account other scopes, disable it or enable it again",
    description="Its keys and logins follow at once: a key may do what it says as far as its account may.",
    response_model=AccountResource,
    responses=problem_responses("not-found", "last-admin", *MATCH_NEEDED),
)
def change_account(
    name: AccountName,
    body: AccountChangeBody,
    principal: Admin,
    match: IfMatchRequired,
    session: WriteSession,
) -> Response:
    row = service.get_account(session, name=name, lock=True)
    match.check(_account(row))
    scopes = None if body.scopes is None else frozenset(body.scopes)
    service.change_account(session, account=row, by=principal.name, scopes=scopes, disabled=body.disabled)
    return tagged_json(_account(row))


@router.put(
    "/{name}/password",
    operation_id="set_account_password",
    summary="Set the password of an account and end its logins",
    status_code=204,
    responses=problem_responses("not-found", "refused", *MATCH_NEEDED),
)
def set_account_password(
    name: AccountName, body: PasswordBody, principal: Admin, match: IfMatchRequired, session: WriteSession
) -> None:
    match.check(_account(service.get_account(session, name=name, lock=True)))
    password = body.password.get_secret_value()
    service.set_password(session, name=name, password=password, by=principal.name)


@keys_router.post(
    "",
    operation_id="create_key",
    summary="Make an API key; its text is shown once",
    description=(
        "An admin's key makes any key. Another one hands on less than it holds: to its own account, no scope "
        "it lacks, not for longer than it lives."
    ),
    status_code=201,
    response_model=NewKeyResource,
    responses=problem_responses(*KEY_NEEDED, "not-found", "refused"),
)
def create_key(body: KeyBody, principal: Person, key: IdempotencyKey, session: WriteSession) -> Response:
    order = service.KeyOrder(
        account_name=body.account or principal.account,
        label=body.label,
        scopes=frozenset(body.scopes),
        node_name=body.node,
        life=timedelta(seconds=body.life_s),
    )

    def produce() -> Answer:
        made = service.make_key_for(session, order=order, by=principal)
        shown = NewKeyResource(**dict(_key(made.row, now=made.row.created_at)), secret=None)
        once = shown.model_copy(update={"secret": made.text})
        return Answer(
            status=201,
            body=shown.model_dump_json().encode(),
            location=f"/api/v1/keys/{made.row.id}",
            shown_once=once.model_dump_json().encode(),
        )

    fingerprint = b"POST /api/v1/keys\n" + encode_canonical(body.model_dump(mode="json"))
    return answer_once(session, principal=principal.name, key=key, request=fingerprint, produce=produce)


@keys_router.get(
    "",
    operation_id="list_keys",
    summary="List API keys, newest first; without the scope admin, those of your own account",
    response_model=KeyList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_keys(
    request: Request,
    principal: Person,
    session: ReadSession,
    page: PageDep,
    account: Annotated[AccountName | None, Query(description="only the keys of this account")] = None,
) -> Response:
    own = None if principal.may(Scope.ADMIN) else principal.account
    if own is not None and account not in {None, own}:
        raise Forbidden(f"account: expected {own}, or the scope admin; found {account}", code="scope-missing")
    rows = service.list_keys(session, account_name=account or own, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    now = database_time(session)
    return conditional_json(
        request, KeyList(keys=[_key(row, now=now) for row in shown], next_page_token=token)
    )


@keys_router.get(
    "/{key_id}",
    operation_id="get_key",
    summary="One API key",
    response_model=KeyResource,
    responses=problem_responses("not-found"),
)
def get_key(key_id: UUID, request: Request, principal: Person, session: ReadSession) -> Response:
    return conditional_json(request, _shown(session, service.get_key(session, key_id=key_id, by=principal)))


@keys_router.delete(
    "/{key_id}",
    operation_id="revoke_key",
    summary="Revoke an API key for good; it stays in the list",
    description=(
        "Revoking it again changes nothing. `If-Match: *` revokes it whatever it looks like now. Another key "
        "than an admin's revokes itself, and keys of its account that may do nothing it may not."
    ),
    response_model=KeyResource,
    responses=problem_responses("not-found", *MATCH_NEEDED),
)
def revoke_key(key_id: UUID, principal: Person, match: IfMatchRequired, session: WriteSession) -> Response:
    row = service.get_key(session, key_id=key_id, by=principal, lock=True)
    match.check(_shown(session, row))
    service.revoke_key_for(session, key=row, by=principal)
    return tagged_json(_shown(session, row))


def _shown(session: Session, row: ApiKey) -> KeyResource:
    return _key(row, now=database_time(session))
