"""Bytes that others submitted, handed out as they came in: always to be kept, never shown as a page."""

from typing import Any, Final

from fastapi import Request, Response

from app.web.etag import IMMUTABLE, matches

# Never application/json: a browser that shows foreign bytes is not what they are kept for.
_MEDIA_TYPE: Final = "application/octet-stream"

BYTES_ANSWER: Final[dict[str, Any]] = {
    "description": "The bytes",
    "content": {_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
}


def kept_bytes(request: Request, raw: bytes, *, sha256: str, file_name: str) -> Response:
    """The bytes under the ETag of their digest, or 304 for who has them already."""
    headers = {"ETag": f'"{sha256}"', "Cache-Control": IMMUTABLE, "Content-Disposition": _attached(file_name)}
    if matches(request.headers.get("if-none-match"), etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(raw, media_type=_MEDIA_TYPE, headers=headers)


def downloaded_bytes(raw: bytes, *, file_name: str) -> Response:
    """The bytes as a page's link gives them."""
    headers = {"Content-Disposition": _attached(file_name), "Cache-Control": "private, no-store"}
    return Response(raw, media_type=_MEDIA_TYPE, headers=headers)


def _attached(file_name: str) -> str:
    return f'attachment; filename="{file_name}"'
