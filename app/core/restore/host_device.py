"""The device over NumPy: slow, obvious, and the bit-exact oracle of the CUDA one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, TracebackType
from typing import Self

import numpy as np

from app.core.digest import Digest, RunningDigest
from app.core.errors import DeviceError
from app.core.restore.buffers import map_pages
from app.core.restore.device import ArenaMode, LayerDigest, PageSet, PageState, Producer
from app.core.restore.host_placement import HostArena, HostPlacement, HostProducer
from app.core.restore.host_pool import HostPool, PoolLayer
from app.core.restore.kernels import Bytes
from app.core.restore.page_sets import PageSets
from app.core.restore.page_slots import FixedPool
from app.core.restore.pool_budget import PoolBudget
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import LayerSpan, PageLayout

# Layers read back at once.
_DIGEST_THREADS = 4


class HostDevice:
    """A ``Device`` in host memory.

    Args:
        name: its name on the node.
        pool_bytes: the most bytes of pages it may hold, over all layouts.
        arena_bytes: size of each arena.
        fixed_pool: shape and slots of its pool, to reproduce a given placement.

    Raises:
        ResourceError: there is no memory for the arenas.
    """

    kind = "host"
    xp: ModuleType = np
    arena_mode = ArenaMode.MAPPED

    def __init__(
        self,
        name: str,
        *,
        pool_bytes: int,
        arena_bytes: int = MAX_OBJECT_BYTES,
        fixed_pool: FixedPool | None = None,
    ) -> None:
        self.name = name
        self.pool_bytes = pool_bytes
        self.arena_bytes = arena_bytes
        self.arenas = (HostArena(0, arena_bytes=arena_bytes), HostArena(1, arena_bytes=arena_bytes))
        self._fixed_pool = fixed_pool
        self._budget: PoolBudget[HostPool] = PoolBudget(name, pool_bytes=pool_bytes)
        self._sets = PageSets(name)
        self._lock = threading.RLock()
        # One for each arena, as each arena of a GPU has a stream of its own (restore-contract §4.1).
        self._streams = tuple(
            ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{name}-copies-{arena.index}")
            for arena in self.arenas
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def free_bytes(self) -> int:
        """See ``Device.free_bytes``."""
        return self._budget.free_bytes

    def close(self) -> None:
        """End the copying threads; pages stay readable."""
        for stream in self._streams:
            stream.shutdown(wait=True)

    def host_memory(self, byte_count: int) -> memoryview:
        """See ``Device.host_memory``."""
        return map_pages(byte_count)

    def producer(self) -> HostProducer:
        """See ``Device.producer``: nothing is ever queued here."""
        return HostProducer()

    def prepare_pool(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> None:
        """See ``Device.prepare_pool``."""
        with self._lock:
            self._pool_with_room(layout, block_counts=block_counts).prepare(block_counts)

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        """See ``Device.reserve``."""
        with self._lock:
            pool = self._pool_with_room(layout, block_counts=block_counts)
            slots = pool.take(block_counts)
            self._budget.reserve(pool, block_counts=block_counts)
            return self._sets.add(layout, block_counts=block_counts, slots=slots)

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        """See ``Device.fence``."""
        self._sets.require_private(pages)
        producer.wait()

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> HostPlacement:
        """See ``Device.begin``."""
        with self._lock:
            self._sets.require_private(pages)
            pool = self._budget.pools[pages.layout.sha256]
            pool.check_slots(pages.slots, block_counts=pages.block_counts)
            self._sets.begin(pages)
        return HostPlacement(
            pages,
            destinations=pool.layers,
            layers=layers,
            payload_bytes=payload_bytes,
            arenas=self.arenas,
            streams=self._streams,
            ended=lambda settled: self._end_placement(pages, settled=settled),
        )

    def digest(self, pages: PageSet) -> tuple[LayerDigest, ...]:
        """See ``Device.digest``."""
        self._sets.require_kept(pages)
        layers = self._budget.pools[pages.layout.sha256].layers
        with ThreadPoolExecutor(max_workers=_DIGEST_THREADS) as threads:
            return tuple(threads.map(lambda layer: _digest_layer(layer, pages=pages), layers))

    def layer_pages(self, pages: PageSet, *, layer: int) -> Bytes:
        """See ``Device.layer_pages``."""
        self._sets.require_kept(pages)
        layers = self._budget.pools[pages.layout.sha256].layers
        if not 0 <= layer < len(layers):
            raise DeviceError(
                f"page set {pages.number}", expected=f"one of {len(layers)} layers", found=str(layer)
            )
        found = layers[layer]
        gathered: Bytes = found.pages[list(pages.slots[found.group]), : found.bytes_per_page]
        return np.ascontiguousarray(gathered)

    def publish(self, pages: PageSet) -> None:
        """See ``Device.publish``."""
        with self._lock:
            self._sets.publish(pages)

    def discard(self, pages: PageSet) -> None:
        """See ``Device.discard``."""
        with self._lock:
            if self._sets.discard(pages):
                pool = self._budget.pools[pages.layout.sha256]
                pool.slots.give_back(pages.slots)
                self._budget.give_back(pool, block_counts=pages.block_counts)

    def state(self, pages: PageSet) -> PageState:
        """Where in its life a page set is.

        Raises:
            DeviceError: it was never reserved here.
        """
        return self._sets.state(pages)

    def fill(self, pages: PageSet, *, byte: int) -> None:
        """Overwrite whole pages, strides included: what a runtime does to fresh blocks."""
        self._sets.require_kept(pages)
        for layer in self._budget.pools[pages.layout.sha256].layers:
            layer.pages[list(pages.slots[layer.group])] = byte

    def pool_digests(self, layout: PageLayout) -> tuple[Digest, ...]:
        """The SHA-256 of each layer's whole pool, to compare placements page by page with padding."""
        return self._budget.pools[layout.sha256].digests()

    def _pool_with_room(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> HostPool:
        return self._budget.pool_for(
            layout,
            block_counts=block_counts,
            make=lambda: HostPool(layout, budget_bytes=self.pool_bytes, fixed=self._fixed_pool),
            drop=_let_go,
        )

    def _end_placement(self, pages: PageSet, *, settled: bool) -> None:
        with self._lock:
            self._sets.end(pages, settled=settled)


def _let_go(pool: HostPool) -> None:
    """Its memory goes when nobody holds the pool any more."""


def _digest_layer(layer: PoolLayer, *, pages: PageSet) -> LayerDigest:
    slots = pages.slots[layer.group]
    running = RunningDigest()
    for slot in slots:
        running.update(layer.pages[slot, : layer.bytes_per_page].data)
    return LayerDigest(
        name=layer.name,
        pages=len(slots),
        bytes=len(slots) * layer.bytes_per_page,
        sha256=running.digest(),
    )
