"""The device over CUDA memory. It sees the GPU through a ``Driver`` only; CuPy is behind that."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from app.core.digest import Digest
from app.core.errors import CoreError, DeviceError
from app.core.restore.device import ArenaMode, LayerDigest, PageSet, PageState, Producer
from app.core.restore.page_sets import PageSets
from app.core.restore.page_slots import FixedPool
from app.core.restore.pool_budget import PoolBudget
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import LayerSpan, PageLayout
from workers.gpu.cuda_arenas import CudaArena
from workers.gpu.cuda_placement import CudaPlacement
from workers.gpu.cuda_pool import CudaPool
from workers.gpu.cuda_readback import ReadBack
from workers.gpu.driver import Driver
from workers.gpu.host_memory import HostMemories

log = logging.getLogger(__name__)

_LANE_BYTES: Final = 8 << 20


class StreamProducer:
    """Whoever writes to pages on one stream of this process.

    Args:
        driver: of the device whose pages are written.
        stream: the stream that touched them last; of another library its handle as a number.
    """

    def __init__(self, driver: Driver, *, stream: int) -> None:
        self._driver = driver
        self._stream = stream
        self._event = driver.create_event()

    def record(self) -> int:
        """An event that stands for everything queued on the stream up to now."""
        self._driver.record(self._event, stream=self._stream)
        return self._event

    def wait(self) -> None:
        """See ``Producer.wait``."""
        self._driver.await_event(self.record())

    def close(self) -> None:
        """Give its event back."""
        self._driver.destroy(events=(self._event,))


class CudaDevice:
    """A ``Device`` in the memory of one GPU.

    Args:
        name: its name on the node.
        driver: of this GPU.
        pool_bytes: the most bytes of pages it may hold, over all layouts.
        arena_bytes: size of each arena.
        fixed_pool: shape and slots of its pool, to reproduce a given placement.
        mode: how fillings reach the device; by default copied, but mapped where host and device share memory.
        timed: measure the fillings of every placement with events.

    Raises:
        DeviceError, ResourceError: there is no memory for the arenas.
    """

    kind = "cuda"

    def __init__(
        self,
        name: str,
        *,
        driver: Driver,
        pool_bytes: int,
        arena_bytes: int = MAX_OBJECT_BYTES,
        fixed_pool: FixedPool | None = None,
        mode: ArenaMode | None = None,
        timed: bool = False,
    ) -> None:
        self.name = name
        self.pool_bytes = pool_bytes
        self.arena_bytes = arena_bytes
        self.driver = driver
        self._fixed_pool = fixed_pool
        self._memories = HostMemories(driver)
        self._work = driver.create_stream()
        self._worked = driver.create_event()
        self._producer = StreamProducer(driver, stream=self._work)
        first, second = (
            CudaArena(index, driver=driver, memories=self._memories, arena_bytes=arena_bytes, timed=timed)
            for index in (0, 1)
        )
        self.arenas = (first, second)
        self.arena_mode = self._choose_mode(mode)
        if self.arena_mode is ArenaMode.STAGED:
            for arena in self.arenas:
                arena.stage()
        lane_bytes = min(_LANE_BYTES, -(-arena_bytes // 16) * 16)
        self._read_back = ReadBack(driver, memories=self._memories, chunk_bytes=lane_bytes)
        self._budget: PoolBudget[CudaPool] = PoolBudget(name, pool_bytes=pool_bytes)
        self._sets = PageSets(name)
        self._placement: tuple[int, CudaPlacement] | None = None
        self._lock = threading.RLock()
        log.info("device %s: %s", name, self.notes[0])
        for note in self.notes[1:]:
            log.warning("device %s: %s", name, note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def xp(self) -> ModuleType:
        """See ``Device.xp``."""
        return self.driver.xp

    @property
    def free_bytes(self) -> int:
        """See ``Device.free_bytes``."""
        return self._budget.free_bytes

    @property
    def notes(self) -> tuple[str, ...]:
        """How its host memory is kept, and what was not to be had, in words."""
        kinds = ", ".join(self._memories.kinds)
        return (
            f"{self.arena_mode} arenas of {kinds} memory on {self.driver.facts.model}",
            *self._memories.notes,
        )

    def close(self) -> None:
        """Give everything back to the GPU, as far as it still answers; pages are gone."""
        with self._lock:
            if self._placement is not None:
                self._placement[1].abort()
            steps: list[Callable[[], None]] = [
                lambda: self.driver.await_stream(self._work),
                self._read_back.close,
                *(arena.close for arena in self.arenas),
                *(pool.close for pool in self._budget.pools.values()),
                self._producer.close,
                lambda: self.driver.destroy(streams=(self._work,), events=(self._worked,)),
                self._memories.close,
                self.driver.close,
            ]
            for step in steps:
                with suppress(CoreError):
                    step()
            self._budget.pools.clear()

    def host_memory(self, byte_count: int) -> memoryview:
        """See ``Device.host_memory``."""
        return self._memories.take(byte_count).memory

    def producer(self) -> StreamProducer:
        """See ``Device.producer``."""
        return self._producer

    def prepare_pool(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> None:
        """See ``Device.prepare_pool``."""
        with self._lock:
            self._pool_with_room(layout, block_counts=block_counts).prepare(block_counts)
            self.driver.await_stream(self._work)

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        """See ``Device.reserve``."""
        with self._lock:
            pool = self._pool_with_room(layout, block_counts=block_counts)
            slots = pool.take(block_counts, owner=self._sets.next_number)
            self._budget.reserve(pool, block_counts=block_counts)
            return self._sets.add(layout, block_counts=block_counts, slots=slots)

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        """See ``Device.fence``: a stream is waited for on the device, anybody else on the host."""
        self._sets.require_private(pages)
        if not isinstance(producer, StreamProducer):
            producer.wait()
            return
        try:
            event = producer.record()
            for stream in (self._work, *(arena.stream for arena in self.arenas)):
                self.driver.order(stream, after=event)
        except DeviceError as error:
            raise DeviceError(
                f"fence of page set {pages.number}",
                expected="an order after earlier work on these pages; without one they are recomputed",
                found=str(error),
            ) from error

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> CudaPlacement:
        """See ``Device.begin``."""
        with self._lock:
            self._sets.require_private(pages)
            pool = self._budget.pools[pages.layout.sha256]
            pool.check_slots(pages.slots, block_counts=pages.block_counts)
            self._sets.begin(pages)
            try:
                placement = self._begin(pages, pool=pool, layers=layers, payload_bytes=payload_bytes)
            except CoreError:
                self._sets.end(pages, settled=False)
                raise
            self._placement = (pages.number, placement)
            return placement

    def digest(self, pages: PageSet) -> tuple[LayerDigest, ...]:
        """See ``Device.digest``."""
        with self._lock:
            pool = self._kept_pool(pages)
            addresses = pool.upload_tables(pages)
            try:
                return self._read_back.digest_layers(
                    pool.layers,
                    pages=addresses,
                    page_counts=[len(pages.slots[layer.group]) for layer in pool.layers],
                    after=self._work_done(),
                )
            finally:
                self.driver.release(addresses.block)

    def layer_pages(self, pages: PageSet, *, layer: int) -> Any:
        """See ``Device.layer_pages``."""
        with self._lock:
            pool = self._kept_pool(pages)
            if not 0 <= layer < len(pool.layers):
                raise DeviceError(
                    f"page set {pages.number}", expected=f"one of {len(pool.layers)} layers", found=str(layer)
                )
            addresses = pool.upload_tables(pages)
            try:
                return self._read_back.gather_layer(
                    pool.layers[layer],
                    number=layer,
                    pages=addresses,
                    count=len(pages.slots[pool.layers[layer].group]),
                    after=self._work_done(),
                )
            finally:
                self.driver.release(addresses.block)

    def publish(self, pages: PageSet) -> None:
        """See ``Device.publish``."""
        with self._lock:
            self._sets.publish(pages)

    def discard(self, pages: PageSet) -> None:
        """See ``Device.discard``. What is still placed into the pages is waited for.

        On a device that is lost the pages are gone: only the books are kept.
        """
        with self._lock:
            self._sets.state(pages)
            if self._placement is not None and self._placement[0] == pages.number:
                self._placement[1].abort()
            if self._sets.discard(pages):
                pool = self._budget.pools[pages.layout.sha256]
                self._budget.give_back(pool, block_counts=pages.block_counts)
                try:
                    pool.give_back(pages.slots)
                except DeviceError as error:
                    log.warning("device %s: page set %d: %s", self.name, pages.number, error)

    def state(self, pages: PageSet) -> PageState:
        """Where in its life a page set is.

        Raises:
            DeviceError: it was never reserved here.
        """
        return self._sets.state(pages)

    def fill(self, pages: PageSet, *, byte: int, stream: int | None = None) -> None:
        """Queue an overwrite of whole pages, strides included: what a runtime does to fresh blocks."""
        with self._lock:
            self._kept_pool(pages).fill(pages, byte=byte, stream=self._work if stream is None else stream)

    def pool_digests(self, layout: PageLayout) -> tuple[Digest, ...]:
        """The SHA-256 of each layer's whole pool, to compare placements page by page with padding."""
        with self._lock:
            layers = self._budget.pools[layout.sha256].layers
            return self._read_back.digest_pools(layers, after=self._work_done())

    def _choose_mode(self, wanted: ArenaMode | None) -> ArenaMode:
        facts = self.driver.facts
        shared = facts.integrated and facts.maps_host_memory
        mode = wanted or (ArenaMode.MAPPED if shared else ArenaMode.STAGED)
        if mode is ArenaMode.MAPPED and not all(arena.is_mappable for arena in self.arenas):
            self._memories.notes.append("mapped: kernels cannot read the arenas where they lie, so staged")
            return ArenaMode.STAGED
        return mode

    def _begin(
        self, pages: PageSet, *, pool: CudaPool, layers: tuple[LayerSpan, ...], payload_bytes: int
    ) -> CudaPlacement:
        """Slots and destinations are uploaded once; both arenas are ordered after that and after fills."""
        addresses = pool.upload_tables(pages)
        ready = self._work_done()
        for arena in self.arenas:
            self.driver.order(arena.stream, after=ready)
        return CudaPlacement(
            addresses,
            driver=self.driver,
            stream=self._work,
            arenas=self.arenas,
            layers=layers,
            payload_bytes=payload_bytes,
            ended=lambda settled: self._end_placement(pages, settled=settled),
        )

    def _work_done(self) -> int:
        """An event for what pools have queued: fills, owners, tables."""
        self.driver.record(self._worked, stream=self._work)
        return self._worked

    def _kept_pool(self, pages: PageSet) -> CudaPool:
        self._sets.require_kept(pages)
        return self._budget.pools[pages.layout.sha256]

    def _pool_with_room(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> CudaPool:
        pool = self._budget.pool_for(
            layout,
            block_counts=block_counts,
            make=lambda: CudaPool(self.driver, layout, stream=self._work, fixed=self._fixed_pool),
            drop=self._drop_pool,
        )
        if pool.slots.sets and self._placement is not None and pool.needs_memory(block_counts):
            raise DeviceError(
                f"pool of {self.name}", expected="no open placement while it grows", found="one"
            )
        return pool

    def _drop_pool(self, pool: CudaPool) -> None:
        self.driver.await_stream(self._work)
        pool.close()

    def _end_placement(self, pages: PageSet, *, settled: bool) -> None:
        with self._lock:
            self._placement = None
            self._sets.end(pages, settled=settled)
