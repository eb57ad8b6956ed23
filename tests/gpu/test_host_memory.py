"""Pinned memory where the machine gives it, and what is said where it does not."""

import logging
import threading
from dataclasses import replace

import pytest

from app.core.digest import sha256
from app.core.errors import DeviceError, ResourceError
from app.core.restore.device import ArenaMode
from workers.gpu.cuda_device import CudaDevice
from workers.gpu.driver import HostKind, HostMemory
from workers.gpu.host_memory import HostMemories

from .cases import ARENA_BYTES, COUNTS, LAYOUT, NEED_BYTES, PAYLOAD_BYTES, begin, place_whole
from .stream_model import DISCRETE, UNIFIED, Lost, ModelDriver

UNIFIED_READING = replace(UNIFIED, reads_pageable_memory=True)


class NoPins(ModelDriver):
    """A machine that does not page-lock."""

    def pin(self, byte_count: int) -> HostMemory:
        raise ResourceError("pinned memory", expected=f"{byte_count} bytes", found="out of memory")


class Frozen(ModelDriver):
    """A machine whose pinned allocations never return."""

    def pin(self, byte_count: int) -> HostMemory:
        threading.Event().wait(5)
        raise ResourceError("pinned memory", expected="somebody who waits", found="nobody")


class Full(ModelDriver):
    """A machine whose memory is nearly used up."""

    def host_free_bytes(self) -> int:
        return 1 << 20

    def pin(self, byte_count: int) -> HostMemory:
        raise AssertionError("not even tried")


def test_pinned_memory_is_what_is_wanted() -> None:
    memories = HostMemories(ModelDriver())
    taken = memories.take(4096)
    assert (taken.kind, len(taken.memory), memories.notes) == (HostKind.PINNED, 4096, [])
    assert taken.address % 4096 == 0


@pytest.mark.parametrize("driver", [NoPins(), Full()], ids=["refused", "full"])
def test_what_cannot_be_pinned_is_registered(driver: ModelDriver) -> None:
    memories = HostMemories(driver)
    assert memories.take(4096).kind is HostKind.REGISTERED
    (note,) = memories.notes
    assert note.startswith("pinned: 4096 bytes")
    memories.close()
    assert memories.kinds == ()


def test_an_allocation_that_freezes_is_left_behind() -> None:
    memories = HostMemories(Frozen(), patience_s=0.05)
    assert memories.take(4096).kind is HostKind.REGISTERED
    assert memories.notes == ["pinned: 4096 bytes not to be had: no answer within 0.05 s"]


def test_memory_that_can_neither_be_pinned_nor_registered_is_plain() -> None:
    memories = HostMemories(NoPins(facts=UNIFIED))
    taken = memories.take(4096)
    assert (taken.kind, taken.device_address) == (HostKind.PAGEABLE, None)
    assert memories.notes[1] == "registered: the device cannot"
    reading = HostMemories(NoPins(facts=UNIFIED_READING))
    plain = reading.take(4096)
    assert plain.device_address == plain.address


@pytest.mark.parametrize(
    ("driver", "mode", "notes"),
    [
        (ModelDriver(facts=DISCRETE), ArenaMode.STAGED, 0),
        (ModelDriver(facts=UNIFIED), ArenaMode.MAPPED, 0),
        (NoPins(facts=DISCRETE), ArenaMode.STAGED, 2),
        (NoPins(facts=UNIFIED_READING), ArenaMode.MAPPED, 3),
        (NoPins(facts=UNIFIED), ArenaMode.STAGED, 4),
    ],
    ids=["discrete", "unified", "discrete unpinned", "unified reading any memory", "unified unpinned"],
)
def test_every_machine_restores_and_the_mode_is_told(
    driver: ModelDriver, mode: ArenaMode, notes: int, caplog: pytest.LogCaptureFixture
) -> None:
    content = bytes(range(PAYLOAD_BYTES))
    caplog.set_level(logging.INFO)
    with CudaDevice("cuda0", driver=driver, pool_bytes=2 * NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        assert device.arena_mode is mode
        assert device.notes[0].startswith(f"{mode} arenas of ")
        assert driver.facts.model in device.notes[0]
        assert len(device.notes) == 1 + notes
        assert [record.getMessage() for record in caplog.records] == [
            f"device cuda0: {note}" for note in device.notes
        ]
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        place_whole(placement, content=content)
        placement.settle()
        assert device.digest(pages)[0].sha256 == sha256(content[:48])


def test_a_mode_may_be_asked_for_but_not_made_possible() -> None:
    with CudaDevice(
        "cuda0",
        driver=NoPins(facts=UNIFIED),
        pool_bytes=NEED_BYTES,
        arena_bytes=ARENA_BYTES,
        mode=ArenaMode.MAPPED,
    ) as device:
        assert device.arena_mode is ArenaMode.STAGED
        assert device.notes[-1] == "mapped: kernels cannot read the arenas where they lie, so staged"


def test_pages_need_free_device_memory_before_anything_is_allocated() -> None:
    driver = ModelDriver(device_bytes=200_000)
    with CudaDevice(
        "cuda0", driver=driver, pool_bytes=1 << 30, arena_bytes=ARENA_BYTES, mode=ArenaMode.MAPPED
    ) as device:
        before = driver.allocated
        with pytest.raises(DeviceError, match=r"device memory: expected .* bytes free for pages, found"):
            device.reserve(LAYOUT, block_counts=(20_000, 1))
        assert driver.allocated == before
        assert device.free_bytes == device.pool_bytes
        device.reserve(LAYOUT, block_counts=COUNTS)


def test_a_lost_device_fails_the_placement_and_can_be_let_go() -> None:
    driver = Lost()
    with CudaDevice("cuda0", driver=driver, pool_bytes=NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        place_whole(placement, content=bytes(PAYLOAD_BYTES))
        driver.lost = True
        with pytest.raises(DeviceError, match="illegal address"):
            placement.settle()
        placement.abort()
        with pytest.raises(DeviceError, match="expected a settled placement"):
            device.publish(pages)
        device.discard(pages)
        assert device.free_bytes == device.pool_bytes


def test_the_error_word_of_a_kernel_fails_the_placement() -> None:
    """A page that changed hands behind our back: nothing of it is written, the word says so."""
    driver = ModelDriver()
    with CudaDevice("cuda0", driver=driver, pool_bytes=NEED_BYTES, arena_bytes=ARENA_BYTES) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        device._budget.pools[LAYOUT.sha256]._own(pages.slots, owner=77)
        driver.await_stream(device._work)
        place_whole(placement, content=bytes(PAYLOAD_BYTES))
        with pytest.raises(DeviceError, match="error word 5"):
            placement.settle()
        placement.abort()
        with pytest.raises(DeviceError, match="read-back: expected error word 0, found error word 5"):
            device.digest(pages)


def test_the_times_of_fillings_are_measured_when_asked_for() -> None:
    with CudaDevice(
        "cuda0", driver=ModelDriver(), pool_bytes=NEED_BYTES, arena_bytes=ARENA_BYTES, timed=True
    ) as device:
        pages = device.reserve(LAYOUT, block_counts=COUNTS)
        placement = begin(device, pages)
        place_whole(placement, content=bytes(PAYLOAD_BYTES))
        placement.settle()
        assert (placement.times.copy_ns, placement.times.scatter_ns) == (1000, 1000)
