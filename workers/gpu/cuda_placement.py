"""One placement on a CUDA device: two arenas, each on its stream, ordered after what was fenced."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import numpy as np

from app.core.errors import CoreError, DeviceError
from app.core.restore.coverage import Coverage
from app.core.restore.device import Arena, ArenaState, PlacementStats
from app.core.restore.plan import MAX_SUBMISSION_SPANS, CopySpan
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
        self._coverage = Coverage(layers, payload_bytes=payload_bytes)
        self._ended = ended
        self._open = True
        self._source_bytes = 0
        self._staged_bytes = 0
        self._submissions = 0
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
        self._require_open()
        arena = self._arenas[index]
        if arena.state is ArenaState.FILLING:
            raise DeviceError(f"arena {index}", expected="free or in flight", found=arena.state)
        if adopt is None:
            arena.fill()
        else:
            arena.adopt(adopt)
        return arena

    def place(
        self,
        arena: Arena,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        done: Callable[[], None] | None = None,
    ) -> None:
        """See ``Placement.place``."""
        self._require_open()
        taken = self._arenas[arena.index]
        if taken.state is not ArenaState.FILLING or used_bytes > len(taken.memory):
            raise DeviceError(
                f"arena {arena.index}",
                expected=f"filling, with at most {len(taken.memory)} bytes",
                found=f"{taken.state}, with {used_bytes} bytes",
            )
        if len(spans) > MAX_SUBMISSION_SPANS:
            raise DeviceError(
                "copy spans", expected=f"at most {MAX_SUBMISSION_SPANS}", found=f"{len(spans)} of them"
            )
        for span in spans:
            self._coverage.add(span, used_bytes=used_bytes)
        self._submissions += 1
        self._source_bytes += used_bytes
        self._staged_bytes += taken.launch(used_bytes=used_bytes, spans=spans, pages=self._pages, done=done)

    def settle(self) -> PlacementStats:
        """See ``Placement.settle``."""
        self._require_open()
        self._drain()
        word = read_word(self._pages.error, driver=self._driver, stream=self._stream)
        self._coverage.require_complete(error_word=word)
        self._end(settled=True)
        return PlacementStats(
            source_bytes=self._source_bytes,
            slabs_submitted=self._submissions,
            scatter_kernel_launches=self._submissions,
            slot_uploads=1,
            destination_table_uploads=1,
            staged_host_to_device_bytes=self._staged_bytes,
            device_error=word,
        )

    def abort(self) -> None:
        """See ``Placement.abort``. A device that is lost runs nothing any more: nothing is waited for."""
        if self._open:
            try:
                with suppress(CoreError):
                    self._drain()
            finally:
                with suppress(CoreError):
                    self._end(settled=False)

    def _drain(self) -> None:
        """Whatever became of the copies into one arena, those into the other are waited for too."""
        with ExitStack() as both:
            for arena in self._arenas:
                both.callback(arena.settle)

    def _end(self, *, settled: bool) -> None:
        self._open = False
        try:
            self._driver.release(self._pages.block)
        finally:
            self._ended(settled)

    def _require_open(self) -> None:
        if not self._open:
            raise DeviceError("placement", expected="an open transaction", found="one that is over")


def read_word(address: int, *, driver: Driver, stream: int) -> int:
    """The error word of a page set's tables, once everything queued on the stream is done."""
    word = np.zeros(WORD_BYTES, dtype=np.uint8)
    driver.copy_out(address, target=word, stream=stream)
    driver.await_stream(stream)
    return int(word.view("<u4")[0])
