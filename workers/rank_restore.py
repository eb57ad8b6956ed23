"""The GPU task: claim, restore, report, then do what all ranks together decided.

A rank's pages are private until the decision says publish, and stay only if every rank has acknowledged it.
Whatever goes wrong on the way, the pages are given back: nothing of a restore that is not `restored` stays.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from app.config import Settings
from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.errors import CoreError, DeviceError, PlanError
from app.core.restore.buffers import BufferPool
from app.core.restore.device import Device, PageSet
from app.core.restore.execute import RankOrder, RankRestore, restore_rank
from app.core.restore.lookup import observe
from app.core.restore.reader import BoundedReader
from app.core.restore.report import Problem, ProblemCode, RankOutcome, RankReport, StreamDigestState
from app.core.store.snapshot import parse_page_layout
from workers.control_client import Claimed, ControlClient, ControlError, ControlUnreachableError, Decision
from workers.heartbeat import Heartbeat
from workers.inventory import is_inside
from workers.rank_oracle import RankOracle, rank_oracle
from workers.runtime import measured_runtime

log = logging.getLogger(__name__)

# A rank that waits is called when something is decided; it polls for the calls it misses.
FIRST_POLL_S: Final = 0.02
LONGEST_POLL_S: Final = 1.0
# After its acknowledgement a rank may be part of a restored whole: it waits long before it gives up.
ACKNOWLEDGED_PATIENCE_S: Final = 600.0
# So many discards can be confirmed again should their answer have been lost.
REMEMBERED: Final = 256


Listening = Callable[[str, Callable[[], None]], AbstractContextManager[None]]


def _no_calls(_restore_id: str, _call: Callable[[], None]) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """Published pages of one attempt, kept until they are asked back."""

    claimed: Claimed
    pages: PageSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What came of one rank's service.

    Attributes:
        started_ns: when the service began, on this process's clock.
        pool_commit_ns: how long committing the pool's pages took just before.
        part: of the answer, where a question was asked of the placed pages.
    """

    started_ns: int
    pool_commit_ns: int
    result: RankRestore
    part: dict[str, Any] | None = None


