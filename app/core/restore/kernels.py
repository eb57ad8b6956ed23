"""Array arithmetic of a placement, written over ``xp`` and therefore the NumPy twin of each CUDA kernel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Numbers: TypeAlias = "NDArray[np.uint32]"
Records: TypeAlias = "NDArray[np.void]"

# The records of a launch as they lie in memory (restore-contract §4.2, §4.3); the owner of a page is ours.
SPAN_RECORD: Final = np.dtype(
    [
        ("arena_offset", "<u8"),
        ("snapshot_offset", "<u8"),
        ("destination_offset", "<u8"),
        ("byte_count", "<u8"),
        ("destination", "<u4"),
        ("flags", "<u4"),
    ]
)
LAYER_RECORD: Final = np.dtype(
    [
        ("base", "<u8"),
        ("pages", "<u8"),
        ("stride", "<u4"),
        ("page_bytes", "<u4"),
        ("group", "<u4"),
        ("flags", "<u4"),
    ]
)
GROUP_RECORD: Final = np.dtype(
    [("first_slot", "<u4"), ("slot_count", "<u4"), ("first_owner", "<u4"), ("reserved", "<u4")]
)


class KernelFault(IntEnum):
    """What a kernel found wrong; the first one stays in the error word (restore-contract §4.3; 5 is ours)."""

    SPAN_BOUNDS = 1
    RECORD_BOUNDS = 2
    SLOT_BOUNDS = 3
    DESTINATION_BOUNDS = 4
    FOREIGN_PAGE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTables:
    """Where the bytes of one page set lie.

    Attributes:
        layers: records, in stream order; groups: theirs.
        slots: page numbers, group after group.
        owners: for every page of every group the number of the page set it is lent to, 0 for none.
        owner: the page set whose pages these are.
        pools: for each layer uint8, shape ``(pages, stride)``.
    """

    layers: Records
    groups: Records
    slots: Numbers
    owners: Numbers
    owner: int
    pools: Sequence[Bytes]


def scatter(
    xp: ModuleType, *, source: Bytes, pool: Bytes, slots: Sequence[int], bytes_per_page: int, offset: int
) -> None:
    """Spread consecutive bytes of one layer over its pages (restore-contract §4.3).

    Logical byte ``o`` of the layer goes to page ``slots[o div b]``, byte ``o mod b``, with ``b =
    bytes_per_page``; bytes ``b …`` of a page are left alone. A page may arrive in pieces, in any order.

    Args:
        xp: the array module of ``source`` and ``pool``.
        source: uint8, shape ``(n,)``, C-contiguous; must not alias ``pool``.
        pool: uint8, shape ``(pages, stride)`` with ``stride ≥ bytes_per_page``.
        slots: page numbers of the layer's group; every one the bytes reach must lie below ``pages``.
        bytes_per_page: bytes of a page that carry content.
        offset: logical byte of the layer that ``source[0]`` is.
    """
    total = source.shape[0]
    page, inside = divmod(offset, bytes_per_page)
    done = 0
    if inside:
        done = min(bytes_per_page - inside, total)
        xp.copyto(pool[slots[page], inside : inside + done], source[:done])
        page += 1
    whole = (total - done) // bytes_per_page
    if whole:
        body = source[done : done + whole * bytes_per_page].reshape(whole, bytes_per_page)
        for first, count, slot in runs(slots[page : page + whole]):
            xp.copyto(pool[slot : slot + count, :bytes_per_page], body[first : first + count])
        done += whole * bytes_per_page
        page += whole
    if done < total:
        xp.copyto(pool[slots[page], : total - done], source[done:])


def move_spans(
    xp: ModuleType,
    *,
    linear: Bytes,
    used_bytes: int,
    spans: Records,
    tables: PageTables,
    gather: bool = False,
) -> int:
    """The twin of one launch: spans judged once more, then copied between linear bytes and pages.

    A span that is refused moves nothing, nor do the bytes of a page that is; everything else is moved.

    Args:
        xp: the array module of ``linear`` and the pools.
        linear: the arena, or where to gather to.
        used_bytes: bytes of it that may be touched.
        spans: records as the host encodes them.
        tables: the pages.
        gather: from the pages into ``linear`` instead.

    Returns:
        The first ``KernelFault``, or 0.
    """
    word = 0
    for span in spans:
        fault = _judge_span(span, used_bytes=used_bytes, tables=tables)
        if fault is not None:
            word = word or fault
            continue
        pool = tables.pools[int(span["destination"])]
        for slot, inside, at, count in _pieces(span, tables=tables):
            fault = _judge_page(slot, span=span, tables=tables)
            if fault is not None:
                word = word or fault
                continue
            page, run = pool[slot, inside : inside + count], linear[at : at + count]
            xp.copyto(*((run, page) if gather else (page, run)))
    return int(word)


def _judge_span(span: Any, *, used_bytes: int, tables: PageTables) -> KernelFault | None:
    at, count, offset = int(span["arena_offset"]), int(span["byte_count"]), int(span["destination_offset"])
    if count == 0 or int(span["flags"]) or at + count > used_bytes:
        return KernelFault.SPAN_BOUNDS
    if int(span["destination"]) >= len(tables.layers):
        return KernelFault.RECORD_BOUNDS
    layer = tables.layers[int(span["destination"])]
    sound = 0 < int(layer["page_bytes"]) <= int(layer["stride"]) < 1 << 31
    if int(layer["group"]) >= len(tables.groups) or not sound:
        return KernelFault.RECORD_BOUNDS
    pages = int(tables.groups[int(layer["group"])]["slot_count"])
    if offset + count > pages * int(layer["page_bytes"]):
        return KernelFault.DESTINATION_BOUNDS
    return None


def _judge_page(slot: int, *, span: Any, tables: PageTables) -> KernelFault | None:
    layer = tables.layers[int(span["destination"])]
    if not 0 < slot < int(layer["pages"]):
        return KernelFault.SLOT_BOUNDS
    first = int(tables.groups[int(layer["group"])]["first_owner"])
    return None if int(tables.owners[first + slot]) == tables.owner else KernelFault.FOREIGN_PAGE


def _pieces(span: Any, *, tables: PageTables) -> Iterator[tuple[int, int, int, int]]:
    """A span cut where pages end: ``(slot, first byte in the page, first linear byte, byte count)``."""
    layer = tables.layers[int(span["destination"])]
    first_slot = int(tables.groups[int(layer["group"])]["first_slot"])
    page_bytes, at, left = int(layer["page_bytes"]), int(span["arena_offset"]), int(span["byte_count"])
    page, inside = divmod(int(span["destination_offset"]), page_bytes)
    while left:
        count = min(page_bytes - inside, left)
        yield int(tables.slots[first_slot + page]), inside, at, count
        page, inside, at, left = page + 1, 0, at + count, left - count


def copy_bytes(source: memoryview, *, target: memoryview) -> None:
    """Copy equally long host buffers; unlike a slice assignment this lets other threads run."""
    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))


def runs(slots: Sequence[int]) -> list[tuple[int, int, int]]:
    """Cut slots into ascending runs: ``(index of the first, length, first slot)``, in order."""
    found: list[tuple[int, int, int]] = []
    for index, slot in enumerate(slots):
        if found:
            first, count, start = found[-1]
            if slot == start + count:
                found[-1] = (first, count + 1, start)
                continue
        found.append((index, 1, slot))
    return found
