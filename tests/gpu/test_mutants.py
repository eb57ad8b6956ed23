"""What the order of work is for: leave one rule out, and some order shows wrong pages (contract §3.1, §4.1).

Every case is right under every schedule; every mutant is wrong under at least one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from app.core.digest import sha256
from app.core.errors import DeviceError
from app.core.restore.device import ArenaMode, ArenaState, PageSet
from workers.gpu.cuda_arenas import CudaArena
from workers.gpu.cuda_device import CudaDevice, StreamProducer
from workers.gpu.cuda_placement import CudaPlacement
from workers.gpu.cuda_pool import CudaPool
from workers.gpu.driver import Driver, Launch

from .cases import ARENA_BYTES, COUNTS, LAYOUT, NEED_BYTES, PAYLOAD_BYTES, begin
from .schedules import Eager, Late, Lazy, Schedule, Seeded, every_schedule
from .stream_model import ModelDriver
from .test_contract import cut

CONTENT = bytes(range(100, 100 + PAYLOAD_BYTES))
RIGHT = [sha256(CONTENT[:48]), sha256(CONTENT[48:68]), sha256(CONTENT[68:])]
CUTS = (16, 5, 11, 7, 9, 3, 17, 4, 6)
GARBAGE = 0xDD

Case = Callable[[CudaDevice], PageSet]


def fillings() -> Iterator[tuple[int, int, int]]:
    at = 0
    for number, used in enumerate(CUTS):
        yield number, at, used
        at += used


def through_arenas(device: CudaDevice) -> PageSet:
    """Nine fillings through the arenas' own memory, which is taken again and again."""
    pages = device.reserve(LAYOUT, block_counts=COUNTS)
    placement = begin(device, pages)
    for number, at, used in fillings():
        arena = placement.acquire(number % 2)
        arena.memory[:] = bytes([GARBAGE]) * ARENA_BYTES
        arena.memory[:used] = CONTENT[at : at + used]
        placement.place(arena, used_bytes=used, spans=cut(at, used_bytes=used))
    placement.settle()
    return pages


def through_buffers(device: CudaDevice) -> PageSet:
    """Nine fillings from buffers that are overwritten as soon as they are given back."""
    pages = device.reserve(LAYOUT, block_counts=COUNTS)
    placement = begin(device, pages)
    for number, at, used in fillings():
        memory = device.host_memory(64)
        memory[:used] = CONTENT[at : at + used]
        arena = placement.acquire(number % 2, adopt=memory[:used])
        spoil = partial(memory.__setitem__, slice(0, used), bytes([GARBAGE]) * used)
        placement.place(arena, used_bytes=used, spans=cut(at, used_bytes=used), done=spoil)
    placement.settle()
    return pages


def after_another_stream(device: CudaDevice) -> PageSet:
    """Pages that the model runner is still zeroing."""
    pages = device.reserve(LAYOUT, block_counts=COUNTS)
    device.driver.await_stream(device._work)
    runner = device.driver.create_stream()
    device.fill(pages, byte=0, stream=runner)
    device.fence(pages, producer=StreamProducer(device.driver, stream=runner))
    placement = begin(device, pages)
    for number, at, used in fillings():
        arena = placement.acquire(number % 2)
        arena.memory[:used] = CONTENT[at : at + used]
        placement.place(arena, used_bytes=used, spans=cut(at, used_bytes=used))
    placement.settle()
    return pages


def after_an_abort(device: CudaDevice) -> PageSet:
    """The pages of a restore that was given up belong to the next one at once."""
    pages = device.reserve(LAYOUT, block_counts=COUNTS)
    placement = begin(device, pages)
    for number in (0, 1):
        arena = placement.acquire(number)
        arena.memory[:48] = bytes([GARBAGE]) * 48
        spans = cut(0, used_bytes=48) if number == 1 else []
        placement.place(arena, used_bytes=48, spans=spans)
    placement.abort()
    device.discard(pages)
    return through_arenas(device)


CASES: dict[str, Case] = {
    "own memory of the arenas": through_arenas,
    "adopted buffers": through_buffers,
    "behind another stream": after_another_stream,
    "behind an abort": after_an_abort,
}


def is_right(case: Case, *, schedule: Schedule, mode: ArenaMode) -> bool:
    """Whether the pages are right when they are published, and still are when everything has run out."""
    driver = ModelDriver(schedule)
    device = CudaDevice("cuda0", driver=driver, pool_bytes=NEED_BYTES, arena_bytes=ARENA_BYTES, mode=mode)
    try:
        pages = case(device)
        device.publish(pages)
        driver.schedule = Lazy()
        published = [one.sha256 for one in device.digest(pages)]
        driver.drain()
        return published == RIGHT == [one.sha256 for one in device.digest(pages)]
    except (AssertionError, DeviceError):
        return False


