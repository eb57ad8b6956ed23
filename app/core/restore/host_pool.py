"""Page pools in host memory: one per layout, its slots handed out, taken back and handed out again."""

from dataclasses import dataclass

import numpy as np

from app.core.digest import Digest, sha256
from app.core.restore.buffers import map_untouched
from app.core.restore.kernels import Bytes
from app.core.restore.page_slots import FixedPool, PageSlots, check_slots
from app.core.store.snapshot import PageLayout

# What a page holds before anything was restored into it; visible in a digest, unlike zeros.
FILL_BYTE = 0xA5


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
        self.slots = PageSlots(layout, fixed=fixed)
        self._limits = [
            budget_bytes // size + 1 if fixed is None else fixed.pages for size in self.slots.block_bytes
        ]
        self.layers: tuple[PoolLayer, ...] = ()

    def prepare(self, block_counts: tuple[int, ...]) -> None:
        """Commit and fill what a reservation of this size needs, without handing it out.

        Raises:
            ResourceError: the address space is not to be had.
        """
        if not self.layers:
            self.layers = _map_layers(self._layout, strides=self.slots.strides, pages=self._limits)
            if self._fixed is not None:
                self._fill([0] * len(self._limits), ends=self._limits)
        ends = self.slots.ends_after(block_counts)
        self._fill(self.slots.ends, ends=ends)
        self.slots.commit(ends)

    def take(self, block_counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Hand out slots, lowest first, committing and filling those never used before.

        Raises:
            DeviceError: the given slots of a fixed pool are in use.
            ResourceError: the address space is not to be had.
        """
        self.prepare(block_counts)
        return self.slots.take(block_counts)

    def check_slots(self, slots: tuple[tuple[int, ...], ...], *, block_counts: tuple[int, ...]) -> None:
        """Require the slots of a page set to be usable (restore-contract §4.2, §14).

        Raises:
            DeviceError: another number than the counts, slot 0, a slot twice, or one the pool does not have.
        """
        check_slots(slots, block_counts=block_counts, limits=self._limits)

    def digests(self) -> tuple[Digest, ...]:
        """The SHA-256 of every layer's whole pool, padding and unused pages included."""
        return tuple(sha256(layer.pages.data) for layer in self.layers)

    def _fill(self, starts: list[int], *, ends: list[int]) -> None:
        for layer in self.layers:
            layer.pages[starts[layer.group] : ends[layer.group]] = FILL_BYTE


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
