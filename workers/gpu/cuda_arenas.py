"""An arena on its stream: where a filling lies, how it reaches the device, and what is still in flight."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.core.restore.device import ArenaState
from app.core.restore.kernels import Bytes, copy_bytes
from app.core.restore.plan import MAX_SUBMISSION_SPANS, CopySpan
from workers.gpu.cuda_kernels import (
    SCATTER,
    SPAN_RECORD_BYTES,
    count_tiles,
    encode_table,
    shift_to_align,
    table_bytes,
)
from workers.gpu.driver import Driver, HostMemory, Launch, PageAddresses
from workers.gpu.host_memory import HostMemories, as_bytes

# As many fillings as a restore has buffers may wait on one arena; each has its spans in host memory.
_TABLES: Final = 4
_TABLE_BYTES: Final = -(-table_bytes(MAX_SUBMISSION_SPANS) // 16) * 16
# Staged bytes are moved by up to 15 so that they lie as their pages do; kernels load whole words of them.
_SHIFT_ROOM: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    """One filling under way: its event stands for the last time the host's bytes are read."""

    event: int
    table: int


@dataclass(slots=True, kw_only=True)
class DeviceTimes:
    """Device time of the fillings of a placement: copies of host bytes, and kernels; ns."""

    copy_ns: int = 0
    scatter_ns: int = 0


class CudaArena:
    """One of the two arenas of a CUDA device.

    Args:
        index: 0 or 1.
        driver: of the device.
        memories: where its host memory comes from.
        arena_bytes: its size.
        timed: measure every filling with events.
    """

    def __init__(
        self, index: int, *, driver: Driver, memories: HostMemories, arena_bytes: int, timed: bool = False
    ) -> None:
        self.index = index
        self.state = ArenaState.FREE
        self.stream = driver.create_stream()
        self._driver = driver
        self._memories = memories
        self._host: HostMemory = memories.take(arena_bytes)
        self._tables: HostMemory = memories.take(_TABLES * _TABLE_BYTES)
        self._free_tables = deque(range(_TABLES))
        self._events = [driver.create_event() for _ in range(_TABLES)]
        self._marks: deque[tuple[int, int, int]] = deque()
        self._timed = timed
        self._staging = 0
        self._device_table = 0
        self._in_flight: deque[_Flight] = deque()
        self.memory = self._host.memory
        self.times = DeviceTimes()

    @property
    def is_mappable(self) -> bool:
        """Whether kernels can read its memory where it lies."""
        return None not in (self._host.device_address, self._tables.device_address)

    def stage(self) -> None:
        """Take device memory to copy fillings to."""
        self._staging = self._driver.allocate(len(self._host.memory) + _SHIFT_ROOM)
        self._device_table = self._driver.allocate(_TABLE_BYTES)

    def fill(self) -> None:
        """Take its own memory for filling, once nothing reads it any more."""
        self._await_flights()
        self.memory = self._host.memory
        self.state = ArenaState.FILLING

    def adopt(self, memory: memoryview) -> None:
        """Take other memory, filled already; what is in flight is other memory still and needs no waiting.

        Memory that kernels cannot read, where they must, is copied into the arena's own.
        """
        if not self._staging and self._memories.device_address(memory) is None:
            self.fill()
            copy_bytes(memory, target=self.memory[: len(memory)])
            return
        self.memory = memory
        self.state = ArenaState.FILLING

    def launch(
        self,
        *,
        used_bytes: int,
        spans: Sequence[CopySpan],
        pages: PageAddresses,
        done: Callable[[], None] | None,
    ) -> int:
        """Queue the copies of this filling behind those of the fillings before it; bytes copied in."""
        table = self._write_table(spans)
        flight = _Flight(event=self._events[table], table=table)
        marks = self._mark()
        # From here on something may be queued: whatever fails, the arena is waited for.
        self.state = ArenaState.IN_FLIGHT
        self._in_flight.append(flight)
        staged = self._queue(used_bytes, spans=spans, pages=pages, flight=flight, marks=marks)
        if done is not None:
            self._driver.call_when_done(flight.event, stream=self.stream, call=done)
        return staged

    def settle(self) -> None:
        """Wait for everything that is queued; afterwards the arena is free."""
        try:
            self._driver.await_stream(self.stream)
        finally:
            while self._in_flight:
                self._free_tables.append(self._in_flight.popleft().table)
            self.state = ArenaState.FREE
        self._count_times()

    def close(self) -> None:
        """Give back what it holds of the device."""
        self._driver.destroy(streams=(self.stream,), events=tuple(self._events))
        for address in filter(None, (self._staging, self._device_table)):
            self._driver.release(address)
        self._staging = self._device_table = 0

    def _queue(
        self,
        used_bytes: int,
        *,
        spans: Sequence[CopySpan],
        pages: PageAddresses,
        flight: _Flight,
        marks: tuple[int, int, int] | None,
    ) -> int:
        """One copy of the filling where it is staged, one launch, and the event in its place."""
        table = self._table(flight.table)[: table_bytes(len(spans))]
        driver, stream = self._driver, self.stream
        self._record(marks, number=0)
        if self._staging:
            linear = self._staging + shift_to_align(spans)
            if used_bytes:
                driver.copy_in(linear, source=as_bytes(self.memory)[:used_bytes], stream=stream)
            driver.copy_in(self._device_table, source=table, stream=stream)
            driver.record(flight.event, stream=stream)
            records = self._device_table
        else:
            linear = self._memories.device_address(self.memory) or 0
            records = (self._tables.device_address or 0) + flight.table * _TABLE_BYTES
        self._record(marks, number=1)
        driver.launch(
            Launch(
                kernel=SCATTER,
                blocks=max(1, count_tiles(table)),
                linear=linear,
                used_bytes=used_bytes,
                spans=records,
                first_tiles=records + len(spans) * SPAN_RECORD_BYTES,
                span_count=len(spans),
                pages=pages,
            ),
            stream=stream,
        )
        self._record(marks, number=2)
        if not self._staging:
            driver.record(flight.event, stream=stream)
        return used_bytes if self._staging else 0

    def _write_table(self, spans: Sequence[CopySpan]) -> int:
        """The spans into a table that no copy reads any more."""
        while self._in_flight and (not self._free_tables or self._driver.is_done(self._in_flight[0].event)):
            self._land()
        table = self._free_tables.popleft()
        encoded = encode_table(spans)
        np.copyto(self._table(table)[: encoded.size], encoded)
        return table

    def _table(self, number: int) -> Bytes:
        return as_bytes(self._tables.memory)[number * _TABLE_BYTES : (number + 1) * _TABLE_BYTES]

    def _await_flights(self) -> None:
        while self._in_flight:
            self._land()

    def _land(self) -> None:
        flight = self._in_flight[0]
        self._driver.await_event(flight.event)
        self._in_flight.popleft()
        self._free_tables.append(flight.table)

    def _mark(self) -> tuple[int, int, int] | None:
        if not self._timed:
            return None
        driver = self._driver
        marks = (
            driver.create_event(timed=True),
            driver.create_event(timed=True),
            driver.create_event(timed=True),
        )
        self._marks.append(marks)
        return marks

    def _record(self, marks: tuple[int, int, int] | None, *, number: int) -> None:
        if marks is not None:
            self._driver.record(marks[number], stream=self.stream)

    def _count_times(self) -> None:
        while self._marks:
            begin, copied, scattered = self._marks.popleft()
            self.times.copy_ns += self._driver.elapsed_ns(begin, end=copied)
            self.times.scatter_ns += self._driver.elapsed_ns(copied, end=scattered)
            self._driver.destroy(events=(begin, copied, scattered))
