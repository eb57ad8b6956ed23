"""Fragments that a page asks for again while something is open, and that stop by themselves.

htmx 4 knows no 286: a fragment stops because its last version no longer carries `hx-get`. It sends the
ETag of the version it has in a header of its own (`hx-headers`), so that the browser's cache stays out of it
and 304 reaches htmx, which then leaves the page alone.
"""

from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response

from app.dashboard.templating import render
from app.web.etag import etag_of, matches

FAST_MS: Final = 700
SLOW_MS: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A part of a page: its HTML, where it is asked for again and after how many ms, if at all."""

    url: str
    inner: str
    poll_ms: int | None

    @property
    def etag(self) -> str:
        return etag_of(f"{self.poll_ms}\n{self.inner}".encode())


def is_fragment_request(request: Request) -> bool:
    """Whether htmx asks, and wants a part rather than a page."""
    return request.headers.get("hx-request") == "true"


def fragment(request: Request, live: Live) -> Response:
    """The part with its ETag, or 304 where the page has it already."""
    headers = {"ETag": live.etag, "Cache-Control": "private, no-store"}
    if matches(request.headers.get("if-none-match"), etag=live.etag):
        return Response(status_code=304, headers=headers)
    body = render(request, "live.html", live=live)
    return Response(body, media_type="text/html; charset=utf-8", headers=headers)
