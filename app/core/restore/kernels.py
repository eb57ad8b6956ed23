"""Array arithmetic of a placement, written over ``xp`` and therefore the NumPy twin of each CUDA kernel."""

from collections.abc import Sequence
from types import ModuleType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"


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
