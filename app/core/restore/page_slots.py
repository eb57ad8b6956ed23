"""The page slots of one layout: handed out lowest first, taken back, handed out again. No memory."""

import heapq
from dataclasses import dataclass

from app.core.errors import DeviceError
from app.core.store.snapshot import PageLayout

# Strides keep every page aligned for the widest copies a kernel makes.
_STRIDE_ALIGNMENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPool:
    """A pool whose shape and slots are given instead of chosen.

    Attributes:
        pages: pages per layer, page 0 included.
        page_stride_bytes: for each layer in stream order, at least its ``bytes_per_page``.
        group_slots: the slots every reservation gets.
    """

    pages: int
    page_stride_bytes: tuple[int, ...]
    group_slots: tuple[tuple[int, ...], ...]


class PageSlots:
    """Slot numbers per group; slot 0, the null page, is never handed out nor counted.

    Args:
        layout: whose pages these are.
        fixed: shape and slots, if they are given.

    Attributes:
        strides: bytes from page to page, for each layer in stream order.
        block_bytes: bytes of one block of each group, strides included.
        ends: for each group the first slot that was never committed.
        sets: reservations that hold slots now.
    """

    def __init__(self, layout: PageLayout, *, fixed: FixedPool | None = None) -> None:
        self._fixed = fixed
        self.strides = _strides(layout) if fixed is None else fixed.page_stride_bytes
        self.block_bytes = _block_bytes(layout, strides=self.strides)
        self.ends = [1 if fixed is None else fixed.pages] * len(layout.groups)
        self._free: list[list[int]] = [[] for _ in layout.groups]
        self.sets = 0

    @property
    def is_fixed(self) -> bool:
        """Whether shape and slots are given."""
        return self._fixed is not None

    @property
    def committed_bytes(self) -> int:
        """Bytes of all slots ever handed out; of a fixed pool, whose room is not ours to count, none."""
        if self.is_fixed:
            return 0
        return sum((end - 1) * size for end, size in zip(self.ends, self.block_bytes, strict=True))

    def need_bytes(self, block_counts: tuple[int, ...]) -> int:
        """Bytes the pages of a reservation take, strides included."""
        return sum(count * size for count, size in zip(block_counts, self.block_bytes, strict=True))

    def growth_bytes(self, block_counts: tuple[int, ...]) -> int:
        """Bytes that ``take`` would commit anew."""
        grown = zip(self.ends_after(block_counts), self.ends, self.block_bytes, strict=True)
        return sum((after - end) * size for after, end, size in grown)

    def ends_after(self, block_counts: tuple[int, ...]) -> list[int]:
        """``ends`` once a reservation of this size is committed."""
        if self.is_fixed:
            return self.ends
        return [
            end + max(0, count - len(free))
            for end, count, free in zip(self.ends, block_counts, self._free, strict=True)
        ]

    def commit(self, ends: list[int]) -> None:
        """Slots below ``ends`` exist from now on; those that are new are free."""
        for free, start, end in zip(self._free, self.ends, ends, strict=True):
            for slot in range(start, end):
                heapq.heappush(free, slot)
        self.ends = ends

    def take(self, block_counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Hand out committed slots, lowest first.

        Raises:
            DeviceError: the given slots of a fixed pool are in use.
        """
        if self._fixed is not None and self.sets:
            raise DeviceError("fixed pool", expected="its slots to be free", found="one reservation of them")
        self.sets += 1
        if self._fixed is not None:
            return self._fixed.group_slots
        return tuple(
            tuple(heapq.heappop(free) for _ in range(count))
            for count, free in zip(block_counts, self._free, strict=True)
        )

    def give_back(self, slots: tuple[tuple[int, ...], ...]) -> None:
        """Take slots back."""
        self.sets -= 1
        if self.is_fixed:
            return
        for free, given in zip(self._free, slots, strict=True):
            for slot in given:
                heapq.heappush(free, slot)


def check_slots(
    slots: tuple[tuple[int, ...], ...], *, block_counts: tuple[int, ...], limits: list[int]
) -> None:
    """Require the slots of a page set to be usable (restore-contract §4.2, §14).

    Raises:
        DeviceError: another number than the counts, slot 0, a slot twice, or one the pool does not have.
    """
    for group, (given, count, limit) in enumerate(zip(slots, block_counts, limits, strict=True)):
        sound = len(given) == count == len(set(given)) and all(0 < slot < limit for slot in given)
        if not sound:
            raise DeviceError(
                f"slots of group {group}",
                expected=f"{count} different numbers in 1 … {limit - 1}",
                found=", ".join(map(str, given[:16])),
            )


def _strides(layout: PageLayout) -> tuple[int, ...]:
    return tuple(
        -(-layer.bytes_per_page // _STRIDE_ALIGNMENT) * _STRIDE_ALIGNMENT
        for group in layout.groups
        for layer in group.layers
    )


def _block_bytes(layout: PageLayout, *, strides: tuple[int, ...]) -> list[int]:
    remaining = iter(strides)
    return [sum(next(remaining) for _ in group.layers) for group in layout.groups]
