"""JSON shapes of accounts and API keys."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, SecretStr, StringConstraints, model_validator

from app.accounts.service import (
    ACCOUNT_NAME,
    KEY_LABEL,
    KEY_LIFE,
    LONGEST_KEY_LIFE,
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    KeyState,
)
from app.web.auth import Scope
from app.web.schemas import Body, NodeName, Resource

AccountName = Annotated[str, StringConstraints(pattern=ACCOUNT_NAME), Field(examples=["ada"])]
KeyLabel = Annotated[str, StringConstraints(pattern=KEY_LABEL), Field(examples=["ci"])]
# JSON knows neither enums nor sets; a value that is no scope is refused all the same.
Scopes = Annotated[
    list[Annotated[Scope, Field(strict=False)]],
    Field(max_length=len(Scope), examples=[["images:read", "restores:read"]]),
]
LifeS = Annotated[
    int,
    Field(
        ge=60,
        le=int(LONGEST_KEY_LIFE.total_seconds()),
        examples=[int(KEY_LIFE.total_seconds())],
        description="seconds until it expires",
    ),
]


class AccountBody(Body):
    """A new account; its password is set by a request of its own."""

    name: AccountName
    scopes: Scopes


class AccountChangeBody(Body):
    """What is to change; what is left out stays."""

    scopes: Scopes | None = None
    disabled: (
        Annotated[bool, Field(description="a disabled account's keys and logins do not work")] | None
    ) = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.scopes is None and self.disabled is None:
            raise ValueError("expected scopes, disabled or both, found neither")
        return self


class PasswordBody(Body):
    password: Annotated[
        SecretStr,
        Field(
            min_length=SHORTEST_PASSWORD,
            max_length=LONGEST_PASSWORD,
            strict=False,
            examples=["correct horse battery"],
        ),
    ]


class AccountResource(Resource):
    """Somebody who logs in by name, and the owner of keys; never deleted, only disabled."""

    id: UUID
    name: str = Field(examples=["ada"])
    scopes: list[Scope]
    has_password: bool = Field(description="without one nobody logs in; keys work all the same")
    disabled: bool
    created_at: datetime
    created_by: str
    disabled_at: datetime | None
    disabled_by: str | None


class AccountList(Resource):
    accounts: list[AccountResource]
    next_page_token: str = ""


class KeyBody(Body):
    """A new API key."""

    label: KeyLabel
    account: AccountName | None = Field(default=None, description="the owner; your own account if left out")
    scopes: Annotated[Scopes, Field(min_length=1)]
    node: NodeName | None = Field(
        default=None, description="the one node a key with nodes:report speaks for; no other key has one"
    )
    life_s: LifeS = int(KEY_LIFE.total_seconds())


class KeyResource(Resource):
    """An API key without its secret, of which only the SHA-256 is kept."""

    id: UUID
    account: str = Field(examples=["ada"])
    label: str = Field(examples=["ci"])
    prefix: str = Field(description="how the key's text begins", examples=["sgk_1f2e3d4c"])
    scopes: list[Scope]
    node: NodeName | None
    state: KeyState
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    revoked_by: str | None
    last_used_at: datetime | None = Field(description="to the minute")


class NewKeyResource(KeyResource):
    secret: str | None = Field(
        description="the key's text, in this one answer; a repetition of the request has null here",
        examples=["sgk_1f2e3d4c_9vYq…"],
    )


class KeyList(Resource):
    keys: list[KeyResource]
    next_page_token: str = ""
