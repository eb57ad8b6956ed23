"""What may happen only after what (restore-contract §3, §6, §12)."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.digest import Digest, sha256
from app.core.errors import DeviceError, Stage
from app.core.restore.buffers import BufferPool, PooledBuffer
from app.core.restore.device import PageSet, PlacementStats
from app.core.restore.execute import Progress
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostPlacement, HostProducer
from app.core.restore.plan import PlannedObject
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import ProblemCode, RankOutcome, StreamDigestState
from app.core.restore.timeline import Clock, Phase
from app.core.store.snapshot import LayerSpan

from .rig import BUFFER_BYTES, Vector, flip_byte, opened, restore, restore_at

ObjectFile = Callable[[int], Path]


class CountingDevice(HostDevice):
    """Remembers whether a transaction was ever opened, and all that is left to see of it."""

    begun = 0
    placement: HostPlacement

    def begin(self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int) -> HostPlacement:
        self.begun += 1
        self.placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
        return self.placement


@pytest.mark.parametrize(("bad", "submitted"), [(4, 1), (1, 1), (8, 5), (5, 5)])
def test_a_bad_object_leaves_exactly_the_submissions_of_the_batches_before_it(
    vector: Vector, object_file: ObjectFile, bad: int, submitted: int
) -> None:
    flip_byte(object_file(bad))
    with vector.device(CountingDevice) as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert device.begun == 1
        with pytest.raises(DeviceError, match="one that is over"):
            device.placement.settle()
    assert restored.report.outcome is RankOutcome.CORRUPT
    assert restored.report.submissions == submitted
    assert restored.report.problem is not None
    assert restored.report.problem.subject.startswith(f"object {bad} ")
    assert restored.report.problem.stage is Stage.CONTENT
    assert restored.report.stream_digest is StreamDigestState.NOT_REACHED


def test_a_bad_object_0_opens_no_transaction(vector: Vector, object_file: ObjectFile) -> None:
    flip_byte(object_file(0))
    with vector.device(CountingDevice) as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert device.begun == 0
    assert restored.report.submissions == 0
    assert restored.report.problem is not None
    assert restored.report.problem.subject.startswith("object 0 ")


def test_the_first_bad_object_of_a_batch_is_the_one_named(vector: Vector, object_file: ObjectFile) -> None:
    flip_byte(object_file(3))
    object_file(2).unlink()
    with vector.device() as device:
        report = restore_at(vector.root, order=vector.order(), device=device).report
    assert report.problem is not None
    assert report.problem.subject.startswith("object 2 ")
    assert report.problem.stage is Stage.SIZE


def test_the_arenas_alternate_and_object_0_goes_alone(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    taken: list[int] = []

    class Watched(HostDevice):
        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
            acquire = placement.acquire
            placement.acquire = lambda index: (taken.append(index), acquire(index))[1]  # type: ignore[method-assign]
            return placement

    with vector.device(Watched) as device:
        restore_at(vector.root, order=vector.order(), device=device)
    assert taken == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_four_readers_run_at_once(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    meeting = threading.Barrier(4)

    class Meeting(BoundedReader):
        """Objects 1 to 4 only go on when all four have been opened."""

        def fill(self, load: Load) -> None:
            if 1 <= load.planned.index <= 4:
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
            if load.planned.index in (2, 3, 4):
                failed.wait(timeout=60)
            try:
                super().fill(load)
            finally:
                if load.planned.index == 1:
                    failed.set()
            finished.append(load.planned.index)

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
    unwanted = threading.Event()
    started: list[int] = []
    finished: list[int] = []

    class Slow(BoundedReader):
        def fill(self, load: Load) -> None:
            started.append(load.planned.index)
            if load.planned.index > 4:
                unwanted.wait(timeout=60)
            super().fill(load)
            finished.append(load.planned.index)

    placed: list[Progress] = []

    def cancelled() -> bool:
        if len(placed) < 5:
            return False
        unwanted.set()
        return True

    buffers = BufferPool(buffer_bytes=BUFFER_BYTES)
    with vector.device() as device, opened(vector.root, kind=Slow, buffers=buffers) as reader:
        report = restore(
            vector.order(), reader=reader, device=device, progress=placed.append, cancelled=cancelled
        ).report
        assert sorted(finished) == sorted(started)
        assert max(started) > 4
        assert reader.active_reads == 0
        assert buffers.held_buffers == 0
    assert report.outcome is RankOutcome.CANCELLED


def test_object_0_is_let_go_of_before_the_first_batch_is_read(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    held: dict[int, int] = {}

    class Watched(BoundedReader):
        def start(self, planned: PlannedObject, *, buffer: PooledBuffer, clock: Clock) -> Load:
            held[planned.index] = self.buffers.held_buffers
            return super().start(planned, buffer=buffer, clock=clock)

    with vector.device() as device, opened(vector.root, kind=Watched) as reader:
        restore(vector.order(), reader=reader, device=device)
    assert held[0] == 1
    assert held[1] == 1
    assert max(held.values()) <= 4


@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_bit_anywhere_is_corrupt(vector: Vector, object_file: ObjectFile, index: int, place: str) -> None:
    path = object_file(index)
    content = bytearray(path.read_bytes())
    content[0 if place == "first" else -1] ^= 0x80
    path.write_bytes(content)
    with vector.device() as device:
        report = restore_at(vector.root, order=vector.order(), device=device).report
    assert report.outcome is RankOutcome.CORRUPT
    assert report.problem is not None
    assert report.problem.stage is Stage.CONTENT


def test_many_restores_leave_no_thread_descriptor_or_page_behind(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    with vector.device(fixed_pool=None, pool_bytes=80_000) as device, opened(vector.root) as reader:
        counts = []
        for _ in range(30):
            restored = restore(vector.order(), reader=reader, device=device)
            assert restored.pages is not None
            device.discard(restored.pages)
            counts.append((threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))))
        assert device.free_bytes == 80_000
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


def test_a_root_document_that_changes_between_lookup_and_reservation_is_corrupt(vector: Vector) -> None:
    class Changing(BoundedReader):
        reads = 0

        def read_document(self, name: object) -> bytes:
            self.reads += 1
            raw = super().read_document(name)  # type: ignore[arg-type]
            return raw if self.reads == 1 else raw + b" "

    with vector.device() as device, opened(vector.root, kind=Changing) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
        assert reader.peak_reads == 0
    assert report.outcome is RankOutcome.CORRUPT
    assert report.problem is not None
    assert report.problem.code is ProblemCode.INTEGRITY


def test_another_root_document_than_the_registered_one_is_corrupt_not_absent(vector: Vector) -> None:
    with vector.device() as device:
        wrong = vector.order(manifest_sha256=sha256(b"another document"))
        report = restore_at(vector.root, order=wrong, device=device).report
        assert report.outcome is RankOutcome.CORRUPT
        assert report.problem is not None
        assert report.problem.code is ProblemCode.INTEGRITY
        right = vector.order(manifest_sha256=Digest(vector.entry["manifest_sha256"]))
        assert restore_at(vector.root, order=right, device=device).report.outcome is RankOutcome.RESTORED


def test_another_span_than_the_wanted_one_is_incompatible(vector: Vector) -> None:
    with vector.device() as device:
        report = restore_at(vector.root, order=vector.order(span_tokens=512), device=device).report
        assert report.outcome is RankOutcome.INCOMPATIBLE
        right = restore_at(vector.root, order=vector.order(span_tokens=1024), device=device)
        assert right.report.outcome is RankOutcome.RESTORED


def test_a_missing_root_is_absent(vector: Vector, tmp_path: Path) -> None:
    with vector.device() as device:
        report = restore_at(tmp_path / "nowhere", order=vector.order(), device=device).report
    assert report.outcome is RankOutcome.ABSENT


def test_a_cancellation_is_heard_between_batches_and_leaves_nothing(vector: Vector) -> None:
    seen: list[Progress] = []
    with vector.device() as device:
        report = restore_at(
            vector.root,
            order=vector.order(),
            device=device,
            progress=seen.append,
            cancelled=lambda: len(seen) >= 3,
        ).report
        assert device.free_bytes == device.pool_bytes
    assert report.outcome is RankOutcome.CANCELLED
    assert report.submissions == 5
    assert [step.objects_done for step in seen] == [1, 2, 3, 4, 5]
    assert seen[-1].bytes_total == vector.entry["stream_bytes"]


def test_statistics_other_than_planned_fail_the_restore(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-single"]

    class Miscounting(HostDevice):
        def begin(
            self, pages: PageSet, *, layers: tuple[LayerSpan, ...], payload_bytes: int
        ) -> HostPlacement:
            placement = super().begin(pages, layers=layers, payload_bytes=payload_bytes)
            settle = placement.settle

            def miscount() -> PlacementStats:
                found = settle()
                return PlacementStats(**(found.to_document() | {"slot_uploads": 2}))

            placement.settle = miscount  # type: ignore[method-assign]
            return placement

    with vector.device(Miscounting) as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert device.free_bytes == device.pool_bytes
    assert restored.pages is None
    assert restored.report.outcome is RankOutcome.FAILED
    assert restored.report.problem is not None
    assert "slot_uploads" in restored.report.problem.detail


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


def test_phases_come_in_the_order_of_the_contract(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-single"]
    with vector.device() as device:
        report = restore_at(vector.root, order=vector.order(), device=device, producer=HostProducer()).report
    order = [interval.phase for interval in report.intervals_ns]
    assert order == [
        Phase.MANIFEST_LOOKUP,
        Phase.PLANNING,
        Phase.MANIFEST_LOOKUP,
        Phase.RESERVATION,
        Phase.BUFFER_PREPARATION,
        Phase.READ_AUTHENTICATE,
        Phase.PLANNING,
        Phase.PRIOR_DEVICE_WORK,
        Phase.RESERVATION,
        Phase.ARENA_WAIT,
        Phase.HOST_COPY,
        Phase.SUBMISSION,
        Phase.STREAM_DIGEST_WAIT,
        Phase.FINAL_COMPLETION,
    ]
