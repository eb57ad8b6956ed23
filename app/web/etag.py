"""Strong ETags on everything that is read, and 304 when the reader already has it."""

from fastapi import Request, Response
from pydantic import BaseModel

from app.core.digest import sha256


def etag_of(body: bytes) -> str:
    """A strong entity tag, quotes included (RFC 9110 §8.8.3)."""
    return f'"{sha256(body)[:32]}"'


def matches(header: str | None, *, etag: str) -> bool:
    """Whether an If-None-Match or If-Match header names `etag` (weak comparison)."""
    if header is None:
        return False
    candidates = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in candidates or etag in candidates


def conditional(request: Request, body: bytes, *, media_type: str, status: int = 200) -> Response:
    """The body with its ETag, or 304 without one."""
    etag = etag_of(body)
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    if matches(request.headers.get("if-none-match"), etag=etag):
        return Response(status_code=304, headers=headers)
    return Response(body, status_code=status, media_type=media_type, headers=headers)


def conditional_json(request: Request, model: BaseModel) -> Response:
    """A resource as JSON with its ETag, or 304."""
    return conditional(request, model.model_dump_json().encode(), media_type="application/json")
