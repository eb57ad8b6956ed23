"""Who asks, and what they may do: scopes, principals and the dependencies that check them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.errors import Forbidden, Unauthenticated


class Scope(StrEnum):
    """What a key or a person may do; fine-grained, bundled by `PRESETS`."""

    IMAGES_READ = "images:read"
    IMAGES_WRITE = "images:write"
    RESTORES_READ = "restores:read"
    RESTORES_WRITE = "restores:write"
    NODES_READ = "nodes:read"
    NODES_REPORT = "nodes:report"
    ADMIN = "admin"


_VIEWER: Final = frozenset({Scope.IMAGES_READ, Scope.RESTORES_READ, Scope.NODES_READ})
PRESETS: Final[dict[str, frozenset[Scope]]] = {
    "viewer": _VIEWER,
    "operator": _VIEWER | {Scope.IMAGES_WRITE, Scope.RESTORES_WRITE},
    "worker": frozenset({Scope.NODES_REPORT}),
    "admin": frozenset(Scope),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who stands behind a request: a person logged in, or a key and its owner."""

    name: str
    scopes: frozenset[Scope]
    node_name: str | None = None

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope is not Scope.NODES_REPORT)


KeyAuthenticator = Callable[[str], Principal | None]

_bearer = HTTPBearer(auto_error=False, description="An API key: `Authorization: Bearer sgk_…`")


def current_principal(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """The owner of the request's API key.

    Raises:
        Unauthenticated: no key, or one that is unknown, expired or revoked (not told apart).
    """
    challenge = {"WWW-Authenticate": 'Bearer realm="sparkgate"'}
    if credentials is None:
        raise Unauthenticated(
            "Authorization: expected 'Bearer <API key>', found no such header", headers=challenge
        )
    authenticate: KeyAuthenticator = request.app.state.authenticate_key
    principal = authenticate(credentials.credentials)
    if principal is None:
        raise Unauthenticated(
            "Authorization: the API key is unknown, expired or revoked", code="key-refused", headers=challenge
        )
    return principal


def requires(scope: Scope) -> Callable[[Principal], Principal]:
    """A dependency: the principal, if it holds `scope`."""

    def check(principal: Annotated[Principal, Depends(current_principal)]) -> Principal:
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
