"""How much a restore may hold at once, and that nothing of it is left (restore-contract §2, §6)."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.core.digest import Digest
from app.core.restore.buffers import BufferPool, PooledBuffer
from app.core.restore.device import PageSet
from app.core.restore.execute import Progress
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostPlacement
from app.core.restore.plan import CopySpan, Source
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import ProblemCode, RankOutcome
from app.core.restore.timeline import Clock
from app.core.store.snapshot import LayerSpan

from .rig import BUFFER_BYTES, Vector, flip_byte, opened, restore

ObjectFile = Callable[[int], Path]


def test_four_readers_run_at_once(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    meeting = threading.Barrier(4)

    class Meeting(BoundedReader):
        """Objects 1 to 4 only go on when all four have been opened."""

        def fill(self, load: Load) -> None:
            if 1 <= load.source.index <= 4:
                meeting.wait(timeout=60)
            super().fill(load)

    with vector.device() as device, opened(vector.root, kind=Meeting) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert reader.peak_reads == 4
    assert restored.report.outcome is RankOutcome.RESTORED


@pytest.mark.parametrize(("wanted", "used"), [(1, 1), (2, 2), (4, 4), (32, 4)])
def test_never_more_readers_than_wanted_and_never_more_than_four(
    vectors: dict[str, Vector], wanted: int, used: int
) -> None:
    vector = vectors["flat-v2-tp4-rank2"]
    with vector.device() as device, opened(vector.root, readers=wanted) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert reader.peak_reads <= used
    assert restored.report.readers == used
    assert restored.report.outcome is RankOutcome.RESTORED


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_retained_payload_stays_within_the_stock_of_buffers(vectors: dict[str, Vector], count: int) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    buffers = BufferPool(buffer_bytes=8192, count=count)
    with vector.device() as device, opened(vector.root, buffers=buffers) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
    assert restored.report.outcome is RankOutcome.RESTORED
    assert 8191 <= buffers.peak_bytes <= count * 8191
    assert buffers.held_buffers == 0


def test_an_object_larger_than_a_buffer_is_refused_before_anything_is_opened(
    vectors: dict[str, Vector],
) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    with vector.device() as device, opened(vector.root, buffers=BufferPool(buffer_bytes=4096)) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
        assert reader.peak_reads == 0
    assert report.outcome is RankOutcome.FAILED
    assert report.problem is not None
    assert report.problem.code is ProblemCode.PLAN


def test_a_failed_batch_leaves_no_reader_running_and_no_buffer_held(
    vector: Vector, object_file: ObjectFile
) -> None:
    """Object 1 fails at once while objects 2 to 4 are still held up; they are waited for."""
    object_file(1).unlink()
    failed = threading.Event()
    finished: list[int] = []

    class Slow(BoundedReader):
        def fill(self, load: Load) -> None:
            if load.source.index in (2, 3, 4):
                failed.wait(timeout=60)
            try:
                super().fill(load)
            finally:
                if load.source.index == 1:
                    failed.set()
            finished.append(load.source.index)

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Slow, buffers=buffers) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
        assert reader.active_reads == 0
        assert buffers.held_buffers == 0
        assert device.free_bytes == device.pool_bytes
        assert sorted(finished) == [0, 2, 3, 4]
    assert report.outcome is RankOutcome.CORRUPT
    assert not [thread for thread in threading.enumerate() if thread.name == "stream-digest"]


def test_reads_that_ran_ahead_are_waited_for_when_the_restore_is_cancelled(vector: Vector) -> None:
    """Objects 5 to 8 are being read while objects 1 to 4 are placed; then nobody wants them any more."""
    unwanted, ahead, free = threading.Event(), threading.Event(), threading.Event()
    started: list[int] = []
    finished: list[int] = []

    class Slow(BoundedReader):
        def fill(self, load: Load) -> None:
            started.append(load.source.index)
            if load.source.index > 4:
                ahead.set()
                unwanted.wait(timeout=60)
            super().fill(load)
            finished.append(load.source.index)

    class Stock(BufferPool):
        """Says when a buffer has come back."""

        def give_back(self, buffer: PooledBuffer, *, drop: bool) -> None:
            super().give_back(buffer, drop=drop)
            if self.held_buffers < self.count:
                free.set()

    placed: list[Progress] = []

    def place(step: Progress) -> None:
        placed.append(step)
        if len(placed) == 4:
            free.clear()
        if len(placed) == 5:
            assert free.wait(timeout=60)

    def cancelled() -> bool:
        if len(placed) < 5:
            return False
        assert ahead.wait(timeout=60)
        unwanted.set()
        return True

    # Without a stream digest a buffer is free as soon as its copies are done.
    pinned = vector.order(stream_pinned=True, manifest_sha256=Digest(vector.entry["manifest_sha256"]))
    buffers = Stock(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Slow, buffers=buffers) as reader:
        report = restore(pinned, reader=reader, device=device, progress=place, cancelled=cancelled).report
        assert sorted(finished) == sorted(started)
        assert max(started) > 4
        assert reader.active_reads == 0
        assert buffers.held_buffers == 0
    assert report.outcome is RankOutcome.CANCELLED


def test_nothing_more_is_read_ahead_once_an_object_of_the_batch_is_wrong(
    vector: Vector, object_file: ObjectFile
) -> None:
    """Object 1 fails, then object 0's buffer comes free beside object 2: reading 3 has no use."""
    flip_byte(object_file(1))
    failed, answered = threading.Event(), threading.Event()
    started: list[int] = []

    class Slow(BoundedReader):
        def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
            started.append(source.index)
            return super().start(source, buffer=buffer, clock=clock)

        def read_load(self, load: Load) -> None:
            if load.source.index == 2:
                assert answered.wait(timeout=60)
            super().read_load(load)

    class Late(HostDevice):
        """Copies nothing before object 1 has failed."""

        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
            run_copies = placement.run_copies

            def late(memory: memoryview, *, used_bytes: int, spans: Sequence[CopySpan]) -> None:
                assert failed.wait(timeout=60)
                run_copies(memory, used_bytes=used_bytes, spans=spans)

            placement.run_copies = late  # type: ignore[method-assign]
            return placement

    class Stock(BufferPool):
        """Says when a read has ended, and when whoever waits for a buffer or for the batch has an answer."""

        def take_unless(
            self, over: Callable[[], bool], *, byte_count: int, holders: int
        ) -> PooledBuffer | None:
            try:
                return super().take_unless(over, byte_count=byte_count, holders=holders)
            finally:
                answered.set()

        def wake(self) -> None:
            super().wake()
            failed.set()

    pinned = vector.order(stream_pinned=True, manifest_sha256=Digest(vector.entry["manifest_sha256"]))
    buffers = Stock(buffer_bytes=BUFFER_BYTES, count=3)
    with vector.device(Late) as device, opened(vector.root, kind=Slow, readers=2, buffers=buffers) as reader:
        report = restore(pinned, reader=reader, device=device).report
        assert (reader.active_reads, buffers.held_buffers) == (0, 0)
    assert (report.outcome, started) == (RankOutcome.CORRUPT, [0, 1, 2])


