"""What is the host device's own; what it shares with every device stands in tests/gpu/test_contract.py."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.errors import DeviceError
from app.core.restore.device import ArenaState, PageSet
from app.core.restore.host_device import HostDevice
from app.core.restore.host_pool import FILL_BYTE
from app.core.restore.kernels import copy_bytes, runs, scatter
from app.core.restore.plan import CopySpan
from tests.gpu.cases import ARENA_BYTES, COUNTS, LAYOUT, NEED_BYTES, WHOLE, begin


@pytest.fixture
def device() -> Iterator[HostDevice]:
    with HostDevice("host0", pool_bytes=2 * NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        yield device


@pytest.fixture
def pages(device: HostDevice) -> PageSet:
    return device.reserve(LAYOUT, block_counts=COUNTS)


def test_the_kernel_checks_bounds_again_and_the_error_word_fails_the_placement(
    device: HostDevice, pages: PageSet
) -> None:
    placement = begin(device, pages)
    placement.place(placement.acquire(0), used_bytes=78, spans=WHOLE)
    placement.run_copies(memoryview(bytearray(78)), used_bytes=5, spans=WHOLE)
    with pytest.raises(DeviceError, match="found 78 bytes placed, error word 1"):
        placement.settle()


def test_an_arena_in_flight_is_not_handed_out_before_its_copies_are_done(
    pages: PageSet, device: HostDevice
) -> None:
    """The copies are held up; acquiring the arena again must wait for them."""
    go, acquired = threading.Event(), threading.Event()
    placement = begin(device, pages)
    copy = placement.run_copies

    def held_up(memory: memoryview, *, used_bytes: int, spans: tuple[CopySpan, ...]) -> None:
        go.wait(timeout=60)
        copy(memory, used_bytes=used_bytes, spans=spans)

    placement.run_copies = held_up  # type: ignore[method-assign, assignment]
    arena = placement.acquire(0)
    arena.memory[:78] = bytes(range(78))
    placement.place(arena, used_bytes=78, spans=WHOLE)

    def overwrite() -> None:
        placement.acquire(0).memory[:78] = bytes(78)
        acquired.set()

    thread = threading.Thread(target=overwrite)
    thread.start()
    assert not acquired.is_set()
    assert arena.state is ArenaState.IN_FLIGHT
    go.set()
    thread.join(timeout=60)
    placement.abort()
    assert device.digest(pages)[0].sha256 == sha256(bytes(range(48)))


def test_adopted_fillings_queue_on_their_arena_and_are_done_in_order(
    pages: PageSet, device: HostDevice
) -> None:
    """The first copies are held up: taking the arena again waits for nothing, its own memory for both."""
    go = threading.Event()
    done: list[int] = []
    placement = begin(device, pages)
    copy = placement.run_copies

    def held_up(memory: memoryview, *, used_bytes: int, spans: tuple[CopySpan, ...]) -> None:
        assert go.wait(timeout=60)
        copy(memory, used_bytes=used_bytes, spans=spans)

    placement.run_copies = held_up  # type: ignore[method-assign, assignment]
    content = bytes(range(78))
    halves = [memoryview(bytearray(content[:48])), memoryview(bytearray(content[48:]))]
    moved = [replace(one, arena_offset=one.arena_offset - 48) for one in WHOLE[1:]]
    for number, spans in enumerate((WHOLE[:1], moved)):
        arena = placement.acquire(0, adopt=halves[number])
        assert arena.state is ArenaState.FILLING
        finish = partial(done.append, number)
        placement.place(arena, used_bytes=len(halves[number]), spans=spans, done=finish)
        assert arena.state is ArenaState.IN_FLIGHT
    assert done == []
    go.set()
    own = placement.acquire(0)
    assert done == [0, 1]
    assert len(own.memory) == ARENA_BYTES
    placement.place(own, used_bytes=0, spans=())
    placement.settle()
    assert arena.state is ArenaState.FREE
    assert [item.sha256 for item in device.digest(pages)] == [
        sha256(content[:48]),
        sha256(content[48:68]),
        sha256(content[68:]),
    ]


def test_copies_that_crash_are_all_awaited_and_told_of_when_the_placement_settles(
    pages: PageSet, device: HostDevice
) -> None:
    placement = begin(device, pages)
    go = threading.Event()
    ran: list[int] = []

    def crash(memory: memoryview, *, used_bytes: int, spans: tuple[CopySpan, ...]) -> None:
        assert go.wait(timeout=60)
        ran.append(used_bytes)
        if spans:
            raise ZeroDivisionError

    placement.run_copies = crash  # type: ignore[method-assign, assignment]
    memory = memoryview(bytearray(78))
    placement.place(placement.acquire(0, adopt=memory), used_bytes=48, spans=WHOLE[:1])
    placement.place(placement.acquire(0, adopt=memory), used_bytes=30, spans=())
    go.set()
    with pytest.raises(ZeroDivisionError):
        placement.settle()
    assert ran == [48, 30]
    assert device.arenas[0].state is ArenaState.FREE
    placement.abort()


@given(st.data())
def test_scatter_is_the_formula_of_the_contract(data: st.DataObject) -> None:
    """Restore-contract §4.3 byte by byte, for pages that arrive in any pieces; padding stays untouched."""
    size, count = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6))
    stride = size + data.draw(st.integers(0, 4))
    slots = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count, unique=True))
    cuts = data.draw(st.lists(st.integers(1, size * count), max_size=4))
    content = np.arange(size * count, dtype=np.uint8)
    pool = np.full((10, stride), FILL_BYTE, dtype=np.uint8)
    expected = pool.copy()
    for offset, byte in enumerate(content):
        expected[slots[offset // size], offset % size] = byte
    borders = sorted({0, *cuts, size * count})
    for start, end in pairwise(borders):
        scatter(np, source=content[start:end], pool=pool, slots=slots, bytes_per_page=size, offset=start)
    assert np.array_equal(pool, expected)


def test_runs_are_cut_where_slots_do_not_follow() -> None:
    assert runs([4, 5, 6, 2, 3, 9]) == [(0, 3, 4), (3, 2, 2), (5, 1, 9)]
    assert runs([]) == []


def test_copying_needs_equal_lengths() -> None:
    target = bytearray(4)
    copy_bytes(memoryview(b"abcd"), target=memoryview(target))
    assert target == b"abcd"
    with pytest.raises(ValueError, match="broadcast"):
        copy_bytes(memoryview(b"abc"), target=memoryview(target))
