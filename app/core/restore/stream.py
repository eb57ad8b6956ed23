"""The digest over the whole stream, on its own thread, in manifest order (restore-contract §3.9, §7.4)."""

import threading
from queue import SimpleQueue
from typing import Protocol

from app.core.digest import Digest, RunningDigest
from app.core.restore.reader import Load


class StreamCheck(Protocol):
    """What the executor asks of whoever vouches for the order of the stream's objects."""

    def follow(self, load: Load) -> None:
        """Announce the next load of the stream; one hold on its buffer becomes the check's."""

    def finish(self) -> Digest | None:
        """The digest over everything announced, or ``None`` where it was established before."""

    def abandon(self) -> None:
        """Stop; every announced load is filled by now."""


class PinnedStream:
    """The root document was pinned by a complete check: authentic objects in its order are the stream.

    Every object is still authenticated. What a second digest over all of them could add was established
    once, for this very document (restore-contract §14).
    """

    def follow(self, load: Load) -> None:
        """Nothing will be computed: let go of the buffer at once."""
        load.buffer.let_go()

    def finish(self) -> None:
        """See ``StreamCheck.finish``."""

    def abandon(self) -> None:
        """Nothing runs."""


class StreamDigest:
    """Follows loads in the order they are announced and lets go of each buffer when its bytes are in.

    It runs ahead of authentication: bytes that turn out not to be authentic end the restore before anybody
    asks for the digest.
    """

    def __init__(self) -> None:
        self._running = RunningDigest()
        self._loads: SimpleQueue[Load | None] = SimpleQueue()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._follow_all, name="stream-digest")
        self._thread.start()

    def follow(self, load: Load) -> None:
        """Announce the next load of the stream."""
        self._loads.put(load)

    def finish(self) -> Digest:
        """Wait for everything announced and return the digest."""
        self._end()
        return self._running.digest()

    def abandon(self) -> None:
        """Stop as soon as the current buffer is done; every announced load must be filled by now."""
        self._abandoned.set()
        self._end()

    def _end(self) -> None:
        self._loads.put(None)
        self._thread.join()

    def _follow_all(self) -> None:
        while (load := self._loads.get()) is not None:
            load.filled.wait()
            if self._abandoned.is_set():
                return
            self._running.update(load.buffer.memory)
            load.buffer.let_go()
