"""What may happen only after what (restore-contract §3, §6, §12)."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from app.core.digest import Digest, sha256
from app.core.errors import DeviceError, Stage
from app.core.restore.buffers import PooledBuffer
from app.core.restore.device import PageSet, PlacementStats
from app.core.restore.execute import Progress, RankOrder
from app.core.restore.host_device import HostDevice
from app.core.restore.host_placement import HostPlacement, HostProducer
from app.core.restore.plan import Source
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import ProblemCode, RankOutcome, StreamDigestState
from app.core.restore.timeline import Clock, Phase
from app.core.store.identity import parse_identity
from app.core.store.snapshot import LayerSpan

from .rig import Vector, flip_byte, opened, restore, restore_at
from .test_broken import SOURCE

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


def test_nothing_is_done_with_another_object_before_object_0_is_authentic(vector: Vector) -> None:
    """Decision 0006: object 1 is authentic first; it is not placed, and no transaction is opened."""
    second = threading.Event()
    seen: list[tuple[int, bool]] = []

    class Late(BoundedReader):
        """Object 0 is only filled when object 1 is authentic."""

        def start(self, source: Source, *, buffer: PooledBuffer, clock: Clock) -> Load:
            load = super().start(source, buffer=buffer, clock=clock)
            if source.index == 1:
                load.authentic.add_done_callback(lambda _: second.set())
            return load

        def fill(self, load: Load) -> None:
            if load.source.index == 0:
                assert second.wait(timeout=60)
                seen.append((device.begun, self.active_reads == 1))
            super().fill(load)

    with vector.device(CountingDevice) as device, opened(vector.root, kind=Late) as reader:
        restored = restore(vector.order(), reader=reader, device=device)
        assert device.begun == 1
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    assert seen == [(0, True)]
    assert restored.report.stream_digest is StreamDigestState.RECOMPUTED


def test_a_bad_object_read_beside_object_0_is_named_after_object_0_was_submitted(
    vector: Vector, object_file: ObjectFile
) -> None:
    """Decision 0006: the table of restore-contract §6 holds however early object 1 turns out to be wrong."""
    flip_byte(object_file(1))
    failed = threading.Event()

    class Late(BoundedReader):
        def read_load(self, load: Load) -> None:
            if load.source.index == 0:
                assert failed.wait(timeout=60)
            try:
                super().read_load(load)
            finally:
                if load.source.index == 1:
                    failed.set()

    with vector.device() as device, opened(vector.root, kind=Late) as reader:
        report = restore(vector.order(), reader=reader, device=device).report
    assert (report.outcome, report.submissions) == (RankOutcome.CORRUPT, 1)
    assert report.problem is not None
    assert report.problem.subject.startswith("object 1 ")


def test_another_header_in_an_authentic_object_0_opens_no_transaction(
    make_broken: ModuleType, vectors: dict[str, Vector], tmp_path: Path
) -> None:
    """Decision 0006: whatever was read beside it was read for nothing."""
    (variant,) = (one for one in make_broken.VARIANTS if one.name == "flat-header-magic")
    case = make_broken.build(variant, tmp_path)
    identity = parse_identity(case.identity)
    order = RankOrder(
        identity=identity,
        storage_key=identity.storage_key,
        context_digest=Digest(case.context_digest),
        layout=vectors[SOURCE].layout,
    )
    with vectors[SOURCE].device(CountingDevice) as device:
        report = restore_at(case.root, order=order, device=device).report
        assert device.begun == 0
    assert (report.outcome, report.submissions) == (RankOutcome.CORRUPT, 0)
    assert report.problem is not None
    assert report.problem.stage is Stage.HEADER


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
            placement.acquire = lambda index, **more: (taken.append(index), acquire(index, **more))[1]  # type: ignore[method-assign]
            return placement

    with vector.device(Watched) as device:
        restore_at(vector.root, order=vector.order(), device=device)
    assert taken == [0, 1, 0, 1, 0, 1, 0, 1, 0]


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


def test_phases_come_in_the_order_of_the_contract(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-single"]
    with vector.device() as device:
        report = restore_at(vector.root, order=vector.order(), device=device, producer=HostProducer()).report
    order = [interval.phase for interval in report.intervals_ns]
    assert order == [
        Phase.MANIFEST_LOOKUP,
        Phase.PLANNING,
        Phase.MANIFEST_LOOKUP,
        Phase.BUFFER_WAIT,
        Phase.READ_AUTHENTICATE,
        Phase.PLANNING,
        Phase.PLANNING,
        Phase.RESERVATION,
        Phase.PRIOR_DEVICE_WORK,
        Phase.RESERVATION,
        Phase.ARENA_WAIT,
        Phase.SUBMISSION,
        Phase.STREAM_DIGEST_WAIT,
        Phase.FINAL_COMPLETION,
    ]
