"""One rank of one restore, from lookup to settled private pages, in the contract's order of authority.

Source: restore-contract §3 (procedure), §5 (statistics), §6 (failure), §8 (stream digest). The function knows
neither which device it drives nor which clock it reads; whatever goes wrong with the store or the device is
part of its value, and then nothing is left behind: no reader, no buffer, no page.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass

from app.core.digest import Digest, sha256
from app.core.errors import (
    AbsentError,
    CoreError,
    DeviceError,
    FormatError,
    IncompatibleError,
    IntegrityError,
    PlanError,
    ResourceError,
    Stage,
    StoreError,
)
from app.core.restore.buffers import PooledBuffer
from app.core.restore.device import Device, PageSet, Placement, PlacementStats, Producer
from app.core.restore.kernels import copy_bytes
from app.core.restore.plan import PlannedObject, RestoreLimits, RestorePlan, plan_restore
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import Problem, ProblemCode, RankOutcome, RankReport, StreamDigestState
from app.core.restore.stream import PinnedStream, StreamCheck, StreamDigest
from app.core.restore.timeline import Clock, Phase, Timeline
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import FlatSnapshotManifest, parse_flat_manifest
from app.core.store.snapshot import PageLayout, verify_stream_header

# A buffer is held for the copy into an arena and for the stream digest.
_HOLDERS = 2

_VERDICTS: dict[type[CoreError], tuple[RankOutcome, ProblemCode]] = {
    FormatError: (RankOutcome.CORRUPT, ProblemCode.FORMAT),
    IntegrityError: (RankOutcome.CORRUPT, ProblemCode.INTEGRITY),
    AbsentError: (RankOutcome.ABSENT, ProblemCode.ABSENT),
    IncompatibleError: (RankOutcome.INCOMPATIBLE, ProblemCode.INCOMPATIBLE),
    PlanError: (RankOutcome.FAILED, ProblemCode.PLAN),
    DeviceError: (RankOutcome.FAILED, ProblemCode.DEVICE),
    ResourceError: (RankOutcome.FAILED, ProblemCode.RESOURCE),
    CoreError: (RankOutcome.FAILED, ProblemCode.DEVICE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """What one rank is to restore.

    Attributes:
        identity: the asked identity, or ``None`` to judge the stored one by itself.
        storage_key: where the root document is filed.
        span_tokens: the wanted span, or ``None`` for the stored one.
        manifest_sha256: the root document that was registered; any other one is an integrity error.
        stream_pinned: that document passed a complete check before, stream digest included, so the serial
            digest need not be computed again.

    Raises:
        ValueError: pinned without saying which document.
    """

    identity: CacheIdentity | None
    storage_key: Digest
    context_digest: Digest
    layout: PageLayout
    span_tokens: int | None = None
    manifest_sha256: Digest | None = None
    stream_pinned: bool = False

    def __post_init__(self) -> None:
        if self.stream_pinned and self.manifest_sha256 is None:
            raise ValueError("stream_pinned: expected with the manifest_sha256 it holds for, found without")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a restore has come, after each submission."""

    objects_done: int
    objects_total: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRestore:
    """The report, and the settled private pages if the outcome is ``restored``."""

    report: RankReport
    pages: PageSet | None


