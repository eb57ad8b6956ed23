"""A fixed stock of page-aligned buffers, touched once when it is made and lent out again and again.

Fresh private buffers cost a restore a third of its time in zero-filling (restore-contract §7.2); these cost
nothing, and their number is the bound on the payload a restore may hold (§2).
"""

import mmap
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from app.core.errors import PlanError, ResourceError
from app.core.restore.plan import MAX_BATCH_BYTES, MAX_BATCH_OBJECTS
from app.core.store.layout import MAX_OBJECT_BYTES

# linux/mman.h on x86-64 and arm64; Python's mmap module does not name it everywhere.
_MAP_NORESERVE = 0x4000


class PooledBuffer:
    """One lent buffer. It goes back when each of its ``holders`` has let go of it.

    Attributes:
        memory: the first ``byte_count`` bytes, writable, starting on a page.
    """

    __slots__ = ("_holders", "_number", "_pool", "memory")

    def __init__(self, pool: "BufferPool", *, number: int, memory: memoryview, holders: int) -> None:
        self._pool = pool
        self._number = number
        self._holders = holders
        self.memory = memory

    def hold(self, holders: int) -> None:
        """So many more holders must let go.

        Raises:
            RuntimeError: nobody holds it any more.
        """
        self._pool.hold(self, holders=holders)

    def let_go(self) -> None:
        """One holder is done. The last one returns the buffer.

        Raises:
            RuntimeError: more holders let go than there were.
        """
        self._pool.give_back(self, drop=False)

    def drop(self) -> None:
        """Return the buffer whoever holds it; harmless when it is back already."""
        self._pool.give_back(self, drop=True)

    def count_up(self, holders: int) -> None:
        """Add holders; called by the pool, under its lock."""
        if self._holders == 0:
            raise RuntimeError("a pooled buffer was held again after it had been returned")
        self._holders += holders

    def count_down(self, *, drop: bool) -> int | None:
        """The buffer's number if this call frees it; called by the pool, under its lock."""
        if self._holders == 0:
            if drop:
                return None
            raise RuntimeError("a pooled buffer was let go more often than it was held")
        self._holders = 0 if drop else self._holders - 1
        return self._number if self._holders == 0 else None


class BufferPool:
    """At most 256 MiB of payload in at most four buffers (restore-contract §2).

    Args:
        buffer_bytes: size of each buffer, ≥ 1.
        count: how many; together they may not exceed 256 MiB.
        allocate: where a buffer's memory comes from, by its size: ``Device.host_memory``, or the default.

    Raises:
        PlanError: the stock would exceed the bound on retained payload.
        ResourceError: the memory is not to be had.
    """

    def __init__(
        self,
        *,
        buffer_bytes: int = MAX_OBJECT_BYTES,
        count: int = MAX_BATCH_OBJECTS,
        allocate: Callable[[int], memoryview] | None = None,
    ) -> None:
        if buffer_bytes < 1 or count < 1 or buffer_bytes * count > MAX_BATCH_BYTES:
            raise PlanError(
                "buffer pool",
                expected=f"1 … {MAX_BATCH_BYTES} bytes in all",
                found=f"{count} × {buffer_bytes}",
            )
        self.buffer_bytes = buffer_bytes
        self.count = count
        self._memory = [(allocate or map_pages)(buffer_bytes) for _ in range(count)]
        self._free = deque(range(count))
        self._sizes = [0] * count
        self._peak_bytes = 0
        self._changed = threading.Condition()

    @property
    def held_bytes(self) -> int:
        """Payload bytes lent out now."""
        with self._changed:
            return sum(self._sizes)

    @property
    def held_buffers(self) -> int:
        """Buffers lent out now."""
        with self._changed:
            return self.count - len(self._free)

    @property
    def peak_bytes(self) -> int:
        """The most payload bytes ever lent out at once."""
        return self._peak_bytes

    def take(self, byte_count: int, *, holders: int) -> PooledBuffer:
        """Wait for a free buffer and lend its first ``byte_count`` bytes.

        Raises:
            PlanError: no buffer of this pool is that large.
        """
        self._check_fits(byte_count)
        with self._changed:
            self._changed.wait_for(lambda: self._free)
            return self._lend(byte_count, holders=holders)

    def take_if_free(self, byte_count: int, *, holders: int) -> PooledBuffer | None:
        """As ``take``, but ``None`` instead of waiting.

        Raises:
            PlanError: no buffer of this pool is that large.
        """
        self._check_fits(byte_count)
        with self._changed:
            return self._lend(byte_count, holders=holders) if self._free else None

    def take_unless(self, over: Callable[[], bool], *, byte_count: int, holders: int) -> PooledBuffer | None:
        """As ``take``, but ``None`` as soon as `over`, which is asked again whenever ``wake`` is called.

        Raises:
            PlanError: no buffer of this pool is that large.
        """
        self._check_fits(byte_count)
        with self._changed:
            self._changed.wait_for(lambda: over() or self._free)
            return None if over() else self._lend(byte_count, holders=holders)

    def wake(self) -> None:
        """Have whoever waits in ``take_unless`` ask again whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def hold(self, buffer: PooledBuffer, *, holders: int) -> None:
        """Count holders on to a lent buffer; called by the buffer."""
        with self._changed:
            buffer.count_up(holders)

    def give_back(self, buffer: PooledBuffer, *, drop: bool) -> None:
        """Count one holder (or all) off a lent buffer; called by the buffer."""
        with self._changed:
            number = buffer.count_down(drop=drop)
            if number is not None:
                self._sizes[number] = 0
                self._free.append(number)
                self._changed.notify_all()

    def _check_fits(self, byte_count: int) -> None:
        if byte_count > self.buffer_bytes:
            raise PlanError(
                "object", expected=f"at most {self.buffer_bytes} bytes", found=f"{byte_count} bytes"
            )

    def _lend(self, byte_count: int, *, holders: int) -> PooledBuffer:
        number = self._free.popleft()
        self._sizes[number] = byte_count
        self._peak_bytes = max(self._peak_bytes, sum(self._sizes))
        memory = self._memory[number][:byte_count]
        return PooledBuffer(self, number=number, memory=memory, holders=holders)


def map_pages(byte_count: int) -> memoryview:
    """Anonymous page-aligned memory, every page already present.

    Raises:
        ResourceError: the memory is not to be had.
    """
    pages = map_untouched(byte_count)
    memory = memoryview(pages)
    for offset in range(0, byte_count, mmap.PAGESIZE):
        memory[offset] = 0
    return memory


def map_untouched(byte_count: int) -> mmap.mmap:
    """Anonymous page-aligned address space; a page costs memory once it is written.

    Raises:
        ResourceError: the address space is not to be had.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    try:
        pages = mmap.mmap(-1, byte_count, flags=flags)
    except (OSError, ValueError, OverflowError) as error:
        raise ResourceError("memory", expected=f"{byte_count} bytes", found=str(error)) from None
    with suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages
