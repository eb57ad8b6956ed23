"""One rank of one restore, from lookup to settled private pages, in the contract's order of authority.

Source: restore-contract §3 (procedure), §5 (statistics), §6 (failure), §8 (stream digest), §9 (deltas). The
function knows neither which device it drives, nor which kind of entry it restores, nor which clock it reads;
whatever goes wrong with the store or the device is part of its value, and then nothing is left behind: no
reader, no buffer, no page.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from app.core.digest import Digest
from app.core.errors import AbsentError, CoreError, DeviceError
from app.core.restore.buffers import PooledBuffer
from app.core.restore.conditions import Conditions
from app.core.restore.device import Arena, ArenaMode, Device, PageSet, Placement, PlacementStats, Producer
from app.core.restore.feed import Feed
from app.core.restore.heads import Head
from app.core.restore.kernels import copy_bytes
from app.core.restore.lookup import RankOrder, RankPlan, find_ordered, plan_entry, require_unchanged
from app.core.restore.outcome import CancelledError, judge_error
from app.core.restore.plan import ARENA_COUNT, RestoreLimits, Schedule, Submission, Take
from app.core.restore.reader import BoundedReader, Load
from app.core.restore.report import Problem, RankOutcome, RankReport, StreamDigestState
from app.core.restore.stream import PinnedStream, StreamCheck, StreamDigest
from app.core.restore.timeline import Clock, Phase, Timeline
from app.core.store.entry import Entry
from app.core.store.files import MissingObjectError
from app.core.store.manifest import RootKind

__all__ = ["Progress", "RankOrder", "RankRestore", "restore_rank"]


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
    conditions: Conditions | None = None,
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
        conditions: what the caller knows of the circumstances, for the report.

    Returns:
        The report with its outcome. Unless it is ``restored``, every page, buffer and reader is given back.
    """
    run = _Run(order, reader=reader, device=device, clock=clock)
    conditions = conditions or Conditions()
    try:
        pages = run.restore(producer=producer, progress=progress or _ignore, cancelled=cancelled or _never)
    except CoreError as error:
        run.unwind()
        outcome, problem = judge_error(run.as_answer(error))
        return RankRestore(report=run.report(outcome, problem=problem, conditions=conditions), pages=None)
    except BaseException:
        run.unwind()
        raise
    report = run.report(RankOutcome.RESTORED, problem=None, conditions=conditions)
    return RankRestore(report=report, pages=pages)