def restore_rank(
    order: RankOrder,
    *,
    reader: BoundedReader,
    device: Device,
    clock: Clock,
    producer: Producer,
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> RankRestore:
    """Restore one rank into private pages of a device.

    Args:
        order: what to restore.
        reader: the rank's root.
        device: where to; it must run no other placement.
        clock: monotonic ns.
        producer: whoever may still write to the device's pages; no byte is placed before it is waited for.
        progress: told after each submission.
        cancelled: asked between batches.

    Returns:
        The report with its outcome. Unless it is ``restored``, every page, buffer and reader is given back.
    """
    run = _Run(order, reader=reader, device=device, clock=clock)
    try:
        pages = run.restore(producer=producer, progress=progress or _ignore, cancelled=cancelled or _never)
        return RankRestore(report=run.report(RankOutcome.RESTORED, problem=None), pages=pages)
    except _CancelledError as error:
        run.unwind()
        problem = _describe(error, code=ProblemCode.CANCELLED)
        return RankRestore(report=run.report(RankOutcome.CANCELLED, problem=problem), pages=None)
    except CoreError as error:
        run.unwind()
        outcome, code = next(verdict for kind, verdict in _VERDICTS.items() if isinstance(error, kind))
        return RankRestore(report=run.report(outcome, problem=_describe(error, code=code)), pages=None)
    except BaseException:
        run.unwind()
        raise


class _CancelledError(CoreError):
    """The caller no longer wants the restore."""


class _Run:
    """The state of one restore while it runs; ``restore`` reads like restore-contract §3."""

    def __init__(self, order: RankOrder, *, reader: BoundedReader, device: Device, clock: Clock) -> None:
        self._order = order
        self._reader = reader
        self._device = device
        self._clock = clock
        self._timeline = Timeline(clock)
        self._stream: StreamCheck | None = None
        self._upcoming: deque[PlannedObject] = deque()
        self._started: deque[Load] = deque()
        self._loads: list[Load] = []
        self._pages: PageSet | None = None
        self._placement: Placement | None = None
        self._statistics: PlacementStats | None = None
        self._manifest_sha256: Digest | None = None
        self._objects = 0
        self._bytes = 0
        self._stream_digest = StreamDigestState.NOT_REACHED

    def restore(
        self, *, producer: Producer, progress: Callable[[Progress], None], cancelled: Callable[[], bool]
    ) -> PageSet:
        """Steps 1 to 11 of the contract."""
        manifest = self._look_up()
        with self._timeline.phase(Phase.PLANNING):
            plan = plan_restore(manifest, layout=self._order.layout, limits=self._limits())
        self._require_unchanged(manifest)
        with self._timeline.phase(Phase.RESERVATION):
            pages = self._device.reserve(plan.layout, block_counts=plan.block_counts)
            self._pages = pages
        self._stream = PinnedStream() if self._order.stream_pinned else StreamDigest()
        self._upcoming.extend(item for batch in plan.batches for item in batch)
        for batch in plan.batches:
            if cancelled():
                raise _CancelledError(
                    "restore", expected="to be wanted", found="a cancellation between batches"
                )
            loads = self._authenticate(len(batch), stream=self._stream)
            placement = self._placement or self._begin(plan, first=loads[0], pages=pages, producer=producer)
            for load in loads:
                self._submit(load, placement=placement)
                progress(self._progress(plan))
                self._read_ahead(stream=self._stream)
        self._finish(plan, stream=self._stream)
        return pages

    def unwind(self) -> None:
        """Leave nothing behind (restore-contract §6): no reader, no digest thread, no buffer, no page."""
        for load in self._loads:
            if load.authentic.cancel():
                load.filled.set()
        wait([load.authentic for load in self._loads])
        if self._stream is not None:
            self._stream.abandon()
        for load in self._loads:
            load.buffer.drop()
        if self._placement is not None:
            self._placement.abort()
        if self._pages is not None:
            self._device.discard(self._pages)

    def report(self, outcome: RankOutcome, *, problem: Problem | None) -> RankReport:
        """What was measured up to now."""
        return RankReport(
            outcome=outcome,
            problem=problem,
            manifest_sha256=self._manifest_sha256,
            objects=self._objects,
            bytes=self._bytes,
            intervals_ns=self._timeline.intervals,
            service_ns=self._timeline.elapsed_ns(),
            reader_work_ns=sum(load.work_ns for load in self._loads),
            readers=self._reader.readers,
            stream_digest=self._stream_digest,
            submissions=self._objects,
            statistics=self._statistics,
        )

    def _look_up(self) -> FlatSnapshotManifest:
        """Step 2: the metadata level of store-format §13.1, for the registered document if there is one."""
        order = self._order
        with self._timeline.phase(Phase.MANIFEST_LOOKUP):
            raw = self._read_root()
            found = sha256(raw)
            if order.manifest_sha256 not in (None, found):
                raise IntegrityError(
                    "root document", expected=f"SHA-256 {order.manifest_sha256}", found=found
                )
            manifest = parse_flat_manifest(raw, identity=order.identity, context_digest=order.context_digest)
            self._manifest_sha256 = found
            _check_ordered(manifest, order=order)
            return manifest

    def _require_unchanged(self, manifest: FlatSnapshotManifest) -> None:
        """Step 2, second half: equal bytes have an equal value and pass the same checks."""
        with self._timeline.phase(Phase.MANIFEST_LOOKUP):
            found = sha256(self._read_root())
            if found != manifest.sha256:
                raise IntegrityError(
                    "root document", expected=f"still SHA-256 {manifest.sha256}", found=found
                )

    def _read_root(self) -> bytes:
        name = DocumentName(storage_key=self._order.storage_key, context_digest=self._order.context_digest)
        return self._reader.read_document(name)

    def _limits(self) -> RestoreLimits:
        contract = RestoreLimits()
        buffers = self._reader.buffers
        return RestoreLimits(
            object_bytes=min(contract.object_bytes, self._device.arena_bytes, buffers.buffer_bytes),
            batch_objects=min(contract.batch_objects, buffers.count),
        )

    def _authenticate(self, count: int, *, stream: StreamCheck) -> list[Load]:
        """Steps 4 and 8: every object of the batch is authentic, or none of it goes any further."""
        self._start_reads(count, stream=stream)
        loads = [self._started.popleft() for _ in range(count)]
        with self._timeline.phase(Phase.READ_AUTHENTICATE):
            wait([load.authentic for load in loads])
            for load in loads:
                load.authentic.result()
        return loads

    def _start_reads(self, count: int, *, stream: StreamCheck) -> None:
        if len(self._started) >= count:
            return
        with self._timeline.phase(Phase.BUFFER_WAIT):
            buffers = self._reader.buffers
            if self._objects == 1:
                # Object 0 is let go of before the first batch is read (restore-contract §2).
                buffers.wait_until_idle()
            while len(self._started) < count:
                size = self._upcoming[0].descriptor.byte_count
                self._start(buffers.take(size, holders=_HOLDERS), stream=stream)

    def _read_ahead(self, *, stream: StreamCheck) -> None:
        """Start what buffers are free for; placement of this batch goes on meanwhile (step 8)."""
        if self._objects == 1:
            return
        while self._upcoming:
            size = self._upcoming[0].descriptor.byte_count
            buffer = self._reader.buffers.take_if_free(size, holders=_HOLDERS)
            if buffer is None:
                return
            self._start(buffer, stream=stream)

    def _start(self, buffer: PooledBuffer, *, stream: StreamCheck) -> None:
        load = self._reader.start(self._upcoming.popleft(), buffer=buffer, clock=self._clock)
        self._loads.append(load)
        self._started.append(load)
        stream.follow(load)

    def _begin(self, plan: RestorePlan, *, first: Load, pages: PageSet, producer: Producer) -> Placement:
        """Steps 5, 1 and 6: header of the authentic object 0, then the fence, then the transaction."""
        with self._timeline.phase(Phase.PLANNING):
            verify_stream_header(first.buffer.memory, expected=plan.header)
        with self._timeline.phase(Phase.PRIOR_DEVICE_WORK):
            self._device.fence(pages, producer=producer)
        with self._timeline.phase(Phase.RESERVATION):
            self._placement = self._device.begin(pages, layers=plan.layers, payload_bytes=plan.payload_bytes)
        return self._placement

    def _submit(self, load: Load, *, placement: Placement) -> None:
        """Step 7, and the end of step 8: one object through its arena."""
        size = load.planned.descriptor.byte_count
        with self._timeline.phase(Phase.ARENA_WAIT):
            arena = placement.acquire(load.planned.arena)
        with self._timeline.phase(Phase.HOST_COPY):
            copy_bytes(load.buffer.memory, target=arena.memory[:size])
            load.buffer.let_go()
        with self._timeline.phase(Phase.SUBMISSION):
            placement.place(arena, used_bytes=size, spans=load.planned.spans)
        self._objects += 1
        self._bytes += size

    def _progress(self, plan: RestorePlan) -> Progress:
        return Progress(
            objects_done=self._objects,
            objects_total=plan.object_count,
            bytes_done=self._bytes,
            bytes_total=plan.source_bytes,
        )

    def _finish(self, plan: RestorePlan, *, stream: StreamCheck) -> None:
        """Steps 9, 10 and 11: the stream digest must agree before the transaction may settle."""
        with self._timeline.phase(Phase.STREAM_DIGEST_WAIT):
            found = stream.finish()
        if found not in (None, plan.snapshot_sha256):
            raise IntegrityError(
                "stream", expected=plan.snapshot_sha256, found=str(found), stage=Stage.STREAM
            )
        self._stream_digest = StreamDigestState.PINNED if found is None else StreamDigestState.RECOMPUTED
        with self._timeline.phase(Phase.FINAL_COMPLETION):
            placement = self._placement
            if placement is None:
                raise RuntimeError("a plan without objects was executed")
            self._statistics = placement.settle()
            _check_statistics(self._statistics, plan=plan)


def _check_ordered(manifest: FlatSnapshotManifest, *, order: RankOrder) -> None:
    if manifest.identity.storage_key != order.storage_key:
        raise IncompatibleError(
            "root document.identity",
            expected=f"the one with storage key {order.storage_key}",
            found=manifest.identity.storage_key,
        )
    if order.span_tokens not in (None, manifest.committed_tokens):
        raise IncompatibleError(
            "root document.committed_tokens",
            expected=f"the wanted span of {order.span_tokens} tokens",
            found=str(manifest.committed_tokens),
        )


def _check_statistics(found: PlacementStats, *, plan: RestorePlan) -> None:
    """Restore-contract §5: any difference fails the restore."""
    expected = PlacementStats(
        source_bytes=plan.source_bytes,
        slabs_submitted=plan.object_count,
        scatter_kernel_launches=plan.object_count,
        slot_uploads=1,
        destination_table_uploads=1,
        staged_host_to_device_bytes=0,
        device_error=0,
    )
    if found != expected:
        raise DeviceError("placement statistics", expected=str(expected), found=str(found))


def _describe(error: CoreError, *, code: ProblemCode) -> Problem:
    return Problem(
        code=code,
        subject=error.subject,
        stage=error.stage if isinstance(error, StoreError) else None,
        expected=error.expected,
        found=error.found,
        detail=str(error),
    )


def _ignore(progress: Progress) -> None:
    """Nobody wants to know."""


def _never() -> bool:
    return False
