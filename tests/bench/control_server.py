"""The application as it is, and a header that says how long it worked on each request.

    uvicorn tests.bench.control_server:create_app --factory

The time counts from the moment the event loop hands the request over; what waits in the socket before that
is seen by the client only.
"""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.main import create_app as real_app

HEADER = b"x-server-ms"


class Timed:
    """ASGI: note how long the answer took."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                elapsed = f"{(time.perf_counter() - started) * 1e3:.3f}".encode()
                message = {**message, "headers": [*message.get("headers", ()), (HEADER, elapsed)]}
            await send(message)

        await self._app(scope, receive, marked if scope["type"] == "http" else send)


def create_app() -> ASGIApp:
    return Timed(real_app())
