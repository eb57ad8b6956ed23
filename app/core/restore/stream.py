"""The digests over whole streams, on their own thread, beside the reading (restore-contract §3.9, §8, §9).

A flat snapshot has one stream, whose order is that of its objects. A delta has one per stage, each with a
digest per layer's tail, and the result, which exists only where it is put together: in the arenas.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from app.core.digest import RunningDigest
from app.core.errors import IntegrityError, Stage
from app.core.restore.plan import CheckedStream, RangeDigest
from app.core.restore.reader import Load


class StreamCheck(Protocol):
    """What the executor asks of whoever vouches for the order of the streams' bytes."""

    def expect(self, streams: Sequence[CheckedStream]) -> None:
        """Announce the streams beyond those announced before."""

    def follow(self, load: Load, *, stream: int) -> None:
        """Announce the next content of a stream; one hold on its buffer becomes the check's."""

    def follow_filling(self, memory: memoryview, *, stream: int, done: Callable[[], None]) -> None:
        """Announce the next content of a stream, which lies in ``memory`` until ``done`` is called."""

    def finish(self) -> bool:
        """Whether digests were computed; all of them agree.

        Raises:
            IntegrityError: stage ``stream``: one does not.
        """

    def abandon(self) -> None:
        """Stop; every announced load is readable by now, or never will be."""


class PinnedStream:
    """The root document was pinned by a complete check: authentic objects in its order are its streams.

    Every object is still authenticated. What further digests over all of them could add was established
    once, for this very document (restore-contract §14).
    """

    def expect(self, streams: Sequence[CheckedStream]) -> None:
        """Nothing will be computed."""

    def follow(self, load: Load, *, stream: int) -> None:  # noqa: ARG002
        """Let go of the buffer at once."""
        load.buffer.let_go()

    def follow_filling(
        self,
        memory: memoryview,  # noqa: ARG002
        *,
        stream: int,  # noqa: ARG002
        done: Callable[[], None],
    ) -> None:
        """Let go of the filling at once."""
        done()

    def finish(self) -> bool:
        """See ``StreamCheck.finish``."""
        return False

    def abandon(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The next bytes of a stream: a load's first part, or a filling."""

    stream: int
    load: Load | None
    memory: memoryview
    done: Callable[[], None]

    def wait(self) -> memoryview | None:
        """The bytes once they are there; ``None`` if they will never be."""
        if self.load is None:
            return self.memory
        self.load.readable.wait()
        return self.load.parts[0] if self.load.parts else None


class StreamDigest:
    """Takes the streams' bytes in the order they are announced and lets go of each buffer as it goes.

    Of extents it runs ahead of authentication: bytes that turn out not to be authentic end the restore before
    anybody asks for the digest.
    """

    def __init__(self) -> None:
        self._streams: list[_RunningStream] = []
        self._parts: SimpleQueue[_Part | None] = SimpleQueue()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._follow_all, name="stream-digest")
        self._runs = False

    def expect(self, streams: Sequence[CheckedStream]) -> None:
        """See ``StreamCheck.expect``."""
        self._streams += [_RunningStream(stream) for stream in streams[len(self._streams) :]]
        if self._streams and not self._runs:
            self._runs = True
            self._thread.start()

    def follow(self, load: Load, *, stream: int) -> None:
        """See ``StreamCheck.follow``."""
        part = _Part(stream=stream, load=load, memory=load.buffer.memory, done=load.buffer.let_go)
        self._parts.put(part)

    def follow_filling(self, memory: memoryview, *, stream: int, done: Callable[[], None]) -> None:
        """See ``StreamCheck.follow_filling``."""
        self._parts.put(_Part(stream=stream, load=None, memory=memory, done=done))

    def finish(self) -> bool:
        """See ``StreamCheck.finish``."""
        self._end()
        for stream in self._streams:
            stream.verify()
        return bool(self._streams)

    def abandon(self) -> None:
        """See ``StreamCheck.abandon``."""
        self._abandoned.set()
        self._end()

    def _end(self) -> None:
        if self._runs:
            self._parts.put(None)
            self._thread.join()

    def _follow_all(self) -> None:
        while (part := self._parts.get()) is not None:
            memory = part.wait()
            # A load that failed ends the restore elsewhere; until then nobody may wait here in vain.
            if memory is not None and not self._abandoned.is_set():
                self._streams[part.stream].update(memory)
            part.done()


class _RunningStream:
    """All stated digests of one stream, over bytes that come in its order."""

    def __init__(self, stream: CheckedStream) -> None:
        self._stream = stream
        self._at = 0
        self._whole = RunningDigest()
        self._tails = [RunningDigest() for _ in stream.tails]
        self._current = 0
        self.update(memoryview(stream.prefix))

    def update(self, memory: memoryview) -> None:
        """The next bytes."""
        if self._stream.whole is not None:
            self._whole.update(memory)
        start, self._at = self._at, self._at + len(memory)
        tails = self._stream.tails
        for index in range(self._current, len(tails)):
            tail = tails[index]
            if tail.start >= self._at:
                break
            block = memory[max(0, tail.start - start) : max(0, tail.end - start)]
            self._tails[index].update(block)
            self._current = index

    def verify(self) -> None:
        """Compare every stated digest.

        Raises:
            IntegrityError: stage ``stream``.
        """
        for tail, running in zip(self._stream.tails, self._tails, strict=True):
            _require(tail, found=running)
        whole = self._stream.whole
        if whole is not None:
            _require(whole, found=self._whole)


def _require(stated: RangeDigest, *, found: RunningDigest) -> None:
    digest = found.digest()
    if digest != stated.sha256:
        raise IntegrityError(stated.subject, expected=stated.sha256, found=digest, stage=Stage.STREAM)
