"""Headers every response carries: a request id, what keeps a browser from running anything foreign."""

from itertools import count
from secrets import token_hex
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_FIXED: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

# Counted and not drawn: drawing asks the system, and whoever does that on the event loop stands in line for
# the interpreter with every thread that works.
_PROCESS: Final = token_hex(8)
_requests: Final = count(1)

# Where a dependency leaves headers for the answer, whichever response the route returns.
ANSWER_HEADERS: Final = "answer_headers"


class ResponseHeaders:
    """ASGI middleware: adds the fixed headers, and a new request id that problems repeat."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = f"{_PROCESS}{next(_requests):016x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in (_FIXED | state.get(ANSWER_HEADERS, {})).items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
