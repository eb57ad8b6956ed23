"""Wait for something another process does."""

import time
from collections.abc import Callable
from typing import Final

POLL_S: Final = 0.2


def wait_for(condition: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Return once `condition` holds.

    Raises:
        TimeoutError: it did not within `within_s` seconds; the message says `what` was expected.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected {what} within {within_s:.0f} s, found none")
        time.sleep(POLL_S)
