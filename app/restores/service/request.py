"""A client orders a restore: checked and planned rank by rank before anything is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from app.core.oracle.question import OracleQuestion
from app.core.restore.page_plan import plan_restore
from app.core.store.snapshot import PageLayout
from app.errors import Conflict, NotFound
from app.layouts import service as layouts
from app.ledger import service as ledger
from app.manifests import service as manifests
from app.manifests.service import Snapshot
from app.models import (
    Device,
    ManifestLocation,
    RankAttempt,
    Restore,
    RestoreAnswer,
    RestoreEvent,
    RootDocument,
)
from app.nodes import service as nodes
from app.restores import repository
from app.restores.service.answers import Semantic, question_of
from app.restores.service.drills import InjectedFault, check_fault
from app.restores.service.purpose import allow
from app.web.paging import Cursor, Total

# Plans are pure in the two digests, so what was planned stays true; the bound only keeps the memory small.
_MOST_PLANNED: Final = 16_384
_planned: dict[tuple[str, str], int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOrder:
    """What a client asks for.

    Attributes:
        oracle: digest of the question its pages are asked, ``none``, or nothing for the registered one.
        fault: makes it a drill.
    """

    context_digest: str
    layout_sha256: str
    rank_zero_storage_key: str | None
    resident_s: int
    purpose: str = "qualification"
    image_config_id: str | None = None
    oracle: str | None = None
    fault: InjectedFault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """One rank: where its part is, which device takes it, and what that takes from the device's pool."""

    rank: int
    place: ManifestLocation
    device: Device
    pages_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A restore as it was just written down, and its first event; to look at, not to change.

    Attributes:
        may_start: all its devices were free, so that the queue is worth a look. Whoever holds one looks when
            he frees it; should that just have happened, the timetable looks within a second.
    """

    restore: Restore
    event: RestoreEvent
    may_start: bool


def request_restore(
    session: Session, *, order: RestoreOrder, by: str, silence_s: float, retry_of: Restore | None = None
) -> Ordered:
    """Write down a new restore, waiting for its devices.

    Args:
        retry_of: the ended restore that it tries again.

    Raises:
        NotFound: no such snapshot or layout.
        Conflict: a rank is missing, several snapshots fit, a node has too few devices, or the image may not
            be used for this in operation.
        CoreError: a rank's root document and the layout do not make a plan.
    """
    snapshot = manifests.get_snapshot(
        session,
        context_digest=order.context_digest,
        rank_zero_storage_key=order.rank_zero_storage_key,
        silence_s=silence_s,
    )
    if snapshot.missing:
        raise Conflict(
            f"snapshot {order.context_digest}: expected ranks 0 to {snapshot.rank_count - 1} on nodes that "
            f"are alive, found none for rank {', '.join(map(str, snapshot.missing))}",
            code="snapshot-incomplete",
        )
    layout = layouts.known_layout(session, sha256=order.layout_sha256)
    question = question_of(session, oracle=order.oracle, snapshot=snapshot, layout=layout)
    check_fault(order.fault, purpose=order.purpose, rank_count=snapshot.rank_count, question=question)
    assignments = _assign(session, snapshot=snapshot, layout=layout)
    restore = _restore(order, snapshot=snapshot, question=question, by=by)
    allowed = allow(
        session,
        purpose=order.purpose,
        image_config_id=order.image_config_id,
        document=assignments[0].place.root_document,
    )
    restore.allowed_by_verdict_id = allowed.verdict_id
    restore.allowed_by_exception_id = allowed.exception_id
    if retry_of is not None:
        restore.retry_of_id, restore.try_number = retry_of.id, retry_of.try_number + 1
    restore.attempts = [_attempt(assignment, number=restore.try_number) for assignment in assignments]
    again = "" if retry_of is None else f", tries {retry_of.id} again ({restore.try_number})"
    event = RestoreEvent(restore_id=restore.id, kind="requested", detail=f"requested by {by}{again}")
    if not repository.add_order(session, restore=restore, event=event):
        raise NotFound(f"layout {order.layout_sha256}: not registered")
    ledger.record(
        session,
        kind="restore-requested",
        by=by,
        rows=_rows(restore),
        facts={"restore": str(restore.id), "ranks": restore.rank_count, "try": restore.try_number},
    )
    may_start = all(assignment.device.held_by is None for assignment in assignments)
    return Ordered(restore=restore, event=event, may_start=may_start)


def _rows(restore: Restore) -> dict[str, list[ledger.RowKey]]:
    rows: dict[str, list[ledger.RowKey]] = {
        "restore.order": [restore.id],
        "rank_attempt.order": [one.id for one in restore.attempts],
    }
    if restore.purpose != "qualification" or restore.image_config_id is not None:
        rows["restore.purpose"] = [restore.id]
    if restore.question_sha256 is not None:
        rows["restore.question"] = [restore.id]
    return rows


def _restore(order: RestoreOrder, *, snapshot: Snapshot, question: OracleQuestion | None, by: str) -> Restore:
    return Restore(
        id=uuid4(),
        state="waiting",
        epoch=0,
        created_by=by,
        context_digest=snapshot.context_digest,
        rank_zero_storage_key=snapshot.rank_zero_storage_key,
        layout_sha256=order.layout_sha256,
        rank_count=snapshot.rank_count,
        span_tokens=snapshot.span_tokens,
        purpose=order.purpose,
        image_config_id=order.image_config_id,
        resident_s=order.resident_s,
        try_number=1,
        question_sha256=None if question is None else str(question.sha256),
        semantic=Semantic.NOT_ASKED if question is None else None,
        fault_name=None if order.fault is None else order.fault.name,
        fault_rank=None if order.fault is None else order.fault.rank,
    )


def _attempt(assignment: RankAssignment, *, number: int) -> RankAttempt:
    return RankAttempt(
        id=uuid4(),
        state="waiting",
        rank=assignment.rank,
        number=number,
        device=assignment.device,
        report=None,
        root_document_sha256=assignment.place.root_document_sha256,
        root_path=assignment.place.root_path,
        pages_bytes=assignment.pages_bytes,
    )


def _assign(session: Session, *, snapshot: Snapshot, layout: PageLayout) -> list[RankAssignment]:
    """Give every rank a device of a node that holds its part, in the order of ranks and device names."""
    usable = [snapshot.usable(rank) for rank in range(snapshot.rank_count)]
    free = nodes.devices_of_nodes(session, node_ids={place.node_id for places in usable for place in places})
    assignments = []
    for rank, places in enumerate(usable):
        chosen = next((place for place in places if free[place.node_id]), None)
        if chosen is None:
            raise _too_few_devices(rank, places=places, rank_count=snapshot.rank_count)
        device = free[chosen.node_id].pop(0)
        assignments.append(_checked(chosen, rank=rank, device=device, layout=layout))
    return assignments


def _too_few_devices(rank: int, *, places: Sequence[ManifestLocation], rank_count: int) -> Conflict:
    names = ", ".join(sorted({place.node.name for place in places}))
    return Conflict(
        f"node {names}: expected a device for each of the {rank_count} ranks that are there, found none left "
        f"for rank {rank}",
        code="devices-missing",
    )


def _checked(place: ManifestLocation, *, rank: int, device: Device, layout: PageLayout) -> RankAssignment:
    """Plan the rank as its worker will, so that a wrong layout is refused now and not on four devices."""
    pages_bytes = _planned_bytes(place.root_document, layout=layout)
    if pages_bytes > device.pool_bytes:
        raise Conflict(
            f"device {place.node.name}/{device.name}: rank {rank} needs {pages_bytes} bytes of pages, its "
            f"pool has {device.pool_bytes}",
            code="devices-missing",
        )
    return RankAssignment(rank=rank, place=place, device=device, pages_bytes=pages_bytes)


def _planned_bytes(document: RootDocument, *, layout: PageLayout) -> int:
    """What the rank's pages take, planned once per document and layout: both are named by their digests."""
    key = document.sha256, str(layout.sha256)
    known = _planned.get(key)
    if known is None:
        plan = plan_restore(manifests.parsed(document), layout=layout)
        known = layout.payload_bytes(block_counts=plan.block_counts)
        if len(_planned) >= _MOST_PLANNED:
            _planned.clear()
        _planned[key] = known
    return known


