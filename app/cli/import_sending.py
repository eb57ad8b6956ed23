"""Files of an import on their way: a few at a time, again where the control plane is busy for a moment."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from app.cli.client import ApiClient, ApiError
from app.cli.import_folder import FoundFile
from app.core.base64_text import encode_base64

TRIES: Final = 5
_FIRST_WAIT_S: Final = 0.5
_AGAIN: Final = (429, 503)
# Together go so many files, or what so many bytes hold; a larger file goes alone. Both far below what the
# control plane takes, so that a part is answered in a moment and memory holds few bytes.
MOST_TOGETHER: Final = 32
MOST_BYTES_TOGETHER: Final = 512 * 1024

Done = tuple[FoundFile, int, dict[str, Any]]
"""A file, the status of its answer, and the answer."""


def sent(files: Iterator[FoundFile], *, send: Callable[[FoundFile], Done], jobs: int) -> Iterator[Done]:
    """Every file sent, at most `jobs` at a time and no more in memory; versions of one path one after the
    other, since the order they come in is their order."""
    return sent_in_parts(([file] for file in files), send=lambda part: [send(part[0])], jobs=jobs)


def sent_in_parts(
    parts: Iterator[Sequence[FoundFile]], *, send: Callable[[Sequence[FoundFile]], list[Done]], jobs: int
) -> Iterator[Done]:
    """The same for files that go together; within a part they are in their order."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        under_way: deque[tuple[set[tuple[str, str]], Future[list[Done]]]] = deque()
        for part in parts:
            places = {(file.place.repository, file.place.path) for file in part if file.place is not None}
            while len(under_way) >= jobs or any(places & others for others, _ in under_way):
                yield from under_way.popleft()[1].result()
            under_way.append((places, pool.submit(send, part)))
        while under_way:
            yield from under_way.popleft()[1].result()


def parts_of(files: Iterator[FoundFile]) -> Iterator[list[FoundFile]]:
    """Files that go together: few, and small in all. A large one is alone."""
    part: list[FoundFile] = []
    held = 0
    for file in files:
        size = file.path.stat().st_size
        if part and (len(part) == MOST_TOGETHER or held + size > MOST_BYTES_TOGETHER):
            yield part
            part, held = [], 0
        part.append(file)
        held += size
    if part:
        yield part


def send_file(
    api: ApiClient, file: FoundFile, *, to: str, parameters: Mapping[str, str], most_bytes: int
) -> Done:
    """Send one file; again where the control plane is busy or away for a moment.

    Args: to: the path it is posted to. most_bytes: of a longer file one byte more is read and sent, so that
    the control plane refuses it.

    Raises:
        ApiError: it does not answer, or does not let us.
    """
    raw = _read(file, most_bytes=most_bytes)
    status, body = _sent(api, to, params=dict(parameters), content=raw, said=str(file.path))
    return file, status, body


def send_together(
    api: ApiClient, part: Sequence[FoundFile], *, to: str, member: str, most_bytes: int
) -> list[Done]:
    """Send several files in one request, their bytes in base64; each has an answer of its own.

    Args: to: the path they are posted to. member: of the answer, the list of theirs. most_bytes: as
    `send_file`.

    Raises:
        ApiError: it does not answer, does not let us, or does not answer for each.
    """
    documents = [
        {
            "document": encode_base64(_read(file, most_bytes=most_bytes)),
            **(file.place.parameters() if file.place else {}),
        }
        for file in part
    ]
    content = json.dumps({"documents": documents}).encode()
    status, body = _sent(api, to, params={}, content=content, said=f"{part[0].path} and what follows")
    answers = body.get(member, [])
    if status != 200 or len(answers) != len(part):
        said = f"{part[0].path} and what follows: {status} {body.get('code')}: {body.get('detail')}"
        parts = "".join(f"\n  {one['pointer']}: {one['detail']}" for one in body.get("errors", []))
        raise ApiError(said + parts)
    return [
        (file, int(one["status"]), one["problem"] or one) for file, one in zip(part, answers, strict=True)
    ]


def _read(file: FoundFile, *, most_bytes: int) -> bytes:
    with file.path.open("rb") as stream:
        return stream.read(most_bytes + 1)


def _sent(
    api: ApiClient, to: str, *, params: dict[str, str], content: bytes, said: str
) -> tuple[int, dict[str, Any]]:
    wait_s = _FIRST_WAIT_S
    for attempt in range(1, TRIES + 1):
        try:
            status, headers, body = api.send("POST", to, params=params, content=content)
        except ApiError:
            if attempt == TRIES:
                raise
        else:
            if status in (401, 403):
                raise ApiError(f"{status} {body.get('code')}: {body.get('detail')}")
            if status not in _AGAIN or attempt == TRIES:
                return status, body
            wait_s = max(wait_s, float(headers.get("retry-after", 0)))
        time.sleep(wait_s)
        wait_s *= 2
    raise ApiError(f"{said}: no answer after {TRIES} tries")
