"""SQL of what a bundle would hold, counted before anybody asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from app.models import (
    DeclarationRow,
    Image,
    OperationalException,
    ReceiptRow,
    Restore,
    VerdictCurrent,
    VerdictRow,
)

_Query = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A period, its end not included, and a selection; what is None or empty limits nothing."""

    period_from: datetime | None = None
    period_until: datetime | None = None
    image_config_ids: tuple[str, ...] = ()
    topology: tuple[str, str] | None = None


def known_images(session: Session, *, config_ids: Sequence[str]) -> set[str]:
    """Those of the config ids that are registered, or that a receipt or verdict is about."""
    if not config_ids:
        return set()
    columns = (Image.config_id, ReceiptRow.image_config_id, VerdictRow.image_config_id)
    found: set[str] = set()
    for column in columns:
        found.update(one for one in session.scalars(select(column).where(column.in_(config_ids))) if one)
    return found


def receipts(session: Session, *, wanted: Wanted) -> dict[str, int]:
    """Receipts that came in, by kind of document."""
    query = select(ReceiptRow.kind, func.count()).where(*_within(ReceiptRow.created_at, wanted))
    if wanted.image_config_ids:
        query = query.where(ReceiptRow.image_config_id.in_(wanted.image_config_ids))
    if wanted.topology:
        judged = select(VerdictRow.id).where(VerdictRow.receipt_sha256 == ReceiptRow.sha256, *_same(wanted))
        query = query.where(judged.exists())
    return _counted(session, query.group_by(ReceiptRow.kind))


def verdicts_made(session: Session, *, wanted: Wanted) -> dict[str, int]:
    """Verdicts made, about whatever, by outcome."""
    query = select(VerdictRow.outcome, func.count()).where(*_within(VerdictRow.created_at, wanted))
    return _counted(session, _chosen(query, VerdictRow, wanted).group_by(VerdictRow.outcome))


def standing(session: Session, *, wanted: Wanted) -> dict[str, int]:
    """Verdicts over scopes that stand now, by outcome."""
    query = select(VerdictCurrent.outcome, func.count()).where(VerdictCurrent.kind == "scope")
    return _counted(session, _chosen(query, VerdictCurrent, wanted).group_by(VerdictCurrent.outcome))


def restores(session: Session, *, wanted: Wanted) -> dict[str, int]:
    """Restores that were ordered, by outcome; ``open`` for those that have none yet."""
    outcome = func.coalesce(Restore.outcome, "open")
    query = select(outcome, func.count()).where(*_within(Restore.created_at, wanted))
    if wanted.image_config_ids:
        about = select(ReceiptRow.sha256).where(ReceiptRow.image_config_id.in_(wanted.image_config_ids))
        query = query.where(Restore.receipt_sha256.in_(about))
    return _counted(session, query.group_by(outcome))


def people_said(session: Session, *, wanted: Wanted) -> dict[str, int]:
    """Declarations and exceptions."""
    declared = select(func.count()).where(*_within(DeclarationRow.created_at, wanted))
    excepted = select(func.count()).where(*_within(OperationalException.created_at, wanted))
    if wanted.image_config_ids:
        excepted = excepted.where(OperationalException.image_config_id.in_(wanted.image_config_ids))
    return {
        "declarations": session.execute(declared.select_from(DeclarationRow)).scalar_one(),
        "exceptions": session.execute(excepted.select_from(OperationalException)).scalar_one(),
    }


def images(session: Session, *, wanted: Wanted) -> int:
    """Registered images that are meant."""
    return session.execute(select(func.count()).select_from(_images(wanted).subquery())).scalar_one()


def images_without_evidence(session: Session, *, wanted: Wanted, limit: int) -> tuple[list[Image], int]:
    """The first registered images about which no scope was judged, by title, and how many there are."""
    judged = select(VerdictCurrent.verdict_id).where(
        VerdictCurrent.image_config_id == Image.config_id, VerdictCurrent.kind == "scope"
    )
    if wanted.topology:
        tp, dcp = wanted.topology
        judged = judged.where(VerdictCurrent.tp == tp, VerdictCurrent.dcp == dcp)
    query = _images(wanted).where(~judged.exists())
    count = session.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    return list(session.scalars(query.order_by(Image.title, Image.id).limit(limit))), count


def _images(wanted: Wanted) -> Select[Image]:
    query = select(Image)
    if wanted.image_config_ids:
        query = query.where(Image.config_id.in_(wanted.image_config_ids))
    return query


def _within(column: Any, wanted: Wanted) -> list[ColumnElement[bool]]:
    limits = []
    if wanted.period_from is not None:
        limits.append(column >= wanted.period_from)
    if wanted.period_until is not None:
        limits.append(column < wanted.period_until)
    return limits


def _chosen(query: _Query, table: Any, wanted: Wanted) -> _Query:
    if wanted.image_config_ids:
        query = query.where(table.image_config_id.in_(wanted.image_config_ids))
    if wanted.topology:
        query = query.where(table.tp == wanted.topology[0], table.dcp == wanted.topology[1])
    return query


def _same(wanted: Wanted) -> list[ColumnElement[bool]]:
    if wanted.topology is None:
        return []
    return [VerdictRow.tp == wanted.topology[0], VerdictRow.dcp == wanted.topology[1]]


def _counted(session: Session, query: _Query) -> dict[str, int]:
    rows = session.execute(query.order_by(query.selected_columns[0]))
    return {str(row[0]): int(row[1]) for row in rows}