def test_what_is_read_beside_object_0_counts_into_the_bound(vectors: dict[str, Vector]) -> None:
    """Decision 0006: object 0's buffer is one of the four until its copies are done."""
    vector = vectors["flat-v2-tp4-rank0"]
    meeting = threading.Barrier(2)
    held: dict[int, int] = {}

    class Watched(BoundedReader):
        """Objects 0 and 1 only go on when both have been opened."""

        def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
            held[source.index] = self.buffers.held_buffers
            return super().start(source, buffer=buffer, clock=clock)

        def fill(self, load: Load) -> None:
            if load.source.index <= 1:
                meeting.wait(timeout=60)
            super().fill(load)

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Watched, buffers=buffers) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert reader.peak_reads <= 4
    assert restored.report.outcome is RankOutcome.RESTORED
    assert (held[0], held[1]) == (1, 2)
    assert max(held.values()) <= 4
    assert buffers.peak_bytes <= 4 * 8191


def test_with_one_buffer_nothing_is_read_beside_object_0(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    begun: list[int] = []

    class Watched(BoundedReader):
        def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
            begun.append(source.index)
            return super().start(source, buffer=buffer, clock=clock)

        def fill(self, load: Load) -> None:
            if load.source.index == 0:
                assert begun == [0]
            super().fill(load)

    buffers = BufferPool(buffer_bytes=8191, count=1)
    with vector.device() as device, opened(vector.root, kind=Watched, buffers=buffers) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
    assert restored.report.outcome is RankOutcome.RESTORED
    assert buffers.peak_bytes == 8191


def test_a_bad_object_0_awaits_what_is_read_beside_it(vector: Vector, object_file: ObjectFile) -> None:
    """Decision 0006: object 1 is still being read when object 0 turns out to be wrong."""
    flip_byte(object_file(0))
    finished: list[int] = []
    second_began, first_failed = threading.Event(), threading.Event()

    class Slow(BoundedReader):
        def read_load(self, load: Load) -> None:
            if load.source.index == 1:
                second_began.set()
            try:
                assert (second_began if load.source.index == 0 else first_failed).wait(timeout=60)
                super().read_load(load)
            finally:
                finished.append(load.source.index)
                if load.source.index == 0:
                    first_failed.set()

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Slow, buffers=buffers) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
        assert finished == [0, 1]
        assert (reader.active_reads, buffers.held_buffers) == (0, 0)
        assert device.free_bytes == device.pool_bytes
    assert (report.outcome, report.submissions) == (RankOutcome.CORRUPT, 0)


