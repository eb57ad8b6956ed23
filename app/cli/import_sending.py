"""Files of an import on their way: a few at a time, again where the control plane is busy for a moment."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from app.cli.client import ApiClient, ApiError
from app.cli.import_folder import FoundFile

TRIES: Final = 5
_FIRST_WAIT_S: Final = 0.5
_AGAIN: Final = (429, 503)

Done = tuple[FoundFile, int, dict[str, Any]]
"""A file, the status of its answer, and the answer."""


def sent(files: Iterator[FoundFile], *, send: Callable[[FoundFile], Done], jobs: int) -> Iterator[Done]:
    """Every file sent, at most `jobs` at a time and no more in memory; versions of one path one after the
    other, since the order they come in is their order."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        under_way: deque[tuple[FoundFile, Future[Done]]] = deque()
        for file in files:
            while len(under_way) >= jobs or any(_same_path(file, other) for other, _ in under_way):
                yield under_way.popleft()[1].result()
            under_way.append((file, pool.submit(send, file)))
        while under_way:
            yield under_way.popleft()[1].result()


def send_file(
    api: ApiClient, file: FoundFile, *, to: str, parameters: Mapping[str, str], most_bytes: int
) -> Done:
    """Send one file; again where the control plane is busy or away for a moment.

    Args: to: the path it is posted to. most_bytes: of a longer file one byte more is read and sent, so that
    the control plane refuses it.

    Raises:
        ApiError: it does not answer, or does not let us.
    """
    with file.path.open("rb") as stream:
        raw = stream.read(most_bytes + 1)
    wait_s = _FIRST_WAIT_S
    for attempt in range(1, TRIES + 1):
        try:
            status, headers, body = api.send("POST", to, params=dict(parameters), content=raw)
        except ApiError:
            if attempt == TRIES:
                raise
        else:
            if status in (401, 403):
                raise ApiError(f"{status} {body.get('code')}: {body.get('detail')}")
            if status not in _AGAIN or attempt == TRIES:
                return file, status, body
            wait_s = max(wait_s, float(headers.get("retry-after", 0)))
        time.sleep(wait_s)
        wait_s *= 2
    raise ApiError(f"{file.path}: no answer after {TRIES} tries")


def _same_path(one: FoundFile, other: FoundFile) -> bool:
    mine, theirs = one.place, other.place
    return (
        mine is not None
        and theirs is not None
        and ((mine.repository, mine.path) == (theirs.repository, theirs.path))
    )
