"""One placement over host memory: two arenas, and for each a thread on which its copies run."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from app.core.restore.buffers import map_pages
from app.core.restore.device import Arena, ArenaState, PageSet, PlacementStats
from app.core.restore.host_pool import PoolLayer
from app.core.restore.kernels import scatter
from app.core.restore.plan import CopySpan
from app.core.restore.transaction import Transaction
from app.core.store.snapshot import LayerSpan

_ERROR_SPAN_BOUNDS = 1


class HostProducer:
    """Earlier writes to pages, still queued: the host's stand-in for work on the model runner's stream."""

    def __init__(self) -> None:
        self._writes: deque[Callable[[], None]] = deque()

    def queue(self, write: Callable[[], None]) -> None:
        """Append a write that happens at the latest when somebody waits for it."""
        self._writes.append(write)

    def wait(self) -> None:
        """Run everything that is queued, in order."""
        while self._writes:
            self._writes.popleft()()


class HostArena:
    """Page-aligned, pre-faulted staging memory."""

    def __init__(self, index: int, *, arena_bytes: int) -> None:
        self.index = index
        self.state = ArenaState.FREE
        self.memory = map_pages(arena_bytes)
        self._own = self.memory
        self._in_flight: deque[Future[None]] = deque()

    def fill(self) -> None:
        """Take its own memory for filling, once no copy reads it any more."""
        self.settle()
        self.memory = self._own
        self.state = ArenaState.FILLING

    def adopt(self, memory: memoryview) -> None:
        """Take other memory, filled already; what is in flight is other memory still and needs no waiting."""
        while self._in_flight and self._in_flight[0].done():
            self._in_flight.popleft().result()
        self.memory = memory
        self.state = ArenaState.FILLING

    def launch(self, copies: "Future[None]") -> None:
        """The copies of this filling are queued behind those of the fillings before it."""
        self._in_flight.append(copies)
        self.state = ArenaState.IN_FLIGHT

    def settle(self) -> None:
        """Wait for all copies in flight, whatever became of the others; afterwards the arena is free."""
        try:
            with ExitStack() as every:
                while self._in_flight:
                    every.callback(self._in_flight.pop().result)
        finally:
            self.state = ArenaState.FREE


class HostPlacement:
    """One transaction over host memory; the copies of different arenas run at the same time."""

    adopts_buffers = True

    def __init__(
        self,
        pages: PageSet,
        *,
        destinations: tuple[PoolLayer, ...],
        layers: tuple[LayerSpan, ...],
        payload_bytes: int,
        arenas: tuple[HostArena, HostArena],
        streams: Sequence[ThreadPoolExecutor],
        ended: Callable[[bool], None],
    ) -> None:
        self._pages = pages
        self._destinations = destinations
        self._transaction = Transaction(arenas, layers=layers, payload_bytes=payload_bytes)
        self._streams = streams
        self._ended = ended
        self._launches = 0
        self._error_word = 0

    def acquire(self, index: int, *, adopt: memoryview | None = None) -> HostArena:
        """See ``Placement.acquire``."""
        return self._transaction.acquire(index, adopt=adopt)

    def place(
        self,
        arena: Arena,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        done: Callable[[], None] | None = None,
    ) -> None:
        """See ``Placement.place``."""
        taken = self._transaction.count(arena, used_bytes=used_bytes, spans=spans)
        taken.launch(
            self._streams[taken.index].submit(
                self._run, taken.memory, used_bytes=used_bytes, spans=spans, done=done
            )
        )

    def settle(self) -> PlacementStats:
        """See ``Placement.settle``."""
        self._transaction.require_open()
        self._transaction.drain()
        found = self._transaction.complete(
            launches=self._launches, staged_bytes=0, error_word=self._error_word
        )
        self._end(settled=True)
        return found

    def abort(self) -> None:
        """See ``Placement.abort``."""
        if self._transaction.is_open:
            try:
                self._transaction.drain()
            finally:
                self._end(settled=False)

    def run_copies(self, memory: memoryview, *, used_bytes: int, spans: Sequence[CopySpan]) -> None:
        """The scatter "kernel" of one submission; bounds are checked once more, the first error is kept."""
        source = np.frombuffer(memory, dtype=np.uint8)
        for span in spans:
            if span.arena_offset + span.byte_count > used_bytes:
                self._error_word = self._error_word or _ERROR_SPAN_BOUNDS
                return
            layer = self._destinations[span.destination]
            scatter(
                np,
                source=source[span.arena_offset : span.arena_offset + span.byte_count],
                pool=layer.pages,
                slots=self._pages.slots[layer.group],
                bytes_per_page=layer.bytes_per_page,
                offset=span.destination_offset,
            )
        self._launches += 1

    def _run(
        self,
        memory: memoryview,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        done: Callable[[], None] | None,
    ) -> None:
        try:
            self.run_copies(memory, used_bytes=used_bytes, spans=spans)
        finally:
            if done is not None:
                done()

    def _end(self, *, settled: bool) -> None:
        self._transaction.is_open = False
        self._ended(settled)
