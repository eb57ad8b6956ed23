"""Request bodies with a limit that holds before the bytes are in memory."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from app.errors import TooLarge
from app.web.auth import KeyAuthenticator, Scope

# FastAPI parses a JSON body before any dependency sees the key, and parsing holds up every other request of
# the process: what is read depends on who sends it. Without a good key: forms and small documents.
STRANGERS_BODY_BYTES: Final = 256 * 1024
# With one: a receipt or a layout of 4 MiB is the largest thing there is.
CLIENTS_BODY_BYTES: Final = 5 * 1024 * 1024
# With one that may add profiles, to the route that takes bytes and parses none (profile-contract §18.2).
PROFILE_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
PROFILE_DOCUMENTS_PATH: Final = "/api/v1/profiles/documents"
# With a node's: an inventory of 100,000 root documents is about 36 MB.
LARGEST_BODY_BYTES: Final = 48 * 1024 * 1024


class BodyLimit:
    """ASGI middleware: no route, known or not, reads more of a body than its sender may send."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        received, limit_bytes = 0, STRANGERS_BODY_BYTES

        async def counted() -> Message:
            nonlocal received, limit_bytes
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit_bytes == STRANGERS_BODY_BYTES:
                limit_bytes = await _limit_of(scope)
            if received > limit_bytes:
                # An HTTPException, because FastAPI turns any other error of a body into a 400.
                raise HTTPException(
                    413, f"body: expected at most {limit_bytes} bytes from this sender, found more"
                )
            return message

        await self._app(scope, counted if scope["type"] == "http" else receive, send)


async def _limit_of(scope: Connection) -> int:
    """How large a body may be, asked only once it is larger than anybody's may be."""
    kind, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
    keys: KeyAuthenticator = scope["app"].state.authenticate_key
    principal = await run_in_threadpool(keys.recognise, text) if kind.lower() == "bearer" else None
    if principal is None:
        return STRANGERS_BODY_BYTES
    if principal.node_name is not None:
        return LARGEST_BODY_BYTES
    adds_profiles = scope["path"] == PROFILE_DOCUMENTS_PATH and principal.may(Scope.PROFILES_WRITE)
    return PROFILE_DOCUMENT_BYTES if adds_profiles else CLIENTS_BODY_BYTES


def raw_body(*, limit_bytes: int) -> Callable[[Request], Awaitable[bytes]]:
    """A dependency: the body's bytes, at most `limit_bytes` of them.

    Raises (when used):
        TooLarge: the body is longer, declared or not.
    """

    async def read(request: Request) -> bytes:
        declared = request.headers.get("content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit_bytes:
            raise _too_large(limit_bytes, found=declared)
        received = bytearray()
        async for part in request.stream():
            received += part
            if len(received) > limit_bytes:
                raise _too_large(limit_bytes, found="more")
        return bytes(received)

    return read


def _too_large(limit_bytes: int, *, found: str) -> TooLarge:
    return TooLarge(f"body: expected at most {limit_bytes} bytes, found {found}")


def json_document(description: str, *, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """OpenAPI's description of a JSON body that the core parses, not Pydantic."""
    content: dict[str, Any] = {"schema": {"type": "object"}}
    if example is not None:
        content["example"] = example
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {"application/json": content},
        }
    }
