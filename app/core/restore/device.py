"""What a restore needs of a device: private pages, two arenas, a fence, placement and a read-back.

``HostDevice`` and the CUDA device implement the same protocols and pass the same contract test. Placement is
a transaction of its own (restore-contract §3 items 6 – 10): it ends settled or aborted and never resumes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import ModuleType
from typing import Any, Protocol

from app.core.digest import Digest
from app.core.restore.plan import CopySpan
from app.core.store.snapshot import LayerSpan, PageLayout


class PageState(StrEnum):
    """Life of reserved pages: nobody but the restore may see them until they are published."""

    PRIVATE = "private"
    PUBLISHED = "published"
    DISCARDED = "discarded"


class ArenaState(StrEnum):
    """Life of an arena (restore-contract §4.1); bytes must not change while it is in flight."""

    FREE = "free"
    FILLING = "filling"
    IN_FLIGHT = "in_flight"


class ArenaMode(StrEnum):
    """How the device comes by an arena's bytes (restore-contract §4.3)."""

    MAPPED = "mapped"
    STAGED = "staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSet:
    """Pages of a device's pool that belong to one restore.

    Attributes:
        number: unique within its device.
        slots: for each group, one page slot per block; unique within a group, never 0.
    """

    number: int
    device: str
    layout: PageLayout
    block_counts: tuple[int, ...]
    slots: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStats:
    """What a placement counted (restore-contract §5); byte values in bytes."""

    source_bytes: int
    slabs_submitted: int
    scatter_kernel_launches: int
    slot_uploads: int
    destination_table_uploads: int
    staged_host_to_device_bytes: int
    device_error: int

    def to_document(self) -> dict[str, int]:
        """The counters by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDigest:
    """One layer as it really lies in the pool: ``pages`` pages, ``bytes`` bytes in stream order."""

    name: str
    pages: int
    bytes: int
    sha256: Digest


class Producer(Protocol):
    """Whoever may still be writing to the device's pages: a stream on CUDA, a queue of writes on the host."""

    def wait(self) -> None:
        """Return when everything queued before this call is done.

        Raises:
            DeviceError: the order cannot be established; then the prefix must be recomputed.
        """


class Arena(Protocol):
    """One of exactly two host-visible staging areas of equal size."""

    @property
    def index(self) -> int:
        """0 or 1."""

    @property
    def state(self) -> ArenaState:
        """Where in its life it is."""

    @property
    def memory(self) -> memoryview:
        """All its bytes, writable while it is filling."""


class Placement(Protocol):
    """One transaction that fills one page set."""

    @property
    def adopts_buffers(self) -> bool:
        """Whether the device copies from any host memory as well as from its own arenas."""

    def acquire(self, index: int, *, adopt: memoryview | None = None) -> Arena:
        """Take arena ``index`` for filling; its own memory once it is free, which is waited for.

        Args:
            index: 0 or 1.
            adopt: bytes that stand in for the arena's memory until the next time, already in place; only
                where ``adopts_buffers``. Nothing is waited for: the arena's earlier fillings keep the memory
                they are in until they are ``done``, and its copies run in the order they were placed.

        Raises:
            DeviceError: the placement is over, or the arena is being filled already.
        """

    def place(
        self,
        arena: Arena,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        done: Callable[[], None] | None = None,
    ) -> None:
        """Queue the copies of the arena's first ``used_bytes`` bytes; until they are done it is in flight.

        Args:
            arena: the one acquired last.
            used_bytes: length of the filling.
            spans: its copies.
            done: called once when the bytes may change again.

        Raises:
            DeviceError: a span breaks a rule of restore-contract §4.2, or the arena is not being filled.
        """

    def settle(self) -> PlacementStats:
        """Wait for both arenas, require complete coverage and a clean error word (restore-contract §3.10).

        Raises:
            DeviceError: bytes are missing, or the device reported an error.
        """

    def abort(self) -> None:
        """Wait for both arenas and end the transaction for good; harmless when it is over."""


class Device(Protocol):
    """One pool of pages and what can be done to it. It runs one placement at a time."""

    @property
    def name(self) -> str:
        """The device's name on its node."""

    @property
    def kind(self) -> str:
        """``host`` or ``cuda``."""

    @property
    def pool_bytes(self) -> int:
        """Bytes of pages the device may hold."""

    @property
    def free_bytes(self) -> int:
        """``pool_bytes`` less the pages that are reserved."""

    @property
    def arena_bytes(self) -> int:
        """Size of each of the two arenas."""

    @property
    def arena_mode(self) -> ArenaMode:
        """``mapped``: kernels read host memory; ``staged``: each filling is copied to the device first."""

    @property
    def xp(self) -> ModuleType:
        """The array module of what ``layer_pages`` returns: NumPy, or CuPy on a CUDA device."""

    def host_memory(self, byte_count: int) -> memoryview:
        """Host memory that this device copies from fastest, page-aligned and present; it lives as it does.

        Raises:
            ResourceError: it is not to be had.
        """

    def producer(self) -> Producer:
        """Whoever writes to this device's pages on this process's behalf: the stream they are filled on."""

    def prepare_pool(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> None:
        """Commit the pages of a later reservation now, as a serving runtime does at its start.

        Raises:
            DeviceError: the pool has no room for them.
        """

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        """Take private pages for one restore.

        Raises:
            DeviceError: the pool has no room for them.
        """

    def fence(self, pages: PageSet, *, producer: Producer) -> None:
        """Order everything after ``producer``'s earlier work on these pages (restore-contract §3.1).

        Raises:
            DeviceError: the order cannot be established.
        """

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> Placement:
        """Open the transaction that fills private pages with ``payload_bytes`` bytes.

        Raises:
            DeviceError: slots invalid, pages not private, or another placement is open.
        """

    def digest(self, pages: PageSet) -> tuple[LayerDigest, ...]:
        """Read every layer back from the pool, in stream order.

        Raises:
            DeviceError: the pages are discarded, or of another device.
        """

    def layer_pages(self, pages: PageSet, *, layer: int) -> Any:
        """Gather what really lies in one layer's pages, without leaving the device.

        Args:
            pages: private or published.
            layer: number of the layer, groups in order, layers in order.

        Returns:
            An ``xp`` array of its own: uint8, C-contiguous, shape ``(blocks, bytes_per_page)``, blocks in the
            order of the layer's logical bytes; strides of the pool are left out.

        Raises:
            DeviceError: no such layer, or the pages are discarded, or of another device.
        """

    def publish(self, pages: PageSet) -> None:
        """Make private pages visible.

        Raises:
            DeviceError: the pages are not private, or their placement is open or was aborted.
        """

    def discard(self, pages: PageSet) -> None:
        """Give pages back to the pool; harmless when they are back already."""
