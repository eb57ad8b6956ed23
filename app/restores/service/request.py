"""Clients order restores: checked and planned rank by rank before anything is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.oracle.question import OracleQuestion
from app.errors import AppError, NotFound
from app.layouts import service as layouts
from app.ledger import service as ledger
from app.models import Restore, RestoreAnswer, RestoreEvent
from app.restores import repository
from app.restores.repository.orders import FIRST_EVENT as FIRST_EVENT
from app.restores.repository.orders import NewAttempt as NewAttempt
from app.restores.repository.orders import NewRestore as NewRestore
from app.restores.repository.orders import Written, add_orders, lacks_layout
from app.restores.service.answers import Semantic, question_of
from app.restores.service.drills import InjectedFault, check_fault
from app.restores.service.planning import PlannedSnapshot, RankAssignment, assign, find_snapshot
from app.restores.service.purpose import allow

# What is said of one order only; the others written with it go on.
Refusal = AppError | CoreError


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
class Ordered:
    """A restore as it was just written down; nobody else can have changed it yet.

    Attributes:
        may_start: all its devices were free, so that the queue is worth a look. Whoever holds one looks when
            he frees it; should that just have happened, the timetable looks within a second.
    """

    restore: NewRestore
    written: Written
    may_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An order and who wants it.

    Attributes:
        retry_of: the ended restore that it tries again, and which try that was.
    """

    order: RestoreOrder
    by: str
    retry_of: tuple[UUID, int] | None = None


class _Sights:
    """What orders of one moment look at: the same for all of them, so each thing is asked once."""

    def __init__(self, session: Session, *, silence_s: float) -> None:
        self.session = session
        self._silence_s = silence_s
        self._snapshots: dict[tuple[str, str | None], PlannedSnapshot] = {}
        self._questions: dict[tuple[str | None, str, str, str], OracleQuestion | None] = {}

    def snapshot(self, order: RestoreOrder) -> PlannedSnapshot:
        key = order.context_digest, order.rank_zero_storage_key
        if key not in self._snapshots:
            self._snapshots[key] = find_snapshot(
                self.session,
                context_digest=order.context_digest,
                rank_zero_storage_key=order.rank_zero_storage_key,
                silence_s=self._silence_s,
            )
        return self._snapshots[key]

    def question(self, order: RestoreOrder, snapshot: PlannedSnapshot) -> OracleQuestion | None:
        names = snapshot.context_digest, snapshot.rank_zero_storage_key
        key = (order.oracle, *names, order.layout_sha256)
        if key not in self._questions:
            layout = layouts.known_layout(self.session, sha256=order.layout_sha256)
            self._questions[key] = question_of(
                self.session, oracle=order.oracle, snapshot=snapshot, layout=layout
            )
        return self._questions[key]


def request_restore(
    session: Session,
    *,
    order: RestoreOrder,
    by: str,
    silence_s: float,
    retry_of: tuple[UUID, int] | None = None,
) -> Ordered:
    """Write down a new restore, waiting for its devices.

    Args:
        retry_of: the ended restore that it tries again, and which try that was.

    Raises:
        NotFound: no such snapshot or layout.
        Conflict: a rank is missing, several snapshots fit, a node has too few devices, or the image may not
            be used for this in operation.
        CoreError: a rank's root document and the layout do not make a plan.
    """
    wish = Wish(order=order, by=by, retry_of=retry_of)
    (made,) = request_restores(session, [wish], silence_s=silence_s)
    if isinstance(made, Exception):
        raise made
    return made


def request_restores(
    session: Session, wishes: Sequence[Wish], *, silence_s: float
) -> list[Ordered | Refusal]:
    """Write new restores down together; of each, what came of it. One that is refused leaves no trace.

    Raises:
        IntegrityError: something one of several refers to is not there; alone it would be told (NotFound).
    """
    sights = _Sights(session, silence_s=silence_s)
    judged = [_judged(wish, sights) for wish in wishes]
    made = [one for one in judged if not isinstance(one, Exception)]
    written = _write(session, [restore for restore, _ in made]) if made else {}
    return [
        one
        if isinstance(one, Exception)
        else Ordered(restore=one[0], written=written[one[0].id], may_start=one[1])
        for one in judged
    ]


