"""What every device promises: pages, arenas, the rules of a placement (restore-contract §3, §4, §6)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.core.digest import sha256
from app.core.errors import DeviceError
from app.core.restore.device import ArenaMode, ArenaState, PageSet
from app.core.restore.host_pool import FILL_BYTE
from app.core.restore.page_slots import FixedPool
from app.core.restore.plan import CopySpan

from .cases import (
    ARENA_BYTES,
    COUNTS,
    LAYOUT,
    NEED_BYTES,
    PAYLOAD_BYTES,
    WHOLE,
    Kind,
    begin,
    layout_of,
    place_whole,
    span,
)

CONTENT = bytes(range(PAYLOAD_BYTES))
EMPTY = [sha256(bytes([FILL_BYTE]) * size) for size in (48, 20, 10)]
FILLED = [sha256(CONTENT[:48]), sha256(CONTENT[48:68]), sha256(CONTENT[68:])]


@pytest.fixture
def device(kind: Kind) -> Iterator[Any]:
    with kind(pool_bytes=2 * NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        yield device


@pytest.fixture
def pages(device: Any) -> PageSet:
    reserved: PageSet = device.reserve(LAYOUT, block_counts=COUNTS)
    return reserved


def digests(device: Any, pages: PageSet) -> list[str]:
    return [item.sha256 for item in device.digest(pages)]


def test_reserved_pages_hold_the_fill_and_never_slot_0(device: Any, pages: PageSet) -> None:
    assert pages.slots == ((1, 2, 3), (1,))
    found = device.digest(pages)
    assert [(item.name, item.pages, item.bytes) for item in found] == [
        ("a", 3, 48),
        ("s0", 1, 20),
        ("s1", 1, 10),
    ]
    assert digests(device, pages) == EMPTY


def test_several_page_sets_are_resident_as_long_as_the_budget_allows(device: Any, pages: PageSet) -> None:
    assert device.free_bytes == NEED_BYTES
    second = device.reserve(LAYOUT, block_counts=COUNTS)
    assert second.slots == ((4, 5, 6), (2,))
    assert device.free_bytes == 0
    with pytest.raises(DeviceError, match=f"pool of {device.name}: .*0 of 192 bytes free"):
        device.reserve(LAYOUT, block_counts=(1, 1))
    device.discard(pages)
    device.discard(pages)
    assert device.free_bytes == NEED_BYTES
    assert device.reserve(LAYOUT, block_counts=COUNTS).slots == pages.slots


def test_resident_pages_stay_as_they_are_while_the_pool_grows(device: Any, pages: PageSet) -> None:
    placement = begin(device, pages)
    place_whole(placement, content=CONTENT)
    placement.settle()
    device.publish(pages)
    second = device.reserve(LAYOUT, block_counts=COUNTS)
    assert digests(device, pages) == FILLED
    assert digests(device, second) == EMPTY


def test_an_idle_pool_makes_room_for_another_layout(device: Any, pages: PageSet) -> None:
    other = layout_of(32, 16)
    with pytest.raises(DeviceError):
        device.reserve(other, block_counts=(5, 1))
    device.discard(pages)
    assert device.reserve(other, block_counts=(5, 1)).slots == ((1, 2, 3, 4, 5), (1,))
    assert device.free_bytes == device.pool_bytes - 5 * 32 - 16


def test_a_layout_larger_than_the_pool(device: Any) -> None:
    with pytest.raises(DeviceError, match=f"pool of {device.name}"):
        device.reserve(layout_of(2**62, 1), block_counts=(1, 1))


def test_a_prepared_pool_is_what_a_reservation_gets(device: Any) -> None:
    device.prepare_pool(LAYOUT, block_counts=COUNTS)
    assert device.free_bytes == device.pool_bytes
    pages = device.reserve(LAYOUT, block_counts=COUNTS)
    assert pages.slots == ((1, 2, 3), (1,))
    assert digests(device, pages) == EMPTY


def test_pages_are_published_once_and_read_until_discarded(device: Any, pages: PageSet) -> None:
    device.publish(pages)
    with pytest.raises(DeviceError, match="expected private, found published"):
        device.publish(pages)
    with pytest.raises(DeviceError, match="expected private, found published"):
        begin(device, pages)
    with pytest.raises(DeviceError, match="expected private, found published"):
        device.fence(pages, producer=device.producer())
    device.digest(pages)
    device.discard(pages)
    with pytest.raises(DeviceError, match="discarded"):
        device.digest(pages)
    with pytest.raises(DeviceError, match="expected private, found discarded"):
        device.publish(pages)


def test_pages_are_published_only_once_their_placement_has_settled(device: Any, pages: PageSet) -> None:
    """Restore-contract §6: an aborted transaction can never resume the request."""
    placement = begin(device, pages)
    for _ in range(2):
        with pytest.raises(DeviceError, match="expected a settled placement"):
            device.publish(pages)
        placement.abort()
    again = begin(device, pages)
    place_whole(again, content=CONTENT)
    again.settle()
    device.publish(pages)
    assert digests(device, pages) == FILLED


def test_pages_of_another_device(device: Any, pages: PageSet) -> None:
    with pytest.raises(DeviceError, match="foreign"):
        device.digest(replace(pages, device="host1"))
    for number in (0, 99):
        with pytest.raises(DeviceError, match="foreign"):
            device.discard(replace(pages, number=number))


def test_a_whole_placement_settles_with_its_statistics(device: Any, pages: PageSet) -> None:
    device.fence(pages, producer=device.producer())
    placement = begin(device, pages)
    place_whole(placement, content=CONTENT)
    staged = PAYLOAD_BYTES if device.arena_mode is ArenaMode.STAGED else 0
    assert placement.settle().to_document() == {
        "source_bytes": PAYLOAD_BYTES,
        "slabs_submitted": 1,
        "scatter_kernel_launches": 1,
        "slot_uploads": 1,
        "destination_table_uploads": 1,
        "staged_host_to_device_bytes": staged,
        "device_error": 0,
    }
    assert [arena.state for arena in device.arenas] == [ArenaState.FREE, ArenaState.FREE]
    assert digests(device, pages) == FILLED


def test_a_filling_may_come_in_pieces_through_both_arenas(device: Any, pages: PageSet) -> None:
    """Nine fillings in turn, pages cut anywhere; every arena is taken again while it may be in flight."""
    placement = begin(device, pages)
    at = 0
    for number, used in enumerate((16, 5, 11, 7, 9, 3, 17, 4, 6)):
        arena = placement.acquire(number % 2)
        arena.memory[:used] = CONTENT[at : at + used]
        placement.place(arena, used_bytes=used, spans=cut(at, used_bytes=used))
        at += used
    assert at == PAYLOAD_BYTES
    assert placement.settle().slabs_submitted == 9
    assert digests(device, pages) == FILLED


def cut(start: int, *, used_bytes: int) -> list[CopySpan]:
    """The spans of a filling that holds these payload bytes."""
    found = []
    for destination, (first, length) in enumerate(((0, 48), (48, 20), (68, 10))):
        low, high = max(start, first), min(start + used_bytes, first + length)
        if low < high:
            found.append(
                span(destination, at=low - start, snapshot=low, offset=low - first, count=high - low)
            )
    return found


def test_the_pages_of_a_layer_are_gathered_in_the_order_of_its_bytes(kind: Kind) -> None:
    """Slots in any order, strides left out, a copy: what is done to it does not reach the pool."""
    fixed = FixedPool(pages=8, page_stride_bytes=(16, 32, 16), group_slots=((6, 2, 5), (3,)))
    with kind(pool_bytes=4096, arena_bytes=ARENA_BYTES, fixed_pool=fixed) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        place_whole(placement, content=CONTENT)
        placement.settle()
        gathered = [device.layer_pages(pages, layer=layer) for layer in range(3)]
        assert all(isinstance(one, device.xp.ndarray) for one in gathered)
        assert [(one.shape, one.dtype) for one in gathered] == [
            ((3, 16), device.xp.uint8),
            ((1, 20), device.xp.uint8),
            ((1, 10), device.xp.uint8),
        ]
        assert b"".join(one.tobytes() for one in gathered) == CONTENT
        gathered[0][:] = 0
        assert digests(device, pages) == FILLED
        for number in (-1, 3):
            with pytest.raises(DeviceError, match="expected one of 3 layers"):
                device.layer_pages(pages, layer=number)
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
def test_a_span_that_breaks_a_rule(device: Any, pages: PageSet, spans: tuple[CopySpan, ...]) -> None:
    placement = begin(device, pages)
    arena = placement.acquire(0)
    with pytest.raises(DeviceError, match="copy span"):
        placement.place(arena, used_bytes=PAYLOAD_BYTES, spans=spans)
    placement.abort()
    assert digests(device, pages) == EMPTY


def test_incomplete_coverage_does_not_settle(device: Any, pages: PageSet) -> None:
    placement = begin(device, pages)
    placement.place(placement.acquire(0), used_bytes=PAYLOAD_BYTES, spans=WHOLE[:2])
    with pytest.raises(DeviceError, match="78 bytes placed, error word 0, found 68"):
        placement.settle()
    placement.abort()
    with pytest.raises(DeviceError, match="over"):
        placement.acquire(0)
    with pytest.raises(DeviceError, match="over"):
        placement.settle()


def test_one_placement_at_a_time(device: Any, pages: PageSet) -> None:
    placement = begin(device, pages)
    with pytest.raises(DeviceError, match="no open placement"):
        begin(device, pages)
    placement.abort()
    placement.abort()
    begin(device, pages).abort()


def test_an_arena_is_taken_once_and_placed_only_while_it_is_filling(device: Any, pages: PageSet) -> None:
    placement = begin(device, pages)
    arena = placement.acquire(1)
    with pytest.raises(DeviceError, match="arena 1: expected free or in flight, found filling"):
        placement.acquire(1)
    with pytest.raises(DeviceError, match="with 4097 bytes"):
        placement.place(arena, used_bytes=ARENA_BYTES + 1, spans=())
    placement.place(arena, used_bytes=48, spans=WHOLE[:1])
    assert arena.state is ArenaState.IN_FLIGHT
    with pytest.raises(DeviceError, match="expected filling"):
        placement.place(arena, used_bytes=48, spans=())


def test_adopted_memory_stands_in_for_an_arena_and_is_given_back_in_order(
    device: Any, pages: PageSet
) -> None:
    """Both of memory the device lent for that and of any other."""
    placement = begin(device, pages)
    lent, other = device.host_memory(4096), memoryview(bytearray(CONTENT[48:]))
    lent[:48] = CONTENT[:48]
    done: list[int] = []
    moved = [replace(one, arena_offset=one.arena_offset - 48) for one in WHOLE[1:]]
    for number, (memory, spans) in enumerate(((lent[:48], WHOLE[:1]), (other, moved))):
        arena = placement.acquire(0, adopt=memory)
        assert arena.state is ArenaState.FILLING
        assert arena.memory[: len(memory)] == memory
        placement.place(
            arena, used_bytes=len(memory), spans=spans, done=lambda number=number: done.append(number)
        )
        assert arena.state is ArenaState.IN_FLIGHT
    own = placement.acquire(0)
    assert done == [0, 1]
    assert len(own.memory) == ARENA_BYTES
    placement.place(own, used_bytes=0, spans=())
    placement.settle()
    assert arena.state is ArenaState.FREE
    assert digests(device, pages) == FILLED


@pytest.mark.parametrize(
    "slots",
    [((0, 2, 3), (1,)), ((1, 1, 2), (1,)), ((1, 2, 24), (1,)), ((1, 2), (1,)), ((1, 2, -1), (1,))],
    ids=["slot 0", "a slot twice", "past the pool", "too few", "negative"],
)
def test_slots_that_cannot_be_used(kind: Kind, slots: tuple[tuple[int, ...], ...]) -> None:
    fixed = FixedPool(pages=24, page_stride_bytes=(16, 20, 16), group_slots=slots)
    with kind(pool_bytes=4096, arena_bytes=ARENA_BYTES, fixed_pool=fixed) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        with pytest.raises(DeviceError, match="slots of group 0"):
            begin(device, pages)


def test_a_device_gives_back_what_it_took(kind: Kind) -> None:
    with kind(pool_bytes=4096, arena_bytes=ARENA_BYTES) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        begin(device, pages)
        device.digest(pages)
    driver = getattr(device, "driver", None)
    assert getattr(driver, "allocated", 0) == 0