class _Run:
    """The state of one restore while it runs; ``restore`` reads like restore-contract §3."""

    def __init__(self, order: RankOrder, *, reader: BoundedReader, device: Device, clock: Clock) -> None:
        self._order = order
        self._reader = reader
        self._device = device
        self._timeline = Timeline(clock)
        self._check: StreamCheck = PinnedStream() if order.stream_pinned else StreamDigest()
        self._feed = Feed(reader, clock=clock, timeline=self._timeline, check=self._check)
        self._entry: Entry | None = None
        self._pages: PageSet | None = None
        self._placement: Placement | None = None
        self._statistics: PlacementStats | None = None
        self._digested: list[threading.Event | None] = [None] * ARENA_COUNT
        self._objects: set[int] = set()
        self._bytes = 0
        self._submissions = 0
        self._stream_digest = StreamDigestState.NOT_REACHED

    def restore(
        self, *, producer: Producer, progress: Callable[[Progress], None], cancelled: Callable[[], bool]
    ) -> PageSet:
        """Steps 1 to 11 of the contract."""
        plan = self._plan()
        self._read_heads(plan)
        with self._timeline.phase(Phase.PLANNING):
            digested = self._feed.held if plan.early_streams else ()
            schedule = plan.schedule(held=self._feed.held, digested=digested)
            self._check.expect(schedule.streams)
        self._feed.follow(schedule)
        self._feed.read_ahead()
        pages, placement = self._begin(schedule, producer=producer)
        for batch in schedule.batches:
            if cancelled():
                raise CancelledError(
                    "restore", expected="to be wanted", found="a cancellation between batches"
                )
            self._authenticate(batch)
            for submission in batch:
                self._submit(submission, placement=placement)
                progress(self._progress(schedule))
                self._feed.read_ahead()
        self._finish(schedule, placement=placement)
        return pages

    def unwind(self) -> None:
        """Leave nothing behind (restore-contract §6): no reader, no digest thread, no buffer, no page."""
        with self._timeline.phase(Phase.CLEAN_UP), ExitStack() as last_first:
            if self._pages is not None:
                last_first.callback(self._device.discard, self._pages)
            last_first.callback(self._feed.drop)
            if self._placement is not None:
                last_first.callback(self._placement.abort)
            last_first.callback(self._check.abandon)
            last_first.callback(self._feed.stop)

    def as_answer(self, error: CoreError) -> CoreError:
        """An object that nobody has is corrupt, but below an alias absent (store-format §10.3)."""
        below_alias = self._entry is not None and self._entry.kind is RootKind.PREFIX_ALIAS
        if below_alias and isinstance(error, MissingObjectError):
            return AbsentError(error.subject, expected=error.expected, found=error.found, stage=error.stage)
        return error

    def report(self, outcome: RankOutcome, *, problem: Problem | None, conditions: Conditions) -> RankReport:
        """What was measured up to now."""
        manifest_sha256: Digest | None = None if self._entry is None else self._entry.sha256
        return RankReport(
            outcome=outcome,
            problem=problem,
            manifest_sha256=manifest_sha256,
            objects=len(self._objects),
            bytes=self._bytes,
            intervals_ns=self._timeline.intervals,
            service_ns=self._timeline.elapsed_ns(),
            reader_work=self._feed.work(),
            readers=self._reader.readers,
            stream_digest=self._stream_digest,
            submissions=self._submissions,
            statistics=self._statistics,
            conditions=conditions,
        )

    def _plan(self) -> RankPlan:
        """Steps 2 and 3: the document, judged twice; every descriptor, before any object is opened."""
        order, reader = self._order, self._reader
        with self._timeline.phase(Phase.MANIFEST_LOOKUP):
            entry = find_ordered(order, reader=reader)
            self._entry = entry
        with self._timeline.phase(Phase.PLANNING):
            plan = plan_entry(entry, order=order, limits=self._limits())
            self._check.expect(plan.early_streams)
        with self._timeline.phase(Phase.MANIFEST_LOOKUP):
            require_unchanged(entry, order=order, reader=reader)
        return plan

    def _limits(self) -> RestoreLimits:
        contract = RestoreLimits()
        buffers = self._reader.buffers
        return RestoreLimits(
            object_bytes=min(contract.object_bytes, buffers.buffer_bytes),
            arena_bytes=self._device.arena_bytes,
            batch_objects=min(contract.batch_objects, buffers.count, self._reader.readers),
            buffers=min(contract.buffers, buffers.count),
        )

    def _read_heads(self, plan: RankPlan) -> None:
        """Steps 4 and 5: objects that hold a header are authentic before their first byte is looked at."""
        stream = 0 if plan.early_streams else None
        waiting: list[Head] = list(plan.heads)
        while waiting:
            now = waiting[: self._feed.room]
            sources = [head.sources[len(head.parts)] for head in now]
            loads = self._feed.read_heads(sources, stream=stream, beside=plan.beside_head)
            with self._timeline.phase(Phase.PLANNING):
                again = [head for head, load in zip(now, loads, strict=True) if not head.read(load.parts)]
            waiting = [*again, *waiting[len(now) :]]
            self._feed.keep(loads, is_last=not waiting)

    def _begin(self, schedule: Schedule, *, producer: Producer) -> tuple[PageSet, Placement]:
        """Steps 1 and 6: private pages, the fence, then the transaction."""
        with self._timeline.phase(Phase.RESERVATION):
            pages = self._device.reserve(schedule.layout, block_counts=schedule.block_counts)
            self._pages = pages
        with self._timeline.phase(Phase.PRIOR_DEVICE_WORK):
            self._device.fence(pages, producer=producer)
        with self._timeline.phase(Phase.RESERVATION):
            placement = self._device.begin(
                pages, layers=schedule.layers, payload_bytes=schedule.payload_bytes
            )
            self._placement = placement
        return pages, placement

    def _authenticate(self, batch: Sequence[Submission]) -> None:
        """Step 8: every object of the batch is authentic before any submission of it is placed.

        A batch of one submission is placed when its last object is in: its objects are waited for one by one.
        """
        if len(batch) > 1:
            self._feed.authenticate([take.fetch for submission in batch for take in submission.takes])

    def _submit(self, submission: Submission, *, placement: Placement) -> None:
        """Step 7, and the end of step 8: one filling through its arena."""
        adopted = self._adopted(submission, placement=placement)
        arena = self._fill(submission, placement=placement, adopted=adopted)
        with self._timeline.phase(Phase.SUBMISSION):
            if submission.stream is not None:
                filling = arena.memory[: submission.used_bytes]
                done = self._hold(arena, adopted=adopted)
                self._check.follow_filling(filling, stream=submission.stream, done=done)
            placement.place(
                arena,
                used_bytes=submission.used_bytes,
                spans=submission.spans,
                done=None if adopted is None else adopted.let_go,
            )
        self._submissions += 1
        self._bytes += submission.used_bytes
        self._objects.update(take.fetch.source.index for take in submission.takes)

    def _adopted(self, submission: Submission, *, placement: Placement) -> PooledBuffer | None:
        """The authentic buffer that serves as the arena, where device and submission allow it."""
        if placement.adopts_buffers and submission.is_one_buffer:
            return self._feed.take(submission.takes[0].fetch).buffer
        return None

    def _fill(self, submission: Submission, *, placement: Placement, adopted: PooledBuffer | None) -> Arena:
        """An arena with authentic bytes: copied into it, or where they were read (§4.1, ``verified``)."""
        if adopted is not None:
            with self._timeline.phase(Phase.ARENA_WAIT):
                return placement.acquire(submission.arena, adopt=adopted.memory)
        arena = self._acquire(submission.arena, placement=placement)
        for take in submission.takes:
            load = self._feed.take(take.fetch)
            with self._timeline.phase(Phase.HOST_COPY):
                _copy(take, load=load, arena=arena)
                load.buffer.let_go()
            self._feed.read_ahead()
        return arena

    def _acquire(self, index: int, *, placement: Placement) -> Arena:
        """An arena's own memory, which neither copies nor the digest of a result read any more."""
        digested = self._digested[index]
        if digested is not None and not digested.is_set():
            with self._timeline.phase(Phase.STREAM_DIGEST_WAIT):
                digested.wait()
        with self._timeline.phase(Phase.ARENA_WAIT):
            return placement.acquire(index)

    def _hold(self, arena: Arena, *, adopted: PooledBuffer | None) -> Callable[[], None]:
        """Keep a filling as it is until what is returned is called, once its digest is taken."""
        if adopted is not None:
            adopted.hold(1)
            return adopted.let_go
        digested = threading.Event()
        self._digested[arena.index] = digested
        return digested.set

    def _progress(self, schedule: Schedule) -> Progress:
        return Progress(
            objects_done=len(self._objects),
            objects_total=schedule.object_count,
            bytes_done=self._bytes,
            bytes_total=schedule.source_bytes,
        )

    def _finish(self, schedule: Schedule, *, placement: Placement) -> None:
        """Steps 9, 10 and 11: the stream digests must agree before the transaction may settle."""
        with self._timeline.phase(Phase.STREAM_DIGEST_WAIT):
            computed = self._check.finish()
        self._stream_digest = _digest_state(schedule, computed=computed)
        with self._timeline.phase(Phase.FINAL_COMPLETION):
            self._statistics = placement.settle()
            _check_statistics(self._statistics, schedule=schedule, mode=self._device.arena_mode)


