"""Threads by lane: the words of rank workers never wait behind what clients order.

All requests share the connections of one process. Orders and pages may fill every thread they have; what a
worker says is short and lives on a lease, so a part of the connections, and a lane of threads as wide as that
part, is kept for it. Recognising a key runs there too: a heartbeat must not queue up for that either. Orders
have writers of their own, few of them (`app.restores.service.intake`): what an order costs is work of this
process, and more threads at it only make heartbeats wait for the interpreter.
"""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Final, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import current_default_thread_limiter, run_sync

P = ParamSpec("P")
T = TypeVar("T")

# One part in so many of the connections is for the words of workers.
_SHARE: Final = 4
# Threads that write orders: while one waits for its commit, the other makes the next orders ready.
WRITERS: Final = 2
_words: RunVar[CapacityLimiter] = RunVar("sparkgate.lanes.words")


def open_lanes(*, connections: int) -> None:
    """Set the lanes of the running event loop.

    As many threads as connections: one more could only wait for a connection, in the way of the others.
    """
    words = max(1, connections // _SHARE)
    _words.set(CapacityLimiter(words))
    current_default_thread_limiter().total_tokens = max(1, connections - words - WRITERS)


async def among_words(call: Callable[[], T]) -> T:
    """Run `call` in a thread of the lane of words."""
    limiter = _words.get(None)
    if limiter is None:
        limiter = CapacityLimiter(_SHARE)
        _words.set(limiter)
    return await run_sync(call, limiter=limiter)


def word(route: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """Have a route run in the lane of words: whole, its transaction too, so that it takes one thread once."""

    @wraps(route)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await among_words(partial(route, *args, **kwargs))

    return run
