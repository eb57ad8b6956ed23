"""Pages, arenas and the rules of a placement on the host device."""

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
from app.core.restore.host_placement import HostPlacement
from app.core.restore.host_pool import FILL_BYTE
from app.core.restore.kernels import copy_bytes, runs, scatter
from app.core.restore.page_slots import FixedPool
from app.core.restore.plan import CopySpan
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, layer_spans

ARENA_BYTES = 4096
COUNTS = (3, 1)


def layer(name: str, *, size: int) -> PageLayer:
    return PageLayer(name=name, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)


def layout_of(first: int, *others: int) -> PageLayout:
    full = PageGroup(
        block_size=64,
        reuse_policy=ReusePolicy.FULL,
        reuse_window_tokens=None,
        layers=(layer("a", size=first),),
    )
    states = PageGroup(
        block_size=512,
        reuse_policy=ReusePolicy.RECURRENT_ALIGN,
        reuse_window_tokens=None,
        layers=tuple(layer(f"s{index}", size=size) for index, size in enumerate(others)),
    )
    return PageLayout(groups=(full, states))


# Strides of 16, 32 and 16 bytes.
LAYOUT = layout_of(16, 20, 10)
NEED_BYTES = 3 * 16 + 32 + 16


@pytest.fixture
def device() -> Iterator[HostDevice]:
    with HostDevice("host0", pool_bytes=2 * NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        yield device


@pytest.fixture
def pages(device: HostDevice) -> PageSet:
    return device.reserve(LAYOUT, block_counts=COUNTS)


def begin(device: HostDevice, pages: PageSet, *, header_bytes: int = 0) -> HostPlacement:
    layers = layer_spans(pages.layout, block_counts=pages.block_counts, header_bytes=header_bytes)
    return device.begin(pages, layers=layers, payload_bytes=78)


def span(destination: int, *, at: int = 0, snapshot: int = 0, offset: int = 0, count: int = 16) -> CopySpan:
    return CopySpan(
        arena_offset=at,
        snapshot_offset=snapshot,
        destination_offset=offset,
        byte_count=count,
        destination=destination,
    )


WHOLE = (
    span(0, count=48),
    span(1, at=48, snapshot=48, count=20),
    span(2, at=68, snapshot=68, count=10),
)


def test_reserved_pages_hold_the_fill_and_never_slot_0(device: HostDevice, pages: PageSet) -> None:
    assert pages.slots == ((1, 2, 3), (1,))
    digests = device.digest(pages)
    assert [(item.name, item.pages, item.bytes) for item in digests] == [
        ("a", 3, 48),
        ("s0", 1, 20),
        ("s1", 1, 10),
    ]
    assert [item.sha256 for item in digests] == [sha256(bytes([FILL_BYTE]) * size) for size in (48, 20, 10)]


def test_several_page_sets_are_resident_as_long_as_the_budget_allows(
    device: HostDevice, pages: PageSet
) -> None:
    assert device.free_bytes == NEED_BYTES
    second = device.reserve(LAYOUT, block_counts=COUNTS)
    assert second.slots == ((4, 5, 6), (2,))
    assert device.free_bytes == 0
    with pytest.raises(DeviceError, match="0 of 192 bytes free"):
        device.reserve(LAYOUT, block_counts=(1, 1))
    device.discard(pages)
    device.discard(pages)
    assert device.free_bytes == NEED_BYTES
    assert device.reserve(LAYOUT, block_counts=COUNTS).slots == pages.slots


def test_an_idle_pool_makes_room_for_another_layout(device: HostDevice, pages: PageSet) -> None:
    other = layout_of(32, 16)
    with pytest.raises(DeviceError):
        device.reserve(other, block_counts=(5, 1))
    device.discard(pages)
    assert device.reserve(other, block_counts=(5, 1)).slots == ((1, 2, 3, 4, 5), (1,))
    assert device.free_bytes == device.pool_bytes - 5 * 32 - 16


def test_a_layout_larger_than_the_pool(device: HostDevice) -> None:
    with pytest.raises(DeviceError, match="pool of host0"):
        device.reserve(layout_of(2**62, 1), block_counts=(1, 1))


def test_a_prepared_pool_is_what_a_reservation_gets(device: HostDevice) -> None:
    device.prepare_pool(LAYOUT, block_counts=COUNTS)
    assert device.free_bytes == device.pool_bytes
    assert device.reserve(LAYOUT, block_counts=COUNTS).slots == ((1, 2, 3), (1,))


def test_pages_are_published_once_and_read_until_discarded(device: HostDevice, pages: PageSet) -> None:
    device.publish(pages)
    with pytest.raises(DeviceError, match="expected private, found published"):
        device.publish(pages)
    with pytest.raises(DeviceError, match="expected private, found published"):
        begin(device, pages)
    device.digest(pages)
    device.discard(pages)
    with pytest.raises(DeviceError, match="discarded"):
        device.digest(pages)
    with pytest.raises(DeviceError, match="expected private, found discarded"):
        device.publish(pages)


def test_pages_of_another_device(device: HostDevice, pages: PageSet) -> None:
    with pytest.raises(DeviceError, match="foreign"):
        device.digest(replace(pages, device="host1"))
    with pytest.raises(DeviceError, match="foreign"):
        device.discard(replace(pages, number=99))


def test_a_whole_placement_settles_with_its_statistics(device: HostDevice, pages: PageSet) -> None:
    placement = begin(device, pages)
    arena = placement.acquire(0)
    arena.memory[:78] = bytes(range(78))
    placement.place(arena, used_bytes=78, spans=WHOLE)
    statistics = placement.settle()
    assert (statistics.source_bytes, statistics.slabs_submitted, statistics.scatter_kernel_launches) == (
        78,
        1,
        1,
    )
    assert arena.state is ArenaState.FREE
    content = bytes(range(78))
    assert [item.sha256 for item in device.digest(pages)] == [
        sha256(content[:48]),
        sha256(content[48:68]),
        sha256(content[68:]),
    ]


def test_the_pages_of_a_layer_are_gathered_in_the_order_of_its_bytes() -> None:
    """Slots in any order, strides left out, a copy: what is done to it does not reach the pool."""
    fixed = FixedPool(pages=8, page_stride_bytes=(16, 32, 16), group_slots=((6, 2, 5), (3,)))
    with HostDevice("host0", pool_bytes=4096, arena_bytes=ARENA_BYTES, fixed_pool=fixed) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        arena = placement.acquire(0)
        arena.memory[:78] = bytes(range(78))
        placement.place(arena, used_bytes=78, spans=WHOLE)
        placement.settle()
        assert device.xp is np
        gathered = [device.layer_pages(pages, layer=layer) for layer in range(3)]
        assert [(one.shape, one.dtype) for one in gathered] == [
            ((3, 16), np.uint8),
            ((1, 20), np.uint8),
            ((1, 10), np.uint8),
        ]
        assert b"".join(one.tobytes() for one in gathered) == bytes(range(78))
        gathered[0][:] = 0
        assert device.digest(pages)[0].sha256 == sha256(bytes(range(48)))
        for layer in (-1, 3):
            with pytest.raises(DeviceError, match="expected one of 3 layers"):
                device.layer_pages(pages, layer=layer)
        device.discard(pages)
        with pytest.raises(DeviceError, match="discarded"):
            device.layer_pages(pages, layer=0)


BAD_SPANS = {
    "past the used bytes": (span(0, at=70, count=16),),
    "before the arena": (span(0, at=-1),),
    "empty": (span(0, count=0),),
    "negative": (span(0, count=-1),),
    "unknown layer": (span(3),),
    "negative layer": (span(-1),),
    "payload does not start at 0": (span(0, snapshot=1),),
    "payload gap": (span(0, count=48), span(1, at=48, snapshot=49, count=20)),
    "payload repeated": (span(0, count=48), span(1, at=48, snapshot=0, count=20)),
    "layer does not start at 0": (span(0, offset=1),),
    "layer gap": (span(0, count=16), span(0, at=16, snapshot=16, offset=17)),
    "past the layer": (span(0, count=49),),
}


@pytest.mark.parametrize("spans", BAD_SPANS.values(), ids=BAD_SPANS.keys())
def test_a_span_that_breaks_a_rule(device: HostDevice, pages: PageSet, spans: tuple[CopySpan, ...]) -> None:
    placement = begin(device, pages)
    arena = placement.acquire(0)
    with pytest.raises(DeviceError, match="copy span"):
        placement.place(arena, used_bytes=78, spans=spans)
    placement.abort()
    assert [item.sha256 for item in device.digest(pages)] == [
        sha256(bytes([FILL_BYTE]) * size) for size in (48, 20, 10)
    ]


def test_incomplete_coverage_does_not_settle(device: HostDevice, pages: PageSet) -> None:
    placement = begin(device, pages)
    placement.place(placement.acquire(0), used_bytes=78, spans=WHOLE[:2])
    with pytest.raises(DeviceError, match="78 bytes placed, error word 0, found 68"):
        placement.settle()
    placement.abort()
    with pytest.raises(DeviceError, match="over"):
        placement.acquire(0)


def test_the_kernel_checks_bounds_again_and_the_error_word_fails_the_placement(
    device: HostDevice, pages: PageSet
) -> None:
    placement = begin(device, pages)
    placement.place(placement.acquire(0), used_bytes=78, spans=WHOLE)
    placement.run_copies(memoryview(bytearray(78)), used_bytes=5, spans=WHOLE)
    with pytest.raises(DeviceError, match="found 78 bytes placed, error word 1"):
        placement.settle()


def test_one_placement_at_a_time(device: HostDevice, pages: PageSet) -> None:
    placement = begin(device, pages)
    with pytest.raises(DeviceError, match="no open placement"):
        begin(device, pages)
    placement.abort()
    placement.abort()
    begin(device, pages).abort()


def test_an_arena_is_taken_once_and_placed_only_while_it_is_filling(
    device: HostDevice, pages: PageSet
) -> None:
    placement = begin(device, pages)
    arena = placement.acquire(1)
    with pytest.raises(DeviceError, match="arena 1: expected free or in flight, found filling"):
        placement.acquire(1)
    with pytest.raises(DeviceError, match="with 4097 bytes"):
        placement.place(arena, used_bytes=ARENA_BYTES + 1, spans=())
    placement.place(arena, used_bytes=48, spans=WHOLE[:1])
    with pytest.raises(DeviceError, match="expected filling"):
        placement.place(arena, used_bytes=48, spans=())


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


@pytest.mark.parametrize(
    "slots",
    [((0, 2, 3), (1,)), ((1, 1, 2), (1,)), ((1, 2, 24), (1,)), ((1, 2), (1,)), ((1, 2, -1), (1,))],
    ids=["slot 0", "a slot twice", "past the pool", "too few", "negative"],
)
def test_slots_that_cannot_be_used(slots: tuple[tuple[int, ...], ...]) -> None:
    fixed = FixedPool(pages=24, page_stride_bytes=(16, 20, 16), group_slots=slots)
    with HostDevice("host0", pool_bytes=4096, arena_bytes=ARENA_BYTES, fixed_pool=fixed) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        with pytest.raises(DeviceError, match="slots of group 0"):
            begin(device, pages)


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
