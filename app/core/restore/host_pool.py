"""Page pools in host memory: one per layout, its slots handed out, taken back and handed out again."""

import heapq
from dataclasses import dataclass

import numpy as np

from app.core.digest import Digest, sha256
from app.core.errors import DeviceError
from app.core.restore.buffers import map_untouched
from app.core.restore.kernels import Bytes
from app.core.store.snapshot import PageLayout

# What a page holds before anything was restored into it; visible in a digest, unlike zeros.
FILL_BYTE = 0xA5
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLayer:
    """One layer's pages: uint8, shape ``(pages, stride)``."""

    group: int
    name: str
    bytes_per_page: int
    pages: Bytes


class HostPool:
    """All layers' pages of one layout.

    Address space is laid out for the whole budget at once; memory follows when a slot is handed out for the
    first time, and is then filled with 0xA5 so that every page is present and its emptiness visible.

    Args:
        layout: whose pages these are.
        budget_bytes: the most this pool may ever hold; slot 0, the null page, is not counted.
        fixed: shape and slots, if they are given.
    """

    def __init__(self, layout: PageLayout, *, budget_bytes: int, fixed: FixedPool | None = None) -> None:
        self._layout = layout
        self._fixed = fixed
        self._strides = _strides(layout) if fixed is None else fixed.page_stride_bytes
        self._block_bytes = _block_bytes(layout, strides=self._strides)
        self._limits = [
            budget_bytes // size + 1 if fixed is None else fixed.pages for size in self._block_bytes
        ]
        self._next = [1] * len(layout.groups)
        self._free: list[list[int]] = [[] for _ in layout.groups]
        self.layers: tuple[PoolLayer, ...] = ()
        self.sets = 0

    @property
    def committed_bytes(self) -> int:
        """Bytes of all slots ever handed out."""
        return sum((high - 1) * size for high, size in zip(self._next, self._block_bytes, strict=True))

    def need_bytes(self, block_counts: tuple[int, ...]) -> int:
        """Bytes the pages of a reservation take, strides included."""
        return sum(count * size for count, size in zip(block_counts, self._block_bytes, strict=True))

    def growth_bytes(self, block_counts: tuple[int, ...]) -> int:
        """Bytes that ``take`` would commit anew."""
        if self._fixed is not None:
            return 0
        missing = (max(0, count - len(free)) for count, free in zip(block_counts, self._free, strict=True))
        return sum(count * size for count, size in zip(missing, self._block_bytes, strict=True))

    def prepare(self, block_counts: tuple[int, ...]) -> None:
        """Commit and fill what a reservation of this size needs, without handing it out.

        Raises:
            ResourceError: the address space is not to be had.
        """
        if not self.layers:
            self.layers = _map_layers(self._layout, strides=self._strides, pages=self._limits)
            if self._fixed is not None:
                self._fill([0] * len(self._limits), ends=self._limits)
        if self._fixed is not None:
            return
        ends = [
            start + max(0, count - len(free))
            for start, count, free in zip(self._next, block_counts, self._free, strict=True)
        ]
        self._fill(self._next, ends=ends)
        for free, start, end in zip(self._free, self._next, ends, strict=True):
            for slot in range(start, end):
                heapq.heappush(free, slot)
        self._next = ends

    def take(self, block_counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Hand out slots, lowest first, committing and filling those never used before.

        Raises:
            DeviceError: the given slots of a fixed pool are in use.
            ResourceError: the address space is not to be had.
        """
        self.prepare(block_counts)
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
        if self._fixed is not None:
            return
        for free, given in zip(self._free, slots, strict=True):
            for slot in given:
                heapq.heappush(free, slot)

    def check_slots(self, slots: tuple[tuple[int, ...], ...], *, block_counts: tuple[int, ...]) -> None:
        """Require the slots of a page set to be usable (restore-contract §4.2, §14).

        Raises:
            DeviceError: another number than the counts, slot 0, a slot twice, or one the pool does not have.
        """
        for group, (given, count, limit) in enumerate(zip(slots, block_counts, self._limits, strict=True)):
            sound = len(given) == count == len(set(given)) and all(0 < slot < limit for slot in given)
            if not sound:
                raise DeviceError(
                    f"slots of group {group}",
                    expected=f"{count} different numbers in 1 … {limit - 1}",
                    found=", ".join(map(str, given[:16])),
                )

    def digests(self) -> tuple[Digest, ...]:
        """The SHA-256 of every layer's whole pool, padding and unused pages included."""
        return tuple(sha256(layer.pages.data) for layer in self.layers)

    def _fill(self, starts: list[int], *, ends: list[int]) -> None:
        for layer in self.layers:
            layer.pages[starts[layer.group] : ends[layer.group]] = FILL_BYTE


def _strides(layout: PageLayout) -> tuple[int, ...]:
    return tuple(
        -(-layer.bytes_per_page // _STRIDE_ALIGNMENT) * _STRIDE_ALIGNMENT
        for group in layout.groups
        for layer in group.layers
    )


def _block_bytes(layout: PageLayout, *, strides: tuple[int, ...]) -> list[int]:
    remaining = iter(strides)
    return [sum(next(remaining) for _ in group.layers) for group in layout.groups]


def _map_layers(layout: PageLayout, *, strides: tuple[int, ...], pages: list[int]) -> tuple[PoolLayer, ...]:
    remaining = iter(strides)
    return tuple(
        PoolLayer(
            group=number,
            name=layer.name,
            bytes_per_page=layer.bytes_per_page,
            pages=_map_pages(pages[number], stride=next(remaining)),
        )
        for number, group in enumerate(layout.groups)
        for layer in group.layers
    )


def _map_pages(count: int, *, stride: int) -> Bytes:
    return np.frombuffer(map_untouched(count * stride), dtype=np.uint8).reshape(count, stride)
