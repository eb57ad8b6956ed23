"""One placement on a CUDA device: two arenas, each on its stream, ordered after what was fenced."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from app.core.errors import CoreError
from app.core.restore.device import Arena, PlacementStats
from app.core.restore.plan import CopySpan
from app.core.restore.transaction import Transaction
from app.core.store.snapshot import LayerSpan
from workers.gpu.cuda_arenas import CudaArena, DeviceTimes
from workers.gpu.driver import Driver, PageAddresses

WORD_BYTES: Final = 4


class CudaPlacement:
    """One transaction over device memory.

    Args:
        pages: the tables of its page set, uploaded on ``stream``.
        ended: told once whether it has settled.
    """

    adopts_buffers = True

    def __init__(
        self,
        pages: PageAddresses,
        *,
        driver: Driver,
        stream: int,
        arenas: tuple[CudaArena, CudaArena],
        layers: tuple[LayerSpan, ...],
        payload_bytes: int,
        ended: Callable[[bool], None],
    ) -> None:
        self._pages = pages
        self._driver = driver
        self._stream = stream
        self._arenas = arenas
        self._transaction = Transaction(arenas, layers=layers, payload_bytes=payload_bytes)
        self._ended = ended
        self._staged_bytes = 0
        for arena in arenas:
            arena.times = DeviceTimes()

    @property
    def times(self) -> DeviceTimes:
        """Device time of its fillings once it has settled, where the device measures it."""
        first, second = (arena.times for arena in self._arenas)
        return DeviceTimes(
            copy_ns=first.copy_ns + second.copy_ns, scatter_ns=first.scatter_ns + second.scatter_ns
        )

    def acquire(self, index: int, *, adopt: memoryview | None = None) -> CudaArena:
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
        self._staged_bytes += taken.launch(used_bytes=used_bytes, spans=spans, pages=self._pages, done=done)

    def settle(self) -> PlacementStats:
        """See ``Placement.settle``."""
        self._transaction.require_open()
        self._drain()
        word = read_word(self._pages.error, driver=self._driver, stream=self._stream)
        found = self._transaction.complete(
            launches=self._transaction.submissions, staged_bytes=self._staged_bytes, error_word=word
        )
        self._end(settled=True)
        return found

    def abort(self) -> None:
        """See ``Placement.abort``. A device that is lost runs nothing any more: nothing is waited for."""
        if self._transaction.is_open:
            try:
                with suppress(CoreError):
                    self._drain()
            finally:
                with suppress(CoreError):
                    self._end(settled=False)

    def _drain(self) -> None:
        self._transaction.drain()

    def _end(self, *, settled: bool) -> None:
        self._transaction.is_open = False
        try:
            self._driver.release(self._pages.block)
        finally:
            self._ended(settled)


def read_word(address: int, *, driver: Driver, stream: int) -> int:
    """The error word of a page set's tables, once everything queued on the stream is done."""
    word = np.zeros(WORD_BYTES, dtype=np.uint8)
    driver.copy_out(address, target=word, stream=stream)
    driver.await_stream(stream)
    return int(word.view("<u4")[0])
