"""Raw request bodies with a limit that holds before the bytes are in memory."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request

from app.errors import TooLarge


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
