"""Reading pages back: digests of what really lies there, and layers as arrays on the device."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from app.core.digest import Digest, RunningDigest
from app.core.errors import DeviceError
from app.core.restore.device import LayerDigest
from app.core.restore.plan import CopySpan
from workers.gpu.cuda_kernels import GATHER, SPAN_RECORD_BYTES, count_tiles, encode_table, table_bytes
from workers.gpu.cuda_placement import read_word
from workers.gpu.cuda_pool import CudaLayer
from workers.gpu.driver import Driver, Launch, PageAddresses
from workers.gpu.host_memory import HostMemories, as_bytes

_LANES: Final = 4
_CHUNK_BYTES: Final = 8 << 20
_TABLE_BYTES: Final = 256


class _Lane:
    """A stream with memory on both sides, so that one layer is gathered while another one is hashed."""

    def __init__(self, driver: Driver, *, memories: HostMemories, chunk_bytes: int) -> None:
        self.stream = driver.create_stream()
        self.chunk_bytes = chunk_bytes
        self.host = as_bytes(memories.take(chunk_bytes).memory)
        self.device = driver.allocate(chunk_bytes + _TABLE_BYTES)
        self.table = self.device + chunk_bytes

    def close(self, driver: Driver) -> None:
        driver.destroy(streams=(self.stream,))
        driver.release(self.device)


class ReadBack:
    """Lanes that carry pages back to the host.

    Args:
        driver: of the device.
        memories: where their host memory comes from.
        chunk_bytes: what one lane carries at a time, a multiple of 16.
    """

    def __init__(self, driver: Driver, *, memories: HostMemories, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._driver = driver
        self._memories = memories
        self._chunk_bytes = chunk_bytes
        self._lanes: SimpleQueue[_Lane] = SimpleQueue()
        self._all: list[_Lane] = []
        self._opening = threading.Lock()

    def digest_layers(
        self, layers: tuple[CudaLayer, ...], *, pages: PageAddresses, page_counts: list[int], after: int
    ) -> tuple[LayerDigest, ...]:
        """The digests of all layers, in stream order, as the pages hold them after an event.

        Raises:
            DeviceError: a page is not one of this page set's.
        """

        def digest(lane: _Lane, number: int) -> LayerDigest:
            layer, count = layers[number], page_counts[number]
            running = RunningDigest()
            for offset in range(0, count * layer.page_bytes, lane.chunk_bytes):
                size = min(lane.chunk_bytes, count * layer.page_bytes - offset)
                span = CopySpan(
                    arena_offset=0,
                    snapshot_offset=0,
                    destination_offset=offset,
                    byte_count=size,
                    destination=number,
                )
                gather(span, driver=self._driver, lane=lane, linear=lane.device, pages=pages)
                running.update(self._carry(lane, address=lane.device, byte_count=size))
            return LayerDigest(
                name=layer.name, pages=count, bytes=count * layer.page_bytes, sha256=running.digest()
            )

        found = self._spread(digest, count=len(layers), after=after)
        self._require_clean(pages)
        return found

    def digest_pools(self, layers: tuple[CudaLayer, ...], *, after: int) -> tuple[Digest, ...]:
        """The digests of whole allocations, padding and unused pages included."""

        def digest(lane: _Lane, number: int) -> Digest:
            layer = layers[number]
            running = RunningDigest()
            whole = layer.pages * layer.stride
            for offset in range(0, whole, lane.chunk_bytes):
                size = min(lane.chunk_bytes, whole - offset)
                running.update(self._carry(lane, address=layer.base + offset, byte_count=size))
            return running.digest()

        return self._spread(digest, count=len(layers), after=after)

    def gather_layer(
        self, layer: CudaLayer, *, number: int, pages: PageAddresses, count: int, after: int
    ) -> Any:
        """One layer as an array of the driver's module, shape ``(count, page_bytes)``.

        Raises:
            DeviceError: a page is not one of this page set's.
        """
        array, address = self._driver.new_array((count, layer.page_bytes))
        size = count * layer.page_bytes
        span = CopySpan(
            arena_offset=0, snapshot_offset=0, destination_offset=0, byte_count=size, destination=number
        )

        def run(lane: _Lane, _: int) -> None:
            if size:
                gather(span, driver=self._driver, lane=lane, linear=address, pages=pages)
                self._driver.await_stream(lane.stream)

        self._spread(run, count=1, after=after)
        self._require_clean(pages)
        return array

    def close(self) -> None:
        """Give back what the lanes hold of the device."""
        while self._all:
            self._all.pop().close(self._driver)

    def _spread(self, work: Callable[[_Lane, int], Any], *, count: int, after: int) -> tuple[Any, ...]:
        """Items over lanes; every lane is ordered after the event first."""
        self._open_lanes()
        for lane in self._all:
            self._driver.order(lane.stream, after=after)

        def run(number: int) -> Any:
            lane = self._lanes.get()
            try:
                return work(lane, number)
            finally:
                self._lanes.put(lane)

        with ThreadPoolExecutor(max_workers=_LANES) as threads:
            return tuple(threads.map(run, range(count)))

    def _open_lanes(self) -> None:
        """Once something is read back for the first time."""
        with self._opening:
            while len(self._all) < _LANES:
                lane = _Lane(self._driver, memories=self._memories, chunk_bytes=self._chunk_bytes)
                self._all.append(lane)
                self._lanes.put(lane)

    def _carry(self, lane: _Lane, *, address: int, byte_count: int) -> memoryview:
        target = lane.host[:byte_count]
        self._driver.copy_out(address, target=target, stream=lane.stream)
        self._driver.await_stream(lane.stream)
        return target.data

    def _require_clean(self, pages: PageAddresses) -> None:
        if self._all:
            word = read_word(pages.error, driver=self._driver, stream=self._all[0].stream)
            if word:
                raise DeviceError("read-back", expected="error word 0", found=f"error word {word}")


def gather(span: CopySpan, *, driver: Driver, lane: _Lane, linear: int, pages: PageAddresses) -> None:
    """Queue one span from its pages into device memory."""
    table: np.ndarray[Any, np.dtype[np.uint8]] = encode_table([span])
    driver.copy_in(lane.table, source=table[: table_bytes(1)], stream=lane.stream)
    driver.launch(
        Launch(
            kernel=GATHER,
            blocks=max(1, count_tiles(table)),
            linear=linear,
            used_bytes=span.byte_count,
            spans=lane.table,
            first_tiles=lane.table + SPAN_RECORD_BYTES,
            span_count=1,
            pages=pages,
        ),
        stream=lane.stream,
    )
