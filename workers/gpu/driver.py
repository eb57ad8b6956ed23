"""What the device logic asks of a driver: memory, streams, events, copies, launches.

``CupyDriver`` does it on a GPU. A test double queues the work and does it later, in any order the streams
allow. Addresses, streams and events are numbers, as they are to CUDA. Every call may raise ``DeviceError``;
memory that is not to be had is a ``ResourceError``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any, Protocol

from app.core.restore.kernels import Bytes


class HostKind(StrEnum):
    """How host memory is kept, best first: only the first two are read while the host goes on."""

    PINNED = "pinned"
    REGISTERED = "registered"
    PAGEABLE = "pageable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the device's attributes say of it.

    Attributes:
        integrated: it shares one memory with the host.
        maps_host_memory: kernels can read pinned host memory.
        reads_pageable_memory: kernels can read any host memory.
        registers_host_memory: memory can be pinned after it was allocated.
    """

    model: str
    compute_capability: tuple[int, int]
    total_bytes: int
    processors: int
    integrated: bool
    maps_host_memory: bool
    reads_pageable_memory: bool
    registers_host_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Host memory known to the driver.

    Attributes:
        address: where the host finds it; ``device_address`` where kernels do, if they can.
    """

    memory: memoryview
    kind: HostKind
    address: int
    device_address: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAddresses:
    """The tables of one page set in device memory, as the kernels take them."""

    block: int
    layers: int
    layer_count: int
    groups: int
    group_count: int
    slots: int
    owners: int
    owner: int
    error: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch: the spans of a table between linear bytes and pages.

    Attributes:
        kernel: ``scatter_spans`` or ``gather_spans``.
        blocks: ≥ 1.
        spans: address of the records; ``first_tiles`` that of their first tiles.
    """

    kernel: str
    blocks: int
    linear: int
    used_bytes: int
    spans: int
    first_tiles: int
    span_count: int
    pages: PageAddresses


class Driver(Protocol):
    """One device of this process."""

    @property
    def facts(self) -> DeviceFacts:
        """What its attributes say."""

    @property
    def xp(self) -> ModuleType:
        """The array module of ``new_array``."""

    def free_bytes(self) -> int:
        """Device memory that an allocation could take now."""

    def host_free_bytes(self) -> int:
        """Host memory that an allocation could take now."""

    def allocate(self, byte_count: int) -> int:
        """A plain allocation, aligned to 256 bytes; its address."""

    def release(self, address: int) -> None:
        """Give an allocation back."""

    def new_array(self, shape: tuple[int, ...]) -> tuple[Any, int]:
        """An uninitialised uint8 array of its own, and its address."""

    def pin(self, byte_count: int) -> HostMemory:
        """Allocate page-locked host memory."""

    def register(self, memory: memoryview) -> HostMemory:
        """Page-lock memory that exists."""

    def unpin(self, memory: HostMemory) -> None:
        """Undo ``pin`` or ``register``; nothing may read the memory any more."""

    def create_stream(self) -> int:
        """A non-blocking stream of the lowest priority."""

    def create_event(self, *, timed: bool = False) -> int:
        """An event whose waiters sleep."""

    def destroy(self, *, streams: tuple[int, ...] = (), events: tuple[int, ...] = ()) -> None:
        """Give streams and events back."""

    def record(self, event: int, *, stream: int) -> None:
        """The event stands for all work queued on the stream up to now."""

    def order(self, stream: int, *, after: int) -> None:
        """What is queued on the stream from now on runs after the event as it is recorded now."""

    def is_done(self, event: int) -> bool:
        """Whether the work it stands for is done."""

    def await_event(self, event: int) -> None:
        """Return when the work it stands for is done, and every call that waited for it is made."""

    def await_stream(self, stream: int) -> None:
        """Return when all its work is done, and every call that waited for it is made."""

    def call_when_done(self, event: int, *, stream: int, call: Callable[[], None]) -> None:
        """Make a call, on whichever thread, once the event is done or never will be."""

    def copy_in(self, target: int, *, source: Bytes, stream: int) -> None:
        """Queue a copy from host to device; pageable memory is read before this returns."""

    def copy_out(self, source: int, *, target: Bytes, stream: int) -> None:
        """Queue a copy from device to host."""

    def copy_within(self, source: int, *, target: int, byte_count: int, stream: int) -> None:
        """Queue a copy inside device memory."""

    def fill(self, target: int, *, byte: int, byte_count: int, stream: int) -> None:
        """Queue bytes of one value."""

    def launch(self, launch: Launch, *, stream: int) -> None:
        """Queue a kernel."""

    def elapsed_ns(self, start: int, *, end: int) -> int:
        """Device time between two timed events that are done."""

    def close(self) -> None:
        """End the driver's own threads."""