def _judged(wish: Wish, sights: _Sights) -> tuple[NewRestore, bool] | Refusal:
    """The restore that a wish would become and whether it may start at once, or why there is none."""
    try:
        return _planned(wish, sights)
    except (AppError, CoreError) as error:
        return error


def _planned(wish: Wish, sights: _Sights) -> tuple[NewRestore, bool]:
    order = wish.order
    snapshot = sights.snapshot(order)
    layout = layouts.known_layout(sights.session, sha256=order.layout_sha256)
    question = sights.question(order, snapshot)
    check_fault(order.fault, purpose=order.purpose, rank_count=snapshot.rank_count, question=question)
    assignments = assign(sights.session, snapshot=snapshot, layout=layout)
    allowed = allow(
        sights.session,
        purpose=order.purpose,
        image_config_id=order.image_config_id,
        document_sha256=assignments[0].place.root_document_sha256,
    )
    old_id, old_try = wish.retry_of or (None, 0)
    again = "" if old_id is None else f", tries {old_id} again ({old_try + 1})"
    restore = NewRestore(
        id=uuid4(),
        created_by=wish.by,
        context_digest=snapshot.context_digest,
        rank_zero_storage_key=snapshot.rank_zero_storage_key,
        layout_sha256=order.layout_sha256,
        rank_count=snapshot.rank_count,
        span_tokens=snapshot.span_tokens,
        purpose=order.purpose,
        image_config_id=order.image_config_id,
        resident_s=order.resident_s,
        retry_of_id=old_id,
        try_number=old_try + 1,
        question_sha256=None if question is None else str(question.sha256),
        semantic=str(Semantic.NOT_ASKED) if question is None else None,
        fault_name=None if order.fault is None else order.fault.name,
        fault_rank=None if order.fault is None else order.fault.rank,
        allowed_by_verdict_id=allowed.verdict_id,
        allowed_by_exception_id=allowed.exception_id,
        event=f"requested by {wish.by}{again}",
        attempts=tuple(_attempt(assignment) for assignment in assignments),
    )
    return restore, not any(assignment.device.is_held for assignment in assignments)


def _attempt(assignment: RankAssignment) -> NewAttempt:
    return NewAttempt(
        id=uuid4(),
        rank=assignment.rank,
        device_id=assignment.device.id,
        node=assignment.place.node,
        device=assignment.device.name,
        root_document_sha256=assignment.place.root_document_sha256,
        root_path=assignment.place.root_path,
        pages_bytes=assignment.pages_bytes,
    )


def _write(session: Session, restores: Sequence[NewRestore]) -> dict[UUID, Written]:
    try:
        written = add_orders(session, restores=restores)
    except IntegrityError as error:
        if len(restores) == 1 and lacks_layout(error):
            raise NotFound(f"layout {restores[0].layout_sha256}: not registered") from error
        raise
    for restore in restores:
        ledger.record(
            session,
            kind="restore-requested",
            by=restore.created_by,
            rows=_rows(restore),
            facts={"restore": str(restore.id), "ranks": restore.rank_count, "try": restore.try_number},
        )
    return written


def _rows(restore: NewRestore) -> dict[str, list[ledger.RowKey]]:
    rows: dict[str, list[ledger.RowKey]] = {
        "restore.order": [restore.id],
        "rank_attempt.order": [one.id for one in restore.attempts],
    }
    if restore.purpose != "qualification" or restore.image_config_id is not None:
        rows["restore.purpose"] = [restore.id]
    if restore.question_sha256 is not None:
        rows["restore.question"] = [restore.id]
    return rows


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
