"""A driver without a GPU: work is queued per stream and done later, in any order the streams allow.

What CUDA leaves open is open here too. Pinned host memory is read when a copy runs, not when it is queued; a
stream runs on only when somebody waits for it, unless the schedule lets it run ahead; an event stands for the
work before its last record. Kernels are done by their NumPy twin, or by the CUDA source compiled for the CPU.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from app.core.errors import DeviceError, ResourceError
from app.core.restore.buffers import map_pages
from app.core.restore.kernels import Bytes
from workers.gpu.driver import DeviceFacts, HostKind, HostMemory, Launch
from workers.gpu.host_memory import address_of

from .schedules import Lazy, Schedule
from .twin import layer_records, run_twin, view

FRESH_BYTE = 0xEE
DISCRETE = DeviceFacts(
    model="a model of a discrete GPU",
    compute_capability=(9, 0),
    total_bytes=1 << 40,
    processors=132,
    integrated=False,
    maps_host_memory=True,
    reads_pageable_memory=False,
    registers_host_memory=True,
)
UNIFIED = DeviceFacts(
    model="a model of a unified-memory GPU",
    compute_capability=(12, 1),
    total_bytes=1 << 40,
    processors=48,
    integrated=True,
    maps_host_memory=True,
    reads_pageable_memory=False,
    registers_host_memory=False,
)


@dataclass(eq=False)
class Mark:
    """An event as it was recorded once."""

    done: bool = False
    calls: list[Callable[[], None]] = field(default_factory=list)


@dataclass(eq=False)
class Work:
    """One thing queued: it may run when ``after`` is done."""

    run: Callable[[], None]
    after: Mark | None = None
    mark: Mark | None = None


class ModelDriver:
    """A ``Driver`` over memory of this process.

    Args:
        schedule: what runs ahead.
        facts: the kind of GPU.
        kernels: what a launch does.
    """

    xp = np

    def __init__(
        self,
        schedule: Schedule | None = None,
        *,
        facts: DeviceFacts = DISCRETE,
        kernels: Callable[[Launch], None] = run_twin,
        device_bytes: int = 1 << 34,
    ) -> None:
        self.facts = facts
        self.schedule = schedule or Lazy()
        self.launches: list[Launch] = []
        self.copied_in_bytes = 0
        self._kernels = kernels
        self._device_bytes = device_bytes
        self._blocks: dict[int, Bytes] = {}
        self._freed: list[Bytes] = []
        self._pinned: list[HostMemory] = []
        self._streams: dict[int, deque[Work]] = {}
        self._events: dict[int, Mark | None] = {}
        self._stream_numbers = count(1)
        self._event_numbers = count(1)
        self._lock = threading.RLock()

    def free_bytes(self) -> int:
        return self._device_bytes - sum(block.nbytes for block in self._blocks.values())

    def host_free_bytes(self) -> int:
        return 1 << 40

    def allocate(self, byte_count: int) -> int:
        if byte_count > self.free_bytes():
            raise ResourceError("device memory", expected=f"{byte_count} bytes", found="less")
        block = np.full(byte_count + 256, FRESH_BYTE, dtype=np.uint8)
        address = -(-int(block.ctypes.data) // 256) * 256
        self._blocks[address] = block
        return address

    def release(self, address: int) -> None:
        """Nothing is waited for: work still queued on this memory fails when it runs."""
        with self._lock:
            self._freed.append(self._blocks.pop(address))

    def new_array(self, shape: tuple[int, ...]) -> tuple[Any, int]:
        array = np.full(shape, FRESH_BYTE, dtype=np.uint8)
        return array, int(array.ctypes.data)

    def pin(self, byte_count: int) -> HostMemory:
        return self._keep(map_pages(byte_count), kind=HostKind.PINNED)

    def register(self, memory: memoryview) -> HostMemory:
        if not self.facts.registers_host_memory:
            raise DeviceError("registering", expected="to be supported", found="it is not")
        return self._keep(memory, kind=HostKind.REGISTERED)

    def unpin(self, memory: HostMemory) -> None:
        self._pinned.remove(memory)

    def create_stream(self) -> int:
        number = next(self._stream_numbers)
        self._streams[number] = deque()
        return number

    def create_event(self, *, timed: bool = False) -> int:
        number = next(self._event_numbers)
        self._events[number] = None
        return number

    def destroy(self, *, streams: tuple[int, ...] = (), events: tuple[int, ...] = ()) -> None:
        with self._calling():
            for stream in streams:
                self._run_out(stream)
                del self._streams[stream]
            for event in events:
                del self._events[event]

    def record(self, event: int, *, stream: int) -> None:
        with self._calling():
            mark = Mark()
            self._events[event] = mark
            self._streams[stream].append(Work(run=lambda: _finish(mark), mark=mark))

    def order(self, stream: int, *, after: int) -> None:
        with self._calling():
            self._streams[stream].append(Work(run=_nothing, after=self._events[after]))

    def is_done(self, event: int) -> bool:
        with self._calling():
            mark = self._events[event]
            return mark is None or mark.done

    def await_event(self, event: int) -> None:
        with self._calling():
            mark = self._events[event]
            if mark is not None:
                self._force(mark)

    def await_stream(self, stream: int) -> None:
        with self._calling():
            self._run_out(stream)

    def call_when_done(self, event: int, *, stream: int, call: Callable[[], None]) -> None:
        with self._calling():
            mark = self._events[event]
            if mark is None or mark.done:
                call()
            else:
                mark.calls.append(call)

    def copy_in(self, target: int, *, source: Bytes, stream: int) -> None:
        self.copied_in_bytes += source.nbytes
        read = source if self._is_pinned(source) else source.copy()
        self._queue(stream, lambda: np.copyto(self._device(target, read.nbytes), read))

    def copy_out(self, source: int, *, target: Bytes, stream: int) -> None:
        self._queue(stream, lambda: np.copyto(target, self._device(source, target.nbytes)))

    def copy_within(self, source: int, *, target: int, byte_count: int, stream: int) -> None:
        def run() -> None:
            np.copyto(self._device(target, byte_count), self._device(source, byte_count))

        self._queue(stream, run)

    def fill(self, target: int, *, byte: int, byte_count: int, stream: int) -> None:
        self._queue(stream, lambda: self._device(target, byte_count).fill(byte))

    def launch(self, launch: Launch, *, stream: int) -> None:
        assert launch.blocks >= 1
        self.launches.append(launch)

        def run() -> None:
            for base in (launch.pages.block, *layer_records(launch.pages)["base"].tolist()):
                assert base in self._blocks, f"{launch.kernel} on memory that is not allocated"
            self._kernels(launch)

        self._queue(stream, run)

    def elapsed_ns(self, start: int, *, end: int) -> int:
        marks = [self._events[event] for event in (start, end)]
        assert all(mark is not None and mark.done for mark in marks)
        return 1000

    def close(self) -> None:
        self.drain()

    def drain(self) -> None:
        """Everything runs out, as time would let it."""
        with self._lock:
            while self.step():
                pass
            assert not any(self._streams.values()), "streams that wait for each other"

    def step(self) -> bool:
        """The next work of some stream runs; whether there was any."""
        with self._lock:
            ready = self._ready()
            if ready:
                self._run_next(ready[0])
            return bool(ready)

    @property
    def allocated(self) -> int:
        """Allocations that are not given back."""
        return len(self._blocks)

    def _queue(self, stream: int, run: Callable[[], None]) -> None:
        with self._calling():
            self._streams[stream].append(Work(run=run))

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """At every call some work may run ahead, before it and behind it."""
        with self._lock:
            self._run_ahead()
            yield
            self._run_ahead()

    def _run_ahead(self) -> None:
        while (chosen := self.schedule.choose(self._ready())) is not None:
            self._run_next(chosen)

    def _ready(self) -> list[int]:
        return [
            number
            for number, works in self._streams.items()
            if works and (works[0].after is None or works[0].after.done)
        ]

    def _run_next(self, stream: int) -> None:
        self._streams[stream].popleft().run()

    def _run_out(self, stream: int) -> None:
        works = self._streams[stream]
        while works:
            after = works[0].after
            if after is not None and not after.done:
                self._force(after)
            self._run_next(stream)

    def _force(self, mark: Mark) -> None:
        """Only what must run for this: the host waits no longer than that."""
        while not mark.done:
            stream = next(
                number for number, works in self._streams.items() if any(one.mark is mark for one in works)
            )
            after = self._streams[stream][0].after
            if after is not None and not after.done:
                self._force(after)
            self._run_next(stream)

    def _keep(self, memory: memoryview, *, kind: HostKind) -> HostMemory:
        address = address_of(memory)
        kept = HostMemory(memory=memory, kind=kind, address=address, device_address=address)
        self._pinned.append(kept)
        return kept

    def _is_pinned(self, source: Bytes) -> bool:
        address = int(source.ctypes.data)
        return any(0 <= address - one.address < len(one.memory) for one in self._pinned)

    def _device(self, address: int, byte_count: int) -> Bytes:
        """Device memory that is allocated, to its last byte."""
        for start, block in self._blocks.items():
            if start <= address and address + byte_count <= start + block.nbytes - 256:
                return view(address, byte_count)
        raise AssertionError(f"{byte_count} bytes at {address:#x}: not allocated")


class Lost(ModelDriver):
    """A device that answers nothing any more once it is told to."""

    lost = False

    @contextmanager
    def _calling(self) -> Iterator[None]:
        if self.lost:
            raise DeviceError("any call", expected="an answer", found="illegal address")
        with super()._calling():
            yield

    def release(self, address: int) -> None:
        with self._calling():
            super().release(address)

    def close(self) -> None:
        """Nothing runs out any more."""


def _finish(mark: Mark) -> None:
    mark.done = True
    for call in mark.calls:
        call()


def _nothing() -> None:
    pass
