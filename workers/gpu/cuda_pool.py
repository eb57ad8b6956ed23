"""Page pools in device memory: plain allocations, one per layer, and a table of who owns which page."""

from dataclasses import dataclass

import numpy as np

from app.core.errors import DeviceError
from app.core.restore.device import PageSet
from app.core.restore.host_pool import FILL_BYTE
from app.core.restore.kernels import GROUP_RECORD, LAYER_RECORD, Numbers, runs
from app.core.restore.page_slots import FixedPool, PageSlots, check_slots
from app.core.store.snapshot import PageLayout
from workers.gpu.driver import Driver, PageAddresses

# Below 2^31 a place within a tile's pages is a 32-bit number (cuda_kernels).
_LONGEST_STRIDE = (1 << 31) - 1
_NUMBER_BYTES = 4


@dataclass(slots=True, kw_only=True)
class CudaLayer:
    """One layer's pages, ``pages`` times ``stride`` bytes at ``base``; both change when the pool grows."""

    group: int
    name: str
    page_bytes: int
    stride: int
    base: int = 0
    pages: int = 0


class CudaPool:
    """All layers' pages of one layout.

    It is as large as the reservations were that it has seen: growing takes a larger allocation for one layer
    after the other and copies the pages over, so that a slot is always ``base + slot × stride``.

    Args:
        driver: of the device.
        layout: whose pages these are.
        stream: on which pages are filled, copied over and given owners.
        fixed: shape and slots, if they are given.
    """

    def __init__(
        self, driver: Driver, layout: PageLayout, *, stream: int, fixed: FixedPool | None = None
    ) -> None:
        self._driver = driver
        self._stream = stream
        self.slots = PageSlots(layout, fixed=fixed)
        self.layers = _layers(layout, strides=self.slots.strides)
        self._owners: list[Numbers] = [np.zeros(0, dtype=np.uint32) for _ in layout.groups]
        self._owner_table = 0

    def needs_memory(self, block_counts: tuple[int, ...]) -> bool:
        """Whether a reservation of this size makes the pool grow."""
        return self._capacities() != self.slots.ends_after(block_counts)

    def prepare(self, block_counts: tuple[int, ...]) -> None:
        """Commit and fill what a reservation of this size needs, without handing it out.

        Raises:
            DeviceError: the device has no memory for it.
        """
        ends = self.slots.ends_after(block_counts)
        if self.needs_memory(block_counts):
            self._require_strides()
            self._require_room(ends)
            for layer in self.layers:
                self._grow(layer, pages=ends[layer.group])
            self._grow_owners(ends)
        self.slots.commit(ends)

    def take(self, block_counts: tuple[int, ...], *, owner: int) -> tuple[tuple[int, ...], ...]:
        """Hand out slots, lowest first, to the page set of this number.

        Raises:
            DeviceError: the device has no memory for them, or the slots of a fixed pool are in use.
        """
        self.prepare(block_counts)
        slots = self.slots.take(block_counts)
        self._own(slots, owner=owner)
        return slots

    def give_back(self, slots: tuple[tuple[int, ...], ...]) -> None:
        """Take slots back, whatever the device says; they belong to nobody."""
        try:
            self._own(slots, owner=0)
        finally:
            self.slots.give_back(slots)

    def check_slots(self, slots: tuple[tuple[int, ...], ...], *, block_counts: tuple[int, ...]) -> None:
        """See ``page_slots.check_slots``."""
        check_slots(slots, block_counts=block_counts, limits=self._capacities())

    def fill(self, pages: PageSet, *, byte: int, stream: int) -> None:
        """Queue one value into whole pages, strides included."""
        for layer in self.layers:
            for _, count, slot in runs(pages.slots[layer.group]):
                self._driver.fill(
                    layer.base + slot * layer.stride,
                    byte=byte,
                    byte_count=count * layer.stride,
                    stream=stream,
                )

    def upload_tables(self, pages: PageSet) -> PageAddresses:
        """Everything a kernel asks of these pages, in one allocation of its own, and a clean error word.

        Raises:
            DeviceError: the device has no memory for it.
        """
        layers = np.zeros(len(self.layers), dtype=LAYER_RECORD)
        for record, layer in zip(layers, self.layers, strict=True):
            record["base"], record["pages"], record["stride"] = layer.base, layer.pages, layer.stride
            record["page_bytes"], record["group"] = layer.page_bytes, layer.group
        groups = np.zeros(len(pages.slots), dtype=GROUP_RECORD)
        counts = [len(slots) for slots in pages.slots]
        groups["slot_count"] = counts
        groups["first_slot"] = np.cumsum([0, *counts[:-1]])
        groups["first_owner"] = np.cumsum([0, *(len(owners) for owners in self._owners[:-1])])
        slots = np.array([slot for group in pages.slots for slot in group], dtype="<u4")
        parts = [layers.view(np.uint8), groups.view(np.uint8), np.zeros(16, np.uint8), slots.view(np.uint8)]
        at = np.cumsum([0, *(part.size for part in parts)]).tolist()
        block = self._driver.allocate(at[-1])
        self._driver.copy_in(block, source=np.concatenate(parts), stream=self._stream)
        return PageAddresses(
            block=block,
            layers=block + at[0],
            layer_count=len(layers),
            groups=block + at[1],
            group_count=len(groups),
            error=block + at[2],
            slots=block + at[3],
            owners=self._owner_table,
            owner=pages.number,
        )

    def close(self) -> None:
        """Give all memory back; nothing may run on it any more."""
        held = [*(layer.base for layer in self.layers), self._owner_table]
        for layer in self.layers:
            layer.base = layer.pages = 0
        self._owner_table = 0
        for address in filter(None, held):
            self._driver.release(address)

    def _capacities(self) -> list[int]:
        found = [0] * len(self.slots.ends)
        for layer in self.layers:
            found[layer.group] = layer.pages
        return found

    def _require_strides(self) -> None:
        for layer in self.layers:
            if layer.stride > _LONGEST_STRIDE:
                raise DeviceError(
                    f"pages of {layer.name}",
                    expected=f"at most {_LONGEST_STRIDE} bytes from page to page",
                    found=f"{layer.stride}",
                )

    def _require_room(self, ends: list[int]) -> None:
        """Old and new pages of the layer that grows exist side by side for a moment."""
        grown = [(layer, ends[layer.group] - layer.pages) for layer in self.layers]
        moved = max(
            (layer.pages * layer.stride for layer, growth in grown if growth and layer.pages), default=0
        )
        need = sum(growth * layer.stride for layer, growth in grown) + moved
        room = self._driver.free_bytes()
        if need > room:
            raise DeviceError(
                "device memory", expected=f"{need} bytes free for pages", found=f"{room} bytes free"
            )

    def _grow(self, layer: CudaLayer, *, pages: int) -> None:
        if pages == layer.pages:
            return
        base = self._driver.allocate(pages * layer.stride)
        old, kept = layer.base, layer.pages * layer.stride
        if old:
            self._driver.copy_within(old, target=base, byte_count=kept, stream=self._stream)
        fresh = (pages - layer.pages) * layer.stride
        self._driver.fill(base + kept, byte=FILL_BYTE, byte_count=fresh, stream=self._stream)
        layer.base, layer.pages = base, pages
        if old:
            self._driver.await_stream(self._stream)
            self._driver.release(old)

    def _grow_owners(self, ends: list[int]) -> None:
        grown = [np.zeros(end, dtype=np.uint32) for end in ends]
        for new, old in zip(grown, self._owners, strict=True):
            new[: len(old)] = old
        table, old_table = np.concatenate(grown), self._owner_table
        self._owner_table = self._driver.allocate(table.nbytes)
        self._driver.copy_in(self._owner_table, source=table.view(np.uint8), stream=self._stream)
        self._owners = grown
        if old_table:
            self._driver.await_stream(self._stream)
            self._driver.release(old_table)

    def _own(self, slots: tuple[tuple[int, ...], ...], *, owner: int) -> None:
        first = 0
        for owners, given in zip(self._owners, slots, strict=True):
            for _, count, slot in runs(sorted(slot for slot in given if 0 < slot < len(owners))):
                owners[slot : slot + count] = owner
                self._driver.copy_in(
                    self._owner_table + (first + slot) * _NUMBER_BYTES,
                    source=owners[slot : slot + count].view(np.uint8),
                    stream=self._stream,
                )
            first += len(owners)


def _layers(layout: PageLayout, *, strides: tuple[int, ...]) -> tuple[CudaLayer, ...]:
    remaining = iter(strides)
    return tuple(
        CudaLayer(group=number, name=layer.name, page_bytes=layer.bytes_per_page, stride=next(remaining))
        for number, group in enumerate(layout.groups)
        for layer in group.layers
    )
