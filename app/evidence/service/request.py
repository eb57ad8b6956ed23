"""Ask for a bundle. What it covers is settled at once: leaves `first_index` to `ledger_size` of the log.

The checkpoints of both ends are signed in the same transaction, so that a log that cannot be signed refuses
the request and not the worker. The request's own leaf comes after everything it covers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.ledger.checkpoint import NoteSigner
from app.db.session import database_time
from app.errors import BadRequest, Conflict, Refused
from app.evidence.repository import exports, population
from app.evidence.service.reading import get_export
from app.ledger import service as ledger
from app.ledger.service import extent, proofs
from app.models import EvidenceExport

CANCELLED: Final = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOrder:
    """What somebody wants to take away.

    Attributes:
        period_from, period_until: the period, its end not included; None: open on that side.
        image_config_ids: only what is about these images; none: about any.
        topology: only what is about this tensor-parallel and decode-context-parallel size.
        ledger_size: leaves of the log to cover; None: all there are. A period that ends before ends it.
    """

    period_from: datetime | None = None
    period_until: datetime | None = None
    image_config_ids: tuple[str, ...] = ()
    topology: tuple[str, str] | None = None
    ledger_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Leaves `first` up to `size`, `size` not included."""

    first: int
    size: int


def range_of(session: Session, order: ExportOrder) -> Range:
    """The leaves of the log that an order is about.

    Raises:
        BadRequest: the log is not that long; the period ends before it begins.
        Refused: there is no leaf in it.
    """
    if order.period_from and order.period_until and order.period_from >= order.period_until:
        raise BadRequest(
            f"period: expected an end after {order.period_from.isoformat()}, "
            f"found {order.period_until.isoformat()}"
        )
    now = extent.size_now(session)
    if order.ledger_size is not None and order.ledger_size > now:
        raise BadRequest(
            f"ledger_size: expected at most the size of the log, {now}, found {order.ledger_size}",
            code="ledger-out-of-range",
        )
    size = now if order.ledger_size is None else order.ledger_size
    if order.period_until is not None:
        size = extent.first_from(session, at=order.period_until, size=size)
    first = 0
    if order.period_from is not None:
        first = extent.first_from(session, at=order.period_from, size=size)
    if first >= size:
        raise Refused(
            f"period: expected one with entries of the ledger, found none from {first} to {size}",
            code="evidence-empty",
        )
    return Range(first=first, size=size)


def request_export(
    session: Session, *, order: ExportOrder, signer: NoteSigner | None, by: str
) -> EvidenceExport:
    """Have a bundle built.

    Raises:
        BadRequest, Refused: as `range_of`; or nothing is known of an image.
        Unavailable: there is no key to sign with, or the log differs from what was signed before.
    """
    _check_images(session, wanted=order.image_config_ids)
    covered = range_of(session, order)
    for size in {covered.size, covered.first} - {0}:
        proofs.checkpoint_at(session, size=size, signer=signer)
    tp, dcp = order.topology or (None, None)
    export = EvidenceExport(
        created_at=database_time(session),
        created_by=by,
        period_from=order.period_from,
        period_until=order.period_until,
        image_config_ids=sorted(set(order.image_config_ids)),
        tp=tp,
        dcp=dcp,
        first_index=covered.first,
        ledger_size=covered.size,
        state="waiting",
        try_count=0,
    )
    exports.add_export(session, export=export)
    ledger.record(
        session,
        kind="evidence-requested",
        by=by,
        rows={"evidence_export.order": [export]},
        facts={"export": str(export.id), "ledger_size": covered.size},
    )
    return export


def _check_images(session: Session, *, wanted: Sequence[str]) -> None:
    """A mistyped image must not look like one without evidence."""
    unknown = sorted(set(wanted) - population.known_images(session, config_ids=wanted))
    if unknown:
        raise Refused(
            f"images: expected config ids that are registered or named by a receipt, found {unknown[0]}"
        )


def cancel_export(session: Session, *, export_id: UUID, by: str) -> EvidenceExport:
    """Call off what is not built yet; whoever builds it stops, and nothing is left of it.

    Raises:
        NotFound: there is no such export.
        Conflict: it has ended.
    """
    export = get_export(session, export_id=export_id, lock=True)
    if export.ended_at is not None:
        raise Conflict(f"evidence export {export_id}: expected one that is not over, found {export.state}")
    problem = {"code": CANCELLED, "detail": f"called off by {by}"}
    end_failed(session, export=export, problem=problem, by=by)
    return export


def end_failed(session: Session, *, export: EvidenceExport, problem: dict[str, str], by: str) -> None:
    """Write down why there is no bundle; the row is held."""
    now = database_time(session)
    export.state = "failed"
    export.problem = problem
    export.ended_at = now
    export.lease_expires_at = None
    ledger.record(
        session,
        kind="evidence-failed",
        by=by,
        rows={"evidence_export.result": [export]},
        facts={"export": str(export.id), "problem": problem["code"]},
    )


def discard_export(session: Session, *, export_id: UUID, by: str) -> EvidenceExport:
    """Give the file of a bundle up before its time; the record stays, and the same request makes it again.

    Raises:
        NotFound: there is no such export.
        Conflict: it is not finished, or its file is gone already.
    """
    export = get_export(session, export_id=export_id, lock=True)
    if export.state != "finished":
        raise Conflict(f"evidence export {export_id}: expected a finished one, found {export.state}")
    end_kept(session, export=export, by=by)
    return export


def end_kept(session: Session, *, export: EvidenceExport, by: str) -> None:
    """Write down that the file is not kept any more; the row is held."""
    now = database_time(session)
    export.state = "expired"
    export.expired_at = now
    export.expired_by = by
    ledger.record(
        session,
        kind="evidence-given-up",
        by=by,
        rows={"evidence_export.end": [export]},
        facts={"export": str(export.id)},
    )
