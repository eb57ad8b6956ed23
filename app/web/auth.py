"""Who asks, and what they may do: scopes, principals and the dependencies that check them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Protocol
from uuid import UUID

from anyio import Lock
from anyio.lowlevel import RunVar
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.errors import Forbidden, Unauthenticated
from app.web.headers import ANSWER_HEADERS
from app.web.lanes import among_words
from app.web.ratelimit import Rate, Standing, client_address, limits_of


class Scope(StrEnum):
    """What a key or a person may do; fine-grained, bundled by `PRESETS`."""

    IMAGES_READ = "images:read"
    IMAGES_WRITE = "images:write"
    RESTORES_READ = "restores:read"
    RESTORES_WRITE = "restores:write"
    DRILLS_WRITE = "drills:write"
    NODES_READ = "nodes:read"
    NODES_REPORT = "nodes:report"
    RECEIPTS_APPEND = "receipts:append"
    PROFILES_READ = "profiles:read"
    PROFILES_WRITE = "profiles:write"
    EVIDENCE_EXPORT = "evidence:export"
    ADMIN = "admin"


_VIEWER: Final = frozenset({Scope.IMAGES_READ, Scope.RESTORES_READ, Scope.NODES_READ, Scope.PROFILES_READ})
PRESETS: Final[dict[str, frozenset[Scope]]] = {
    "viewer": _VIEWER,
    "operator": _VIEWER
    | {
        Scope.IMAGES_WRITE,
        Scope.RESTORES_WRITE,
        Scope.DRILLS_WRITE,
        Scope.RECEIPTS_APPEND,
        Scope.PROFILES_WRITE,
    },
    # Sees everything and changes nothing: what it exports it could have read.
    "auditor": _VIEWER | {Scope.EVIDENCE_EXPORT},
    "worker": frozenset({Scope.NODES_REPORT}),
    "admin": frozenset(Scope),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who stands behind a request: a person logged in, or a key and its owner.

    Attributes:
        name: what is written down as the author: the account, for a key ``account/label``.
        account: the account behind it.
        key_id, expires_at: of the key; a person who logged in has none.
    """

    name: str
    scopes: frozenset[Scope]
    account: str = ""
    node_name: str | None = None
    key_id: UUID | None = None
    expires_at: datetime | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope is not Scope.NODES_REPORT)


def reach(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """What somebody with these scopes may hand on in a key: an admin everything, else what they hold."""
    return frozenset(Scope) if Scope.ADMIN in scopes else scopes


class KeyAuthenticator(Protocol):
    """Who stands behind the text of a key."""

    def remembered(self, text: str) -> Principal | None:
        """The owner, if the key was recognised a moment ago; asks nobody."""

    def recognise(self, text: str) -> Principal | None:
        """The owner, or None for any reason the key is not good; may ask the database."""


# Of this event loop: the keys that are being asked for.
_turns: RunVar[dict[str, Lock]] = RunVar("sparkgate.auth.turns")
_bearer = HTTPBearer(auto_error=False, description="An API key: `Authorization: Bearer sgk_…`")


async def current_principal(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """The owner of the request's API key.

    Raises:
        Unauthenticated: no key, or one that is unknown, expired or revoked (not told apart).
        TooManyRequests: the key, or without a good one the address, has asked too often.
    """
    if credentials is None:
        found = "expected 'Bearer <API key>', found no such header"
        raise await _stranger(request, found, code="unauthenticated")
    keys: KeyAuthenticator = request.app.state.authenticate_key
    text = credentials.credentials
    principal = keys.remembered(text) or await _recognised(keys, text)
    if principal is None:
        raise await _stranger(request, "the API key is unknown, expired or revoked", code="key-refused")
    if principal.node_name is None:
        standing = await _spend(request, Rate.KEY, who=str(principal.key_id or principal.name))
        if standing is not None:
            setattr(request.state, ANSWER_HEADERS, standing.headers)
    return principal


async def _recognised(keys: KeyAuthenticator, text: str) -> Principal | None:
    """Ask once for all requests with this key that come meanwhile: a hundred at once are one question."""
    turns = _turns.get(None)
    if turns is None:
        turns = {}
        _turns.set(turns)
    turn = turns.setdefault(text, Lock())
    async with turn:
        try:
            return keys.remembered(text) or await among_words(lambda: keys.recognise(text))
        finally:
            if not turn.statistics().tasks_waiting:
                turns.pop(text, None)


async def _stranger(request: Request, found: str, *, code: str) -> Unauthenticated:
    await _spend(request, Rate.STRANGER, who=client_address(request))
    headers = {"WWW-Authenticate": 'Bearer realm="sparkgate"'}
    return Unauthenticated(f"Authorization: {found}", code=code, headers=headers)


async def _spend(request: Request, rate: Rate, *, who: str) -> Standing | None:
    """Count a request; on another thread where the counters are on another machine."""
    limits = limits_of(request)
    if limits.are_shared:
        return await among_words(lambda: limits.spend(rate, who=who))
    return limits.spend(rate, who=who)


def requires(scope: Scope) -> Callable[[Principal], Awaitable[Principal]]:
    """A dependency: the principal, if it holds `scope`."""

    async def check(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
        return check_scope(principal, scope=scope)

    check.__name__ = f"requires_{scope.name.lower()}"
    return check


def check_scope(principal: Principal, *, scope: Scope) -> Principal:
    """The principal itself.

    Raises:
        Forbidden: it lacks `scope`.
    """
    if not principal.may(scope):
        held = ", ".join(sorted(principal.scopes)) or "none"
        raise Forbidden(f"scope: expected {scope}, found {held}", code="scope-missing")
    return principal


def check_node(principal: Principal, *, node_name: str) -> None:
    """Let a worker's key speak for its own node only.

    Raises:
        Forbidden: the key is bound to another node, or to none.
    """
    if principal.node_name != node_name:
        raise Forbidden(
            f"node: this key speaks for {principal.node_name or 'no node'}, found {node_name}",
            code="other-node",
        )
