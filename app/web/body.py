"""Request bodies with a limit that holds before the bytes are in memory."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import TooLarge

# The largest body anybody may send: an inventory of 100,000 root documents is about 36 MB.
LARGEST_BODY_BYTES: Final = 48 * 1024 * 1024


class BodyLimit:
    """ASGI middleware: no route, known or not, reads more than so much of a body.

    FastAPI reads a JSON body before it looks at the key, so a route's own limit would come too late.
    """

    def __init__(self, app: ASGIApp, *, limit_bytes: int = LARGEST_BODY_BYTES) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit_bytes:
                # An HTTPException, because FastAPI turns any other error of a body into a 400.
                raise HTTPException(413, f"body: expected at most {self._limit_bytes} bytes, found more")
            return message

        await self._app(scope, counted if scope["type"] == "http" else receive, send)


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
