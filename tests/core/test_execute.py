"""How the executor drives readers, arenas and clock, whatever it restores (contract §2, §4.1, §6, §7)."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import Digest, sha256
from app.core.restore.buffers import BufferPool
from app.core.restore.device import Arena, PageSet
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostPlacement
from app.core.restore.plan import CopySpan
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import RankOutcome, parse_report
from app.core.restore.timeline import Phase
from app.core.store.snapshot import LayerSpan

from .rig import BUFFER_BYTES, FakeClock, Vector, flip_byte, opened, restore, restore_at

ObjectFile = Callable[[int], Path]


class CopyingDevice(HostDevice):
    """A device that only copies from its own arenas, as one with pinned memory does."""

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> HostPlacement:
        placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
        placement.adopts_buffers = False
        return placement


def test_one_worker_reads_one_object_after_the_other_in_manifest_order(vector: Vector) -> None:
    order: list[int] = []

    class Watched(BoundedReader):
        def fill(self, load: Load) -> None:
            order.append(load.source.index)
            super().fill(load)

    with vector.device() as device, opened(vector.root, kind=Watched, readers=1) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert reader.peak_reads == 1
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    assert order == list(range(9))
    assert restored.report.readers == 1


@pytest.mark.parametrize(
    ("readers", "bad", "submitted"),
    [
        (1, 0, 0),
        (1, 4, 4),
        (1, 8, 8),
        (2, 4, 3),
        (2, 8, 7),
        (3, 4, 4),
        (3, 8, 7),
        (4, 0, 0),
        (4, 4, 1),
        (4, 8, 5),
    ],
)
def test_a_batch_has_as_many_objects_as_there_are_readers(
    vector: Vector, object_file: ObjectFile, readers: int, bad: int, submitted: int
) -> None:
    """Restore-contract §6, table, for one reader and four; those between by the same rule (§3.8)."""
    flip_byte(object_file(bad))
    with vector.device() as device, opened(vector.root, readers=readers) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
    assert (report.outcome, report.submissions) == (RankOutcome.CORRUPT, submitted)


def test_a_reader_that_is_done_goes_on_while_the_others_of_its_batch_read(vector: Vector) -> None:
    """Two readers: object 1 of the first batch (1, 2) ends only when object 3 of the next has begun."""
    begun = {number: threading.Event() for number in range(9)}
    seen: list[bool] = []

    class Watched(BoundedReader):
        def fill(self, load: Load) -> None:
            begun[load.source.index].set()
            if load.source.index == 1:
                seen.append(begun[3].wait(timeout=60))
            super().fill(load)

    with vector.device() as device, opened(vector.root, kind=Watched, readers=2) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert reader.buffers.peak_bytes <= 4 * BUFFER_BYTES
    assert restored.report.outcome is RankOutcome.RESTORED
    assert seen == [True]


@pytest.mark.parametrize("kind", [HostDevice, CopyingDevice])
def test_pools_are_equal_whether_buffers_or_arenas_are_placed_from(
    vector: Vector, kind: type[HostDevice]
) -> None:
    with vector.device(kind) as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    copied = [one.phase for one in restored.report.intervals_ns].count(Phase.HOST_COPY)
    assert copied == (9 if kind is CopyingDevice else 0)


def test_a_buffer_that_stands_in_for_an_arena_comes_back_when_its_copies_are_done(vector: Vector) -> None:
    """The copies of object 0 are held up: its buffer stays lent although everything else goes on."""
    go = threading.Event()
    lent: list[int] = []

    class HeldUp(HostDevice):
        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
            copy = placement.run_copies

            def held_up(memory: memoryview, *, used_bytes: int, spans: object) -> None:
                go.wait(timeout=60)
                copy(memory, used_bytes=used_bytes, spans=spans)  # type: ignore[arg-type]

            placement.run_copies = held_up  # type: ignore[method-assign, assignment]
            return placement

    class Watched(BoundedReader):
        def fill(self, load: Load) -> None:
            if load.source.index == 3:
                lent.append(self.buffers.held_buffers)
                go.set()
            super().fill(load)

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device(HeldUp) as device, opened(vector.root, kind=Watched, buffers=buffers) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
    assert restored.report.outcome is RankOutcome.RESTORED
    assert lent == [4]


def test_bytes_do_not_change_between_their_submission_and_the_end_of_their_copies(vector: Vector) -> None:
    """The copies of every batch are held up until its last object is submitted (§4.1, §12 "arenas")."""
    submitted: list[Digest] = []
    copied: dict[int, Digest] = {}
    ends = {number: threading.Event() for number in (1, 5, 9)}

    class HeldUp(HostDevice):
        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
            place, copy = placement.place, placement.run_copies

            def placed(arena: Arena, *, used_bytes: int, **more: Any) -> None:
                submitted.append(sha256(arena.memory[:used_bytes]))
                place(arena, used_bytes=used_bytes, **more)
                if len(submitted) in ends:
                    ends[len(submitted)].set()

            def held_up(memory: memoryview, *, used_bytes: int, spans: Sequence[CopySpan]) -> None:
                at = spans[0].snapshot_offset
                end = 1 if at == 0 else 5 if at < 5 * 8191 - 200 else 9
                assert ends[end].wait(timeout=60)
                copy(memory, used_bytes=used_bytes, spans=spans)
                copied[at] = sha256(memory[:used_bytes])

            placement.place = placed  # type: ignore[method-assign, assignment]
            placement.run_copies = held_up  # type: ignore[method-assign, assignment]
            return placement

    with vector.device(HeldUp) as device:
        restore_at(vector.root, order=vector.order(), device=device)
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    assert [copied[at] for at in sorted(copied)] == submitted
    assert len(submitted) == 9


def test_cleaning_up_after_a_failure_is_a_phase_of_its_own(vector: Vector, object_file: ObjectFile) -> None:
    clock = FakeClock()

    class Slow(HostDevice):
        def discard(self, pages: PageSet) -> None:
            clock.pass_ms(30)
            super().discard(pages)

    flip_byte(object_file(5))
    with vector.device(Slow) as device, opened(vector.root) as reader:
        report = restore(vector.order(), reader=reader, device=device, clock=clock).report
    assert report.phases_ns[Phase.CLEAN_UP] == 30_000_000
    assert report.unattributed_ns == 0
    assert report.intervals_ns[-1].phase is Phase.CLEAN_UP
    assert parse_report(report.to_document()) == report


def test_reader_work_is_a_list_of_its_own_that_overlaps(vector: Vector) -> None:
    """Four readers take 10 ms each at the same time: 40 ms of work in 10 ms of service."""
    clock = FakeClock()
    meeting = threading.Barrier(4)

    class Meeting(BoundedReader):
        def fill(self, load: Load) -> None:
            if 1 <= load.source.index <= 4:
                meeting.wait(timeout=60)
                if load.source.index == 1:
                    clock.pass_ms(10)
                meeting.wait(timeout=60)
            super().fill(load)

    with vector.device() as device, opened(vector.root, kind=Meeting) as reader:
        report = restore(vector.order(), reader=reader, device=device, clock=clock).report
    assert [work.bytes for work in report.reader_work] == 8 * [8191] + [1071]
    assert report.reader_work_ns == 40_000_000
    assert report.service_ns == 10_000_000
    assert sum(report.phases_ns.values()) + report.unattributed_ns == report.service_ns


def test_reads_that_never_began_are_not_reader_work(vector: Vector, object_file: ObjectFile) -> None:
    """Objects 2 to 4 wait for the one reader when object 1 turns out to be wrong."""
    flip_byte(object_file(1))
    with vector.device() as device, opened(vector.root, readers=1) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
    read = [work.object for work in report.reader_work]
    assert len(read) == len(set(read)) <= 5
    assert all(work.end_ns <= report.service_ns for work in report.reader_work)