def _copy(take: Take, *, load: Load, arena: Arena) -> None:
    for copy in take.copies:
        target = arena.memory[copy.arena_offset : copy.arena_offset + copy.byte_count]
        copy_bytes(load.parts[copy.part][copy.offset : copy.offset + copy.byte_count], target=target)


def _digest_state(schedule: Schedule, *, computed: bool) -> StreamDigestState:
    if not schedule.streams:
        return StreamDigestState.NOT_STATED
    return StreamDigestState.RECOMPUTED if computed else StreamDigestState.PINNED


def _check_statistics(found: PlacementStats, *, schedule: Schedule, mode: ArenaMode) -> None:
    """Restore-contract §5: any difference fails the restore."""
    expected = PlacementStats(
        source_bytes=schedule.source_bytes,
        slabs_submitted=schedule.submissions,
        scatter_kernel_launches=schedule.submissions,
        slot_uploads=1,
        destination_table_uploads=1,
        staged_host_to_device_bytes=schedule.source_bytes if mode is ArenaMode.STAGED else 0,
        device_error=0,
    )
    if found != expected:
        raise DeviceError("placement statistics", expected=str(expected), found=str(found))


def _ignore(progress: Progress) -> None:
    """Nobody wants to know."""


def _never() -> bool:
    return False
