"""The device over NumPy: slow, obvious, and the bit-exact oracle of the CUDA one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, TracebackType
from typing import Self

import numpy as np

from app.core.digest import Digest, RunningDigest
from app.core.errors import DeviceError
from app.core.restore.device import LayerDigest, PageSet, PageState, Producer
from app.core.restore.host_placement import HostArena, HostPlacement
from app.core.restore.host_pool import FixedPool, HostPool, PoolLayer
from app.core.restore.kernels import Bytes
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
        self._pools: dict[Digest, HostPool] = {}
        self._states: dict[int, PageState] = {}
        self._reserved_bytes = 0
        self._numbers = 0
        self._placing = False
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
        return self.pool_bytes - self._reserved_bytes

    def close(self) -> None:
        """End the copying threads; pages stay readable."""
        for stream in self._streams:
            stream.shutdown(wait=True)

    def prepare_pool(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> None:
        """Commit the pages of a later reservation now, as a serving runtime does at its start.

        Raises:
            DeviceError: the pool has no room for them.
        """
        with self._lock:
            self._pool_with_room(layout, block_counts=block_counts).prepare(block_counts)

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        """See ``Device.reserve``."""
        with self._lock:
            pool = self._pool_with_room(layout, block_counts=block_counts)
            self._numbers += 1
            pages = PageSet(
                number=self._numbers,
                device=self.name,
                layout=layout,
                block_counts=block_counts,
                slots=pool.take(block_counts),
            )
            self._states[pages.number] = PageState.PRIVATE
            self._reserved_bytes += pool.need_bytes(block_counts)
            return pages

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        """See ``Device.fence``."""
        self._require(pages, state=PageState.PRIVATE)
        producer.wait()

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> HostPlacement:
        """See ``Device.begin``."""
        with self._lock:
            self._require(pages, state=PageState.PRIVATE)
            if self._placing:
                raise DeviceError(f"device {self.name}", expected="no open placement", found="one")
            pool = self._pools[pages.layout.sha256]
            pool.check_slots(pages.slots, block_counts=pages.block_counts)
            self._placing = True
        return HostPlacement(
            pages,
            destinations=pool.layers,
            layers=layers,
            payload_bytes=payload_bytes,
            arenas=self.arenas,
            streams=self._streams,
            ended=self._end_placement,
        )

    def digest(self, pages: PageSet) -> tuple[LayerDigest, ...]:
        """See ``Device.digest``."""
        self._require_kept(pages)
        layers = self._pools[pages.layout.sha256].layers
        with ThreadPoolExecutor(max_workers=_DIGEST_THREADS) as threads:
            return tuple(threads.map(lambda layer: _digest_layer(layer, pages=pages), layers))

    def layer_pages(self, pages: PageSet, *, layer: int) -> Bytes:
        """See ``Device.layer_pages``."""
        self._require_kept(pages)
        layers = self._pools[pages.layout.sha256].layers
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
            self._require(pages, state=PageState.PRIVATE)
            self._states[pages.number] = PageState.PUBLISHED

    def discard(self, pages: PageSet) -> None:
        """See ``Device.discard``."""
        with self._lock:
            if self.state(pages) is PageState.DISCARDED:
                return
            pool = self._pools[pages.layout.sha256]
            pool.give_back(pages.slots)
            self._reserved_bytes -= pool.need_bytes(pages.block_counts)
            del self._states[pages.number]

    def state(self, pages: PageSet) -> PageState:
        """Where in its life a page set is.

        Raises:
            DeviceError: it was never reserved here.
        """
        if pages.device != self.name or pages.number > self._numbers:
            raise DeviceError(
                f"page set {pages.number} of {pages.device}",
                expected=f"pages of {self.name}",
                found="foreign ones",
            )
        return self._states.get(pages.number, PageState.DISCARDED)

    def fill(self, pages: PageSet, *, byte: int) -> None:
        """Overwrite whole pages, strides included: what a runtime does to fresh blocks."""
        self._require_kept(pages)
        for layer in self._pools[pages.layout.sha256].layers:
            layer.pages[list(pages.slots[layer.group])] = byte

    def pool_digests(self, layout: PageLayout) -> tuple[Digest, ...]:
        """The SHA-256 of each layer's whole pool, to compare placements page by page with padding."""
        return self._pools[layout.sha256].digests()

    def _pool_with_room(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> HostPool:
        pool = self._pools.get(layout.sha256)
        if pool is None:
            pool = HostPool(layout, budget_bytes=self.pool_bytes, fixed=self._fixed_pool)
        growth = pool.growth_bytes(block_counts)
        room = self.pool_bytes - sum(other.committed_bytes for other in self._pools.values())
        if growth > room:
            room += self._drop_idle_pools(keep=layout.sha256)
        if growth > room:
            raise DeviceError(
                f"pool of {self.name}",
                expected=f"room for {pool.need_bytes(block_counts)} bytes of pages",
                found=f"{self.free_bytes} of {self.pool_bytes} bytes free",
            )
        self._pools[layout.sha256] = pool
        return pool

    def _drop_idle_pools(self, *, keep: Digest) -> int:
        idle = [key for key, pool in self._pools.items() if key != keep and pool.sets == 0]
        return sum(self._pools.pop(key).committed_bytes for key in idle)

    def _require(self, pages: PageSet, *, state: PageState) -> None:
        found = self.state(pages)
        if found is not state:
            raise DeviceError(f"page set {pages.number} of {self.name}", expected=state, found=found)

    def _require_kept(self, pages: PageSet) -> None:
        if self.state(pages) is PageState.DISCARDED:
            raise DeviceError(
                f"page set {pages.number} of {self.name}",
                expected="pages not yet discarded",
                found="discarded",
            )

    def _end_placement(self) -> None:
        with self._lock:
            self._placing = False


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
