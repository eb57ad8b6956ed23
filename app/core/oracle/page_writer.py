"""Write chosen pages of a set through the device's own placement, as any restore does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.core.restore.device import Device, PageSet
from app.core.restore.kernels import copy_bytes
from app.core.restore.plan import ARENA_COUNT, MAX_SUBMISSION_SPANS, CopySpan
from app.core.store.snapshot import LayerSpan, layer_spans

PageContent: TypeAlias = Callable[[LayerSpan, int, int], Iterator[memoryview]]
"""The parts of one page: its layer, its block, and its number over the whole stream."""


@dataclass(slots=True, kw_only=True)
class _Filling:
    """What goes into an arena next."""

    parts: list[memoryview] = field(default_factory=list)
    spans: list[CopySpan] = field(default_factory=list)
    byte_count: int = 0

    def add(self, part: memoryview, *, layer: int, placed: int, filled: int) -> None:
        """Append a part that goes to payload byte ``placed`` and to the layer's byte ``filled``."""
        self.parts.append(part)
        last = self.spans[-1] if self.spans else None
        if last is not None and last.destination == layer:
            self.spans[-1] = replace(last, byte_count=last.byte_count + len(part))
        else:
            span = CopySpan(
                arena_offset=self.byte_count,
                snapshot_offset=placed,
                destination_offset=filled,
                byte_count=len(part),
                destination=layer,
            )
            self.spans.append(span)
        self.byte_count += len(part)


def write_pages(
    device: Device, pages: PageSet, *, blocks: Sequence[Sequence[int]], content: PageContent
) -> None:
    """Fill some blocks of private pages.

    Args:
        device: where the pages are; no placement may be open.
        pages: the whole set.
        blocks: for each group, which blocks of its pages; at least one.
        content: what goes into a page.

    Raises:
        DeviceError: the pages are not private, or a placement is open.
    """
    counts = tuple(len(chosen) for chosen in blocks)
    slots = tuple(
        tuple(group[block] for block in chosen) for group, chosen in zip(pages.slots, blocks, strict=True)
    )
    placement = device.begin(
        replace(pages, block_counts=counts, slots=slots),
        layers=layer_spans(pages.layout, block_counts=counts, header_bytes=0),
        payload_bytes=pages.layout.payload_bytes(block_counts=counts),
    )
    try:
        parts = _parts(pages, blocks=blocks, content=content)
        for number, filling in enumerate(_fillings(parts, arena_bytes=device.arena_bytes)):
            arena = placement.acquire(number % ARENA_COUNT)
            at = 0
            for part in filling.parts:
                copy_bytes(part, target=arena.memory[at : at + len(part)])
                at += len(part)
            placement.place(arena, used_bytes=filling.byte_count, spans=filling.spans)
        placement.settle()
    finally:
        placement.abort()


def _parts(
    pages: PageSet, *, blocks: Sequence[Sequence[int]], content: PageContent
) -> Iterator[tuple[int, memoryview]]:
    """Layer number and bytes, in the order of the payload."""
    number = 0
    for span in layer_spans(pages.layout, block_counts=pages.block_counts, header_bytes=0):
        for block in blocks[span.group]:
            for part in content(span, block, number + block):
                yield span.index, part
        number += span.pages


def _fillings(parts: Iterator[tuple[int, memoryview]], *, arena_bytes: int) -> Iterator[_Filling]:
    filling, placed, filled = _Filling(), 0, {-1: 0}
    for layer, part in parts:
        while len(part):
            if filling.byte_count == arena_bytes or len(filling.spans) == MAX_SUBMISSION_SPANS:
                yield filling
                filling = _Filling()
            now = part[: arena_bytes - filling.byte_count]
            filling.add(now, layer=layer, placed=placed, filled=filled.get(layer, 0))
            placed += len(now)
            filled[layer] = filled.get(layer, 0) + len(now)
            part = part[len(now) :]
    if filling.parts:
        yield filling