class RankWorker:
    """One device, its buffers, and the pages that are resident on it; runs one task at a time."""

    def __init__(
        self,
        settings: Settings,
        *,
        client: ControlClient,
        device: Device,
        generation: int,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        listening: Listening = _no_calls,
    ) -> None:
        self._settings = settings
        self._client = client
        self._device = device
        self._generation = generation
        self._clock = clock
        self._sleep = sleep
        self._listening = listening
        self._buffers = BufferPool(allocate=device.host_memory)
        self._residents: dict[str, Resident] = {}
        self._released: dict[str, Claimed] = {}

    def restore(self, attempt_id: str) -> None:
        """Run one rank attempt from claim to its end; a message for a claimed one ends here."""
        asked_ns = self._clock()
        try:
            claimed = self._client.claim(attempt_id, generation=self._generation)
        except (ControlError, ControlUnreachableError) as error:
            log.info("attempt %s: not claimed: %s", attempt_id, error)
            return
        claimed_ns = self._clock()
        with (
            Heartbeat(self._client, claimed=claimed) as heartbeat,
            self._listening(claimed.restore_id, heartbeat.call),
        ):
            try:
                self._run(claimed, heartbeat=heartbeat, asked_ns=asked_ns, claimed_ns=claimed_ns)
            except (ControlError, ControlUnreachableError) as error:
                log.warning("attempt %s: given up: %s", attempt_id, error)

    def _run(self, claimed: Claimed, *, heartbeat: Heartbeat, asked_ns: int, claimed_ns: int) -> None:
        served = self._restore(claimed, heartbeat=heartbeat)
        result = served.result
        document = {
            "report": result.report.to_document(),
            "runtime": measured_runtime(),
            "service_start_ns": served.started_ns - claimed_ns,
            "claim_round_trip_ns": claimed_ns - asked_ns,
            "pool_commit_ns": served.pool_commit_ns,
            **({} if served.part is None else {"oracle": served.part}),
        }
        patience_s = claimed.lease_s
        if result.pages is None:
            self._client.failure(claimed, document=document, patience_s=patience_s)
            return
        kept = False
        try:
            decision = self._client.ready(claimed, document=document, patience_s=patience_s)
            kept = self._follow(claimed, pages=result.pages, decision=decision, heartbeat=heartbeat)
        finally:
            if not kept:
                self._device.discard(result.pages)
        if not kept:
            self._client.retracted(claimed, patience_s=patience_s)

    def _restore(self, claimed: Claimed, *, heartbeat: Heartbeat) -> Served:
        asked_ns = self._clock()
        try:
            order, oracle = self._order(claimed), rank_oracle(claimed)
            device = oracle.device(self._device)
            self._make_room(order)
        except CoreError as error:
            refused = RankRestore(report=_refusal(error), pages=None)
            return Served(started_ns=self._clock(), pool_commit_ns=0, result=refused)
        pool_commit_ns = self._clock() - asked_ns
        with BoundedReader(
            claimed.root_path, readers=self._settings.readers, buffers=self._buffers
        ) as reader:
            conditions = observe(reader, order=order, cores=len(os.sched_getaffinity(0)))
            started_ns = self._clock()
            result = restore_rank(
                order,
                reader=reader,
                device=device,
                clock=self._clock,
                producer=self._device.producer(),
                progress=heartbeat.note,
                cancelled=heartbeat.told_to_stop,
                conditions=conditions,
            )
        part = self._ask(oracle, pages=result.pages, started_ns=started_ns)
        return Served(started_ns=started_ns, pool_commit_ns=pool_commit_ns, result=result, part=part)

    def _ask(self, oracle: RankOracle, *, pages: PageSet | None, started_ns: int) -> dict[str, Any] | None:
        """Ask what is really in the private pages; whatever goes wrong in between, they are given back."""
        if pages is None:
            return None
        try:
            return oracle.ask(self._device, pages, clock=self._clock, started_ns=started_ns)
        except BaseException:
            self._device.discard(pages)
            raise

    def _order(self, claimed: Claimed) -> RankOrder:
        """What to restore, from a root this node was told to serve and no other."""
        folders = self._settings.store_roots
        if not is_inside(claimed.root_path, folders=folders):
            raise PlanError(
                f"root {claimed.root_path}",
                expected=f"one inside {', '.join(map(str, folders)) or 'no folder at all'}",
                found="a path this node does not serve",
            )
        return RankOrder(
            identity=None,
            storage_key=Digest(claimed.storage_key),
            context_digest=Digest(claimed.context_digest),
            layout=parse_page_layout(encode_canonical(claimed.layout)),
            span_tokens=claimed.span_tokens,
            manifest_sha256=Digest(claimed.root_document_sha256),
            stream_pinned=claimed.stream_pinned,
        )

    def _make_room(self, order: RankOrder) -> None:
        """Commit the pool's pages before the service begins, as a serving runtime does at its start."""
        if order.span_tokens is not None and order.layout is not None:
            counts = order.layout.block_counts(order.span_tokens)
            self._device.prepare_pool(order.layout, block_counts=counts)

    def _follow(self, claimed: Claimed, *, pages: PageSet, decision: Decision, heartbeat: Heartbeat) -> bool:
        """Do what is decided; True if the pages stay."""
        decision = self._await(
            claimed, decision, until=_is_decided, patience_s=2 * claimed.lease_s, heartbeat=heartbeat
        )
        if decision.decision != "publish":
            return False
        self._device.publish(pages)
        # Known before it is acknowledged: a readback may come as soon as the last rank has acknowledged.
        self._residents[claimed.attempt_id] = Resident(claimed=claimed, pages=pages)
        kept = False
        try:
            patience_s = ACKNOWLEDGED_PATIENCE_S
            decision = self._client.publish(claimed, epoch=decision.epoch, patience_s=patience_s)
            decision = self._await(
                claimed, decision, until=_is_final, patience_s=patience_s, heartbeat=heartbeat
            )
            kept = decision.outcome == "restored"
        except ControlError as error:
            if error.code != "epoch-stale":
                raise
            # Retracted between the poll and the acknowledgement: said like any other retraction.
        finally:
            if not kept:
                del self._residents[claimed.attempt_id]
                # The control plane may count on these pages, if its answers were lost: it will be told.
                self._note_released(claimed)
        return kept

    def _await(
        self,
        claimed: Claimed,
        decision: Decision,
        *,
        until: Callable[[Decision], bool],
        patience_s: float,
        heartbeat: Heartbeat,
    ) -> Decision:
        """Ask at every call until it is decided; silence is borne for `patience_s`, a refusal never."""
        pause_s, heard_ns = max(FIRST_POLL_S, claimed.pace_s), self._clock()
        while not until(decision):
            if heartbeat.await_call(at_most_s=pause_s):
                self._sleep(claimed.turn_s)
            pause_s = min(pause_s * 1.5, max(LONGEST_POLL_S, claimed.pace_s))
            try:
                decision = self._client.decision(claimed)
                heard_ns = self._clock()
            except ControlUnreachableError:
                if self._clock() - heard_ns > patience_s * 1e9:
                    raise
        return decision

    def read_back(self, attempt_id: str, *, readback_id: str) -> None:
        """Digest the resident pages of an attempt, layer by layer, and report what is there."""
        resident = self._residents.get(attempt_id)
        if resident is None:
            log.info("attempt %s: no pages to read back", attempt_id)
            self._say_released(attempt_id)
            return
        layers = [
            {"name": layer.name, "pages": layer.pages, "bytes": layer.bytes, "sha256": str(layer.sha256)}
            for layer in self._device.digest(resident.pages)
        ]
        try:
            self._client.layers(resident.claimed, readback_id=readback_id, layers=layers)
        except (ControlError, ControlUnreachableError) as error:
            log.warning("attempt %s: readback not reported: %s", attempt_id, error)

    def discard(self, attempt_id: str, *, pause_s: float = 0.0) -> None:
        """Give the pages of an attempt back and say so after `pause_s`, again if it was said before."""
        resident = self._residents.pop(attempt_id, None)
        if resident is not None:
            self._device.discard(resident.pages)
            self._note_released(resident.claimed)
        self._sleep(pause_s)
        self._say_released(attempt_id)

    def _note_released(self, claimed: Claimed) -> None:
        self._released[claimed.attempt_id] = claimed
        while len(self._released) > REMEMBERED:
            self._released.pop(next(iter(self._released)))

    def _say_released(self, attempt_id: str) -> None:
        """Say that pages which were here once are gone; nothing of an attempt that never had any."""
        claimed = self._released.get(attempt_id)
        if claimed is None:
            log.info("attempt %s: has had no pages here", attempt_id)
            return
        try:
            self._client.released(claimed, patience_s=claimed.lease_s)
        except (ControlError, ControlUnreachableError) as error:
            log.warning("attempt %s: release not reported: %s", attempt_id, error)


def _is_decided(decision: Decision) -> bool:
    return decision.decision is not None


def _is_final(decision: Decision) -> bool:
    return decision.outcome is not None or decision.decision == "retract"


def _refusal(error: CoreError) -> RankReport:
    """The report of a rank that could not even begin."""
    code = ProblemCode.DEVICE if isinstance(error, DeviceError) else ProblemCode.PLAN
    problem = Problem(
        code=code,
        subject=error.subject,
        stage=None,
        expected=error.expected,
        found=error.found,
        detail=str(error),
    )
    return RankReport(
        outcome=RankOutcome.FAILED,
        problem=problem,
        manifest_sha256=None,
        objects=0,
        bytes=0,
        intervals_ns=(),
        service_ns=0,
        reader_work=(),
        readers=0,
        stream_digest=StreamDigestState.NOT_REACHED,
        submissions=0,
        statistics=None,
    )