def get_restore(session: Session, *, restore_id: UUID) -> Restore:
    """A restore with its attempts.

    Raises:
        NotFound: there is none with this id.
    """
    restore = repository.get_restore(session, restore_id=restore_id)
    if restore is None:
        raise NotFound(f"restore {restore_id}: not found")
    return restore


def answer_of(session: Session, *, restore: Restore) -> RestoreAnswer | None:
    """What was written down of a restore's answer, if it was asked and is answered."""
    return None if restore.question_sha256 is None else repository.get_answer(session, restore_id=restore.id)


def events(session: Session, *, restore_id: UUID) -> list[RestoreEvent]:
    """What happened to a restore, in order."""
    return repository.events(session, restore_id=restore_id)


def retried_by(session: Session, *, restore_id: UUID) -> UUID | None:
    """The restore that tries this one again, if one does."""
    return repository.retry_of(session, restore_id=restore_id)


def list_restores(
    session: Session, *, after: Cursor | None, limit: int, state: str | None, outcome: str | None
) -> list[Restore]:
    """Restores, newest first."""
    return repository.list_restores(session, after=after, limit=limit, state=state, outcome=outcome)


def count_restores(session: Session, *, state: str | None, outcome: str | None) -> Total:
    """How many restores fit these filters, counted up to a bound."""
    return repository.count_restores(session, state=state, outcome=outcome)