def test_a_bad_object_0_cancels_a_read_that_has_not_begun(vector: Vector, object_file: ObjectFile) -> None:
    """Decision 0006: the one reader is still busy with object 0's failure when object 1 is called off."""
    flip_byte(object_file(0))
    called_off = threading.Event()

    class Busy(BoundedReader):
        def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
            load = super().start(source, buffer=buffer, clock=clock)
            if source.index == 0:
                # Queued behind object 0: while it runs the reader cannot turn to object 1.
                self._threads.submit(called_off.wait, 60)
            else:
                load.authentic.add_done_callback(lambda _: called_off.set())
            return load

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Busy, readers=1, buffers=buffers) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
        assert buffers.held_buffers == 0
    assert [work.bytes for work in report.reader_work] == [8191]
    assert (report.outcome, report.submissions) == (RankOutcome.CORRUPT, 0)


def test_many_restores_leave_no_thread_descriptor_or_page_behind(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    before = threading.active_count()
    with vector.device(fixed_pool=None, pool_bytes=80_000) as device, opened(vector.root) as reader:
        counts = []
        for _ in range(30):
            restored = restore(vector.order(), reader=reader, device=device)
            assert restored.pages is not None
            device.discard(restored.pages)
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
            # Four readers and a thread of copies for each arena, begun when they are first needed.
            assert threading.active_count() <= before + 4 + 2
        assert device.free_bytes == 80_000
    assert threading.active_count() == before
    assert counts[-1] == counts[4]


def test_a_crash_of_the_copies_is_raised_and_leaves_nothing(vector: Vector) -> None:
    class Crashing(HostDevice):
        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)

            def crash(memory: memoryview, *, used_bytes: int, spans: object) -> None:
                raise ZeroDivisionError

            placement.run_copies = crash  # type: ignore[method-assign, assignment]
            return placement

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device(Crashing) as device, opened(vector.root, buffers=buffers) as reader:
        with pytest.raises(ZeroDivisionError):
            restore(vector.order(), reader=reader, device=device)
        assert buffers.held_buffers == 0
        assert reader.active_reads == 0
        assert not [thread for thread in threading.enumerate() if thread.name == "stream-digest"]


def test_a_programming_error_is_raised_and_leaves_nothing(vector: Vector) -> None:
    def broken(step: Progress) -> None:
        raise ZeroDivisionError

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, buffers=buffers) as reader:
        with pytest.raises(ZeroDivisionError):
            restore(vector.order(), reader=reader, device=device, progress=broken)
        assert buffers.held_buffers == 0
        assert device.free_bytes == device.pool_bytes
        again = restore(vector.order(), reader=reader, device=device)
    assert again.report.outcome is RankOutcome.RESTORED