def schedules() -> list[Schedule]:
    return [Lazy(), Eager(), *map(Late, range(1, 6)), *map(Seeded, range(20))]


@pytest.mark.parametrize("mode", ArenaMode)
@pytest.mark.parametrize("name", CASES)
def test_every_case_is_right_whatever_runs_when(name: str, mode: ArenaMode) -> None:
    assert all(is_right(CASES[name], schedule=one, mode=mode) for one in schedules())


@pytest.mark.parametrize("mode", ArenaMode)
@pytest.mark.parametrize("name", ["behind another stream", "behind an abort"])
def test_every_choice_of_what_runs_ahead_is_tried(name: str, mode: ArenaMode) -> None:
    tried = 0
    for schedule in every_schedule(5):
        assert is_right(CASES[name], schedule=schedule, mode=mode), schedule.choices
        tried += 1
    assert tried > 30


@contextmanager
def patched(owner: type, name: str, replacement: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield


def no_fence(device: CudaDevice, pages: PageSet, *, producer: Any) -> None:
    """Mutant: what upstream did before 861a965."""


def fence_one_arena(device: CudaDevice, pages: PageSet, *, producer: Any) -> None:
    device.driver.order(device.arenas[0].stream, after=producer.record())


def reuse_at_once(arena: CudaArena) -> None:
    arena.memory = arena._host.memory
    arena.state = ArenaState.FILLING


def settle_nothing(placement: CudaPlacement) -> None:
    """Mutant: the placement is over, but nobody has waited."""


def settle_one_arena(placement: CudaPlacement) -> None:
    placement._arenas[0].settle()


def end_without_waiting(placement: CudaPlacement) -> None:
    """Mutant: late kernels find their pages owned by somebody else, but also their tables given back."""
    placement._end(settled=False)


def done_at_once(driver: Driver, event: int, *, stream: int, call: Callable[[], None]) -> None:
    call()


def own_nothing(pool: CudaPool, slots: Any, *, owner: int) -> None:
    """Mutant: the pages belong to nobody."""


def one_table(arena: CudaArena, spans: Any) -> int:
    WRITE_TABLE(arena, spans)
    arena._free_tables.appendleft(0)
    return 0


WRITE_TABLE = CudaArena._write_table
RECORD = ModelDriver.record
LAUNCH = ModelDriver.launch
COPY_IN = ModelDriver.copy_in


def record_before_the_copies(
    arena: CudaArena, used_bytes: int, *, spans: Any, pages: Any, flight: Any, marks: Any
) -> int:
    arena._driver.record(flight.event, stream=arena.stream)
    with patched(ModelDriver, "record", lambda *_, **__: None):
        return QUEUE(arena, used_bytes, spans=spans, pages=pages, flight=flight, marks=marks)


QUEUE = CudaArena._queue


def launch_on_another_stream(driver: ModelDriver, launch: Launch, *, stream: int) -> None:
    stray = getattr(driver, "stray", None) or driver.create_stream()
    driver.stray = stray  # type: ignore[attr-defined]
    LAUNCH(driver, launch, stream=stray if launch.kernel == "scatter_spans" else stream)


def tables_unordered(device: CudaDevice) -> int:
    """Mutant: an event that stands for nothing, so nobody waits for slots, owners and fills."""
    return device.driver.create_event()


MUTANTS: dict[str, tuple[type, str, Any]] = {
    "no fence": (CudaDevice, "fence", no_fence),
    "a fence before one arena only": (CudaDevice, "fence", fence_one_arena),
    "an arena reused before its event": (CudaArena, "fill", reuse_at_once),
    "published before anything settled": (CudaPlacement, "_drain", settle_nothing),
    "published before one arena settled": (CudaPlacement, "_drain", settle_one_arena),
    "given up without waiting": (CudaPlacement, "abort", end_without_waiting),
    "a buffer given back before its copy": (ModelDriver, "call_when_done", done_at_once),
    "pages that belong to nobody": (CudaPool, "_own", own_nothing),
    "one table of spans for all fillings": (CudaArena, "_write_table", one_table),
    "the event recorded before the copies": (CudaArena, "_queue", record_before_the_copies),
    "kernels on a stream of their own": (ModelDriver, "launch", launch_on_another_stream),
    "uploads nobody waits for": (CudaDevice, "_work_done", tables_unordered),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    with patched(*MUTANTS[name]):
        found = [
            is_right(case, schedule=schedule, mode=mode)
            for mode in ArenaMode
            for case in CASES.values()
            for schedule in schedules()[:12]
        ]
    assert not all(found)


def test_what_frees_memory_under_queued_work_is_caught() -> None:
    driver = ModelDriver(Lazy())
    block, stream = driver.allocate(64), driver.create_stream()
    driver.fill(block, byte=1, byte_count=64, stream=stream)
    driver.release(block)
    with pytest.raises(AssertionError, match="not allocated"):
        driver.drain()
