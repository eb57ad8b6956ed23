"""Whole restores through the CUDA device: every vector to its pool digests, whatever runs when (§12)."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import sha256
from app.core.restore.buffers import BufferPool, PooledBuffer
from app.core.restore.device import ArenaMode, PageSet
from app.core.restore.execute import Progress, RankRestore
from app.core.restore.page_slots import FixedPool
from app.core.restore.report import RankOutcome
from app.core.store.snapshot import PageLayout
from tests.core.rig import BUFFER_BYTES, Vector, flip_byte, opened, restore
from workers.gpu.cuda_device import CudaDevice, StreamProducer

from .cases import GPUS, MODELS, REQUIRE_GPU, Kind
from .schedules import Eager, Lazy, Schedule, Seeded
from .stores import Stored, stored_snapshot
from .stream_model import Lost, ModelDriver

CUDA = [*MODELS, *GPUS]


class SteppedBuffers(BufferPool):
    """Over a model nothing runs by itself: whoever waits for a buffer lets time pass."""

    def __init__(self, device: Any, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        super().__init__(buffer_bytes=buffer_bytes, allocate=device.host_memory)
        self._step: Callable[[], bool] = getattr(device.driver, "step", lambda: False)

    def take(self, byte_count: int, *, holders: int) -> PooledBuffer:
        while (buffer := self.take_if_free(byte_count, holders=holders)) is None:
            if not self._step():
                return super().take(byte_count, holders=holders)
        return buffer


def fixed_pool(vector: Vector) -> FixedPool | None:
    placement = vector.entry.get("placement")
    if placement is None:
        return None
    return FixedPool(
        pages=placement["pool_pages"],
        page_stride_bytes=tuple(placement["page_stride_bytes"]),
        group_slots=tuple(tuple(slots) for slots in placement["group_slots"]),
    )


def restored_on(device: Any, vector: Vector, **options: Any) -> RankRestore:
    buffers = SteppedBuffers(device)
    with opened(vector.root, buffers=buffers) as reader:
        result = restore(vector.order(), reader=reader, device=device, producer=device.producer(), **options)
        assert reader.active_reads == 0
    assert buffers.held_buffers == 0
    return result


@pytest.mark.parametrize("kind", CUDA, ids=lambda kind: kind.name)
def test_every_page_vector_is_restored_to_its_pool_digests(entries: dict[str, Vector], kind: Kind) -> None:
    placed = {name: one for name, one in entries.items() if "placement" in one.entry}
    assert len(placed) >= 8
    for name, vector in placed.items():
        with kind(pool_bytes=1 << 24, arena_bytes=BUFFER_BYTES, fixed_pool=fixed_pool(vector)) as device:
            result = restored_on(device, vector)
            assert result.report.problem is None, name
            assert result.pages is not None
            device.publish(result.pages)
            assert [one.sha256 for one in device.digest(result.pages)] == vector.layer_digests, name
            assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"], name


@pytest.mark.parametrize("kind", CUDA, ids=lambda kind: kind.name)
def test_rows_and_every_other_entry_are_restored_as_the_host_restores_them(
    entries: dict[str, Vector], kind: Kind
) -> None:
    for name, vector in entries.items():
        with vector.device() as host, kind(pool_bytes=1 << 24, arena_bytes=BUFFER_BYTES) as device:
            buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
            with opened(vector.root, buffers=buffers) as reader:
                expected = restore(vector.order(), reader=reader, device=host)
            found = restored_on(device, vector)
            assert found.report.outcome is expected.report.outcome, name
            if expected.pages is None or found.pages is None:
                assert expected.pages is found.pages, name
                continue
            assert device.digest(found.pages) == host.digest(expected.pages), name
            assert found.report.statistics is not None
            staged = found.report.statistics.staged_host_to_device_bytes
            whole = found.report.statistics.source_bytes if device.arena_mode is ArenaMode.STAGED else 0
            assert staged == whole


@pytest.mark.parametrize("seed", range(20))
def test_pages_are_the_same_whatever_runs_when(tmp_path: Path, seed: int) -> None:
    """Made from nothing, so that it runs where there are no vectors; arenas far smaller than the snapshot."""
    stored = stored_snapshot(tmp_path)
    driver = ModelDriver(Seeded(seed))
    mode = ArenaMode.MAPPED if seed % 2 else ArenaMode.STAGED
    with CudaDevice(
        "cuda0", driver=driver, pool_bytes=1 << 24, arena_bytes=stored.object_bytes, mode=mode
    ) as device:
        result = stored.restore(device, buffers=SteppedBuffers(device, buffer_bytes=stored.object_bytes))
        assert result.report.problem is None
        assert result.pages is not None
        assert [one.sha256 for one in device.digest(result.pages)] == stored.layer_digests
    assert len(driver.launches) > result.report.submissions


@pytest.mark.parametrize("kind", CUDA, ids=lambda kind: kind.name)
def test_a_snapshot_made_from_nothing_is_restored(tmp_path: Path, kind: Kind) -> None:
    stored = stored_snapshot(tmp_path)
    with kind(pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        for _ in range(2):
            result = stored.restore(device, buffers=SteppedBuffers(device, buffer_bytes=stored.object_bytes))
            assert result.report.problem is None
            assert result.pages is not None
            device.publish(result.pages)
            assert [one.sha256 for one in device.digest(result.pages)] == stored.layer_digests
            device.discard(result.pages)


@pytest.mark.parametrize("kind", CUDA, ids=lambda kind: kind.name)
def test_a_damaged_object_leaves_nothing_behind(tmp_path: Path, kind: Kind) -> None:
    stored = stored_snapshot(tmp_path)
    flip_byte(stored.object_files[-1])
    with kind(pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        buffers = SteppedBuffers(device, buffer_bytes=stored.object_bytes)
        result = stored.restore(device, buffers=buffers)
        assert (result.report.outcome, result.pages) == (RankOutcome.CORRUPT, None)
        assert result.report.submissions > 0
        assert device.free_bytes == device.pool_bytes
        assert buffers.held_buffers == 0
    assert getattr(device.driver, "allocated", 0) == 0


@pytest.mark.parametrize("after", [1, 5, 15])
def test_a_device_that_is_lost_on_the_way_fails_the_restore_as_a_value(tmp_path: Path, after: int) -> None:
    stored = stored_snapshot(tmp_path)
    driver = Lost()

    def lose(progress: Progress) -> None:
        driver.lost = driver.lost or progress.objects_done == after

    with CudaDevice("cuda0", driver=driver, pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        buffers = SteppedBuffers(device, buffer_bytes=stored.object_bytes)
        result = stored.restore(device, buffers=buffers, progress=lose)
        assert (result.report.outcome, result.pages) == (RankOutcome.FAILED, None)
        assert result.report.problem is not None
        assert result.report.problem.found == "illegal address"
        assert device.free_bytes == device.pool_bytes
        assert buffers.held_buffers == 0


FILL = 0x5A
# Tens of milliseconds of a GPU's memory bandwidth: a restore of this size takes a tenth of that.
LONG_BYTES = 64 << 20
LONG_FILLS = 16 if os.environ.get(REQUIRE_GPU) != "1" else 2000


class BusyDevice(CudaDevice):
    """Reserving pages queues an earlier write to them on the model runner's stream."""

    runner: int

    def reserve(self, layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
        pages = super().reserve(layout, block_counts=block_counts)
        self.driver.await_stream(self._work)
        self.fill(pages, byte=FILL, stream=self.runner)
        return pages


def fenced(schedule: Schedule, stored: Stored, *, producer: Callable[[Any], Any]) -> list[str]:
    """The layers after a restore into pages that somebody else was still writing to."""
    driver = ModelDriver(schedule)
    with BusyDevice("cuda0", driver=driver, pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        device.runner = driver.create_stream()
        buffers = SteppedBuffers(device, buffer_bytes=stored.object_bytes)
        result = stored.restore(device, buffers=buffers, producer=producer(device))
        assert result.report.outcome is RankOutcome.RESTORED
        assert result.pages is not None
        driver.drain()
        return [one.sha256 for one in device.digest(result.pages)]


@pytest.mark.parametrize("schedule", [Lazy(), Eager(), *map(Seeded, range(10))])
def test_the_fence_orders_the_restore_after_the_stream_that_wrote_before(
    tmp_path: Path, schedule: Schedule
) -> None:
    stored = stored_snapshot(tmp_path)
    found = fenced(
        schedule, stored, producer=lambda device: StreamProducer(device.driver, stream=device.runner)
    )
    assert found == stored.layer_digests


def test_without_the_fence_the_pages_contain_the_earlier_writes(tmp_path: Path) -> None:
    """Restore-contract §11, 3: what a restorer that fences another stream than the writer's amounts to."""
    stored = stored_snapshot(tmp_path)
    found = fenced(Lazy(), stored, producer=lambda device: device.producer())
    assert found == [sha256(bytes([FILL]) * size) for size in stored.layer_bytes]


@pytest.mark.parametrize("kind", CUDA, ids=lambda kind: kind.name)
def test_a_slow_writer_is_waited_for(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore-contract §11, 3: the fill of the pages stands behind long work on its own stream."""
    stored = stored_snapshot(tmp_path)
    with kind(pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        driver, runner = device.driver, device.driver.create_stream()
        long = driver.allocate(LONG_BYTES)
        reserve = device.reserve

        def busy(layout: PageLayout, *, block_counts: tuple[int, ...]) -> PageSet:
            pages: PageSet = reserve(layout, block_counts=block_counts)
            driver.await_stream(device._work)
            for _ in range(LONG_FILLS):
                driver.fill(long, byte=1, byte_count=LONG_BYTES, stream=runner)
            device.fill(pages, byte=FILL, stream=runner)
            return pages

        monkeypatch.setattr(device, "reserve", busy)
        producer = StreamProducer(driver, stream=runner)
        buffers = SteppedBuffers(device, buffer_bytes=stored.object_bytes)
        result = stored.restore(device, buffers=buffers, producer=producer)
        assert result.pages is not None
        driver.await_stream(runner)
        assert [one.sha256 for one in device.digest(result.pages)] == stored.layer_digests
        producer.close()
        driver.release(long)
        driver.destroy(streams=(runner,))


def test_a_fence_waits_on_the_device_and_not_on_the_host(tmp_path: Path) -> None:
    """The earlier write has not run when the fence returns, and runs before the first byte is placed."""
    stored = stored_snapshot(tmp_path)
    driver = ModelDriver(Lazy())
    with CudaDevice("cuda0", driver=driver, pool_bytes=1 << 24, arena_bytes=stored.object_bytes) as device:
        pages = device.reserve(stored.layout, block_counts=stored.block_counts)
        runner = driver.create_stream()
        device.fill(pages, byte=FILL, stream=runner)
        written = driver.create_event()
        driver.record(written, stream=runner)
        device.fence(pages, producer=StreamProducer(driver, stream=runner))
        assert not driver.is_done(written)
        driver.await_stream(device.arenas[0].stream)
        assert driver.is_done(written)


def test_buffers_come_back_while_kernels_still_run(tmp_path: Path) -> None:
    """Staged, a buffer is free once its bytes are copied: the readers never wait for a kernel."""
    stored = stored_snapshot(tmp_path)
    kernels = threading.Event()
    with CudaDevice(
        "cuda0", driver=ModelDriver(Lazy()), pool_bytes=1 << 24, arena_bytes=stored.object_bytes
    ) as device:
        pages = device.reserve(stored.layout, block_counts=stored.block_counts)
        placement = device.begin(
            pages, layers=stored.layers, payload_bytes=stored.layers[-1].end - stored.layers[0].start
        )
        memory = device.host_memory(4096)
        arena = placement.acquire(0, adopt=memory)
        first = stored.first_span(4096)
        placement.place(arena, used_bytes=4096, spans=[first], done=kernels.set)
        launched = len(device.driver.launches)  # type: ignore[attr-defined]
        placement.acquire(0)
        assert kernels.is_set()
        assert launched == 1
        placement.abort()
