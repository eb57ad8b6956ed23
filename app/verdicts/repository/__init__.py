"""SQL of verdicts and declarations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Select,
    TextClause,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import Session, aliased, defer

from app.models import DeclarationRow, VerdictCurrent, VerdictRow
from app.verdicts.repository import listing
from app.web.paging import Cursor, Total, count_rows

# Put together once: for few rows that costs more than asking.
_MANY: Final = (
    select(VerdictRow)
    .where(VerdictRow.id.in_(bindparam("ids", expanding=True)))
    .options(defer(VerdictRow.document))
)
_OF_RECEIPT: Final = (
    select(VerdictRow)
    .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
    .where(VerdictCurrent.receipt_sha256 == bindparam("sha256"))
    .order_by(VerdictRow.kind.desc(), VerdictRow.capability, VerdictRow.case_name, VerdictRow.id)
)
_OF_IMAGE: Final = (
    select(VerdictRow)
    .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
    .where(VerdictCurrent.image_config_id == bindparam("config_id"), VerdictCurrent.kind == "scope")
    .order_by(VerdictRow.capability, VerdictRow.tp, VerdictRow.dcp, VerdictRow.id)
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFilter:
    """What a list is filtered by; None: anything.

    Attributes:
        outcomes: any of them; more than one makes a list that no index has in its order.
        terms: words that must all be there (`app/verdicts/service/rows.py`).
        search: words that must all occur, each as the start of one.
    """

    kind: str = "scope"
    outcome: str | None = None
    outcomes: tuple[str, ...] = ()
    deployable: bool | None = None
    tp: str | None = None
    dcp: str | None = None
    capability: str | None = None
    evidence_grade: str | None = None
    image_config_id: str | None = None
    receipt_sha256: str | None = None
    terms: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


def currents(session: Session, *, keys: Iterable[str]) -> dict[str, VerdictCurrent]:
    query = select(VerdictCurrent).where(VerdictCurrent.subject_key.in_(list(keys)))
    query = query.execution_options(populate_existing=True)
    return {row.subject_key: row for row in session.scalars(query)}


def documents_of(session: Session, *, verdict_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    query = select(VerdictRow.id, VerdictRow.document).where(VerdictRow.id.in_(verdict_ids))
    return {row.id: bytes(row.document) for row in session.execute(query)}


def many_verdicts(session: Session, *, verdict_ids: Sequence[UUID]) -> dict[UUID, VerdictRow]:
    """These verdicts, without their documents."""
    if not verdict_ids:
        return {}
    return {row.id: row for row in session.scalars(_MANY, {"ids": list(verdict_ids)})}


def get_verdict(session: Session, *, verdict_id: UUID) -> VerdictRow | None:
    return session.get(VerdictRow, verdict_id)


def verdicts_of_receipt(session: Session, *, sha256: str) -> list[VerdictRow]:
    """The newest verdicts about a receipt and its cases, the receipt's first."""
    return list(session.scalars(_OF_RECEIPT, {"sha256": sha256}))


def outcomes_of_receipts(session: Session, *, digests: Sequence[str]) -> dict[str, dict[str, str]]:
    """Receipt → capability → outcome of whole receipts, now."""
    row = VerdictCurrent
    query = select(row.receipt_sha256, row.capability, row.outcome).where(
        row.receipt_sha256.in_(digests), row.kind == "receipt"
    )
    found: dict[str, dict[str, str]] = {}
    for sha256, capability, outcome in session.execute(query.order_by(row.capability)):
        found.setdefault(sha256 or "", {})[capability] = outcome
    return found


def newest_ids(session: Session, *, wanted: VerdictFilter, after: Cursor | None, limit: int) -> list[UUID]:
    return listing.newest(session, sought=_sought(wanted), after=after, limit=limit)


def list_current(
    session: Session, *, wanted: VerdictFilter, after: Cursor | None, limit: int
) -> list[VerdictRow]:
    """The newest verdicts that fit, newest first, without their documents."""
    ids = newest_ids(session, wanted=wanted, after=after, limit=limit)
    found = many_verdicts(session, verdict_ids=ids)
    return [found[one] for one in ids]


def count_current(session: Session, *, wanted: VerdictFilter) -> Total:
    return listing.count(session, sought=_sought(wanted))


def _sought(wanted: VerdictFilter) -> listing.Sought:
    """Columns that lists are walked by, and what is looked for in words; a capability is one of the terms."""
    columns = ("outcome", "deployable", "tp", "dcp", "evidence_grade", "image_config_id", "receipt_sha256")
    given = {column: getattr(wanted, column) for column in columns}
    return listing.Sought(
        kind=wanted.kind,
        equal={column: value for column, value in given.items() if value is not None},
        outcomes=wanted.outcomes,
        terms=wanted.terms + ((f"capability:{wanted.capability}",) if wanted.capability else ()),
        words=wanted.search,
    )


def list_as_of(
    session: Session, *, wanted: VerdictFilter, until: datetime, after: Cursor | None, limit: int
) -> list[VerdictRow]:
    """What was the newest at an instant, newest first, without their documents."""
    ids = ids_as_of(session, wanted=wanted, until=until, after=after, limit=limit)
    found = many_verdicts(session, verdict_ids=ids)
    return [found[one] for one in ids]


def ids_as_of(
    session: Session, *, wanted: VerdictFilter, until: datetime, after: Cursor | None, limit: int
) -> list[UUID]:
    """The ids of what was the newest at an instant, newest first."""
    query = _as_of(wanted, until=until).with_only_columns(VerdictRow.id)
    if after is not None:
        query = query.where(tuple_(VerdictRow.created_at, VerdictRow.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_as_of(session: Session, *, wanted: VerdictFilter, until: datetime) -> Total:
    return count_rows(session, _as_of(wanted, until=until))


def history(session: Session, *, subject_key: str, after: Cursor | None, limit: int) -> list[VerdictRow]:
    query = select(VerdictRow).where(VerdictRow.subject_key == subject_key)
    if after is not None:
        query = query.where(tuple_(VerdictRow.created_at, VerdictRow.id) < (after.created_at, after.id))
    query = query.order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc()).limit(limit)
    return list(session.scalars(query.options(defer(VerdictRow.document))))


def count_history(session: Session, *, subject_key: str) -> Total:
    query = select(VerdictRow).where(VerdictRow.subject_key == subject_key)
    return count_rows(session, query.order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc()))


def scopes_of_image(session: Session, *, image_config_id: str, limit: int) -> list[VerdictRow]:
    """The newest verdicts about scopes of an image."""
    return list(session.scalars(_OF_IMAGE, {"config_id": image_config_id, "most": limit}))


def outdated_receipts(session: Session, *, ruleset: str, grade: str, limit: int) -> list[str]:
    """Receipts whose newest verdicts are of another rule set or grade, by digest."""
    given = {"ruleset": ruleset, "grade": grade, "most": limit}
    return sorted(set(session.scalars(_outdated("receipt_sha256", "IS NOT NULL"), given)))


def outdated_scopes(session: Session, *, ruleset: str, grade: str, limit: int) -> list[tuple[str, str]]:
    """Scopes whose newest verdict is of another rule set or grade."""
    given = {"ruleset": ruleset, "grade": grade, "most": limit}
    found = session.execute(_outdated("scope_digest, capability", "IS NULL"), given)
    return [(row.scope_digest, row.capability) for row in found]


@cache
def _outdated(columns: str, receipt: str) -> TextClause:
    """Ranges of one index on either side of what is wanted: most of the time there is nothing in them."""
    ranges = (
        "ruleset < :ruleset",
        "ruleset > :ruleset",
        "ruleset = :ruleset AND deployable_grade < :grade",
        "ruleset = :ruleset AND deployable_grade > :grade",
    )
    parts = (
        f"(SELECT {columns} FROM verdict_current WHERE {one} AND receipt_sha256 {receipt} LIMIT :most)"
        for one in ranges
    )
    return text(f"SELECT {columns} FROM ({' UNION ALL '.join(parts)}) AS every LIMIT :most")


def add_declaration(session: Session, *, declaration: DeclarationRow) -> None:
    session.add(declaration)
    session.flush()


def declarations_about(session: Session, *, sha256: str) -> list[DeclarationRow]:
    query = select(DeclarationRow).where(DeclarationRow.receipts.contains([sha256]))
    return list(session.scalars(query.order_by(DeclarationRow.created_at, DeclarationRow.id).limit(20)))


def get_declaration(session: Session, *, declaration_id: UUID) -> DeclarationRow | None:
    return session.get(DeclarationRow, declaration_id)


def list_declarations(session: Session, *, after: Cursor | None, limit: int) -> list[DeclarationRow]:
    query = select(DeclarationRow).order_by(DeclarationRow.created_at.desc(), DeclarationRow.id.desc())
    if after is not None:
        place = tuple_(DeclarationRow.created_at, DeclarationRow.id)
        query = query.where(place < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_declarations(session: Session) -> Total:
    query = select(DeclarationRow)
    return count_rows(session, query.order_by(DeclarationRow.created_at.desc(), DeclarationRow.id.desc()))


def deployable_scopes(session: Session, *, image_config_id: str, tp: str, dcp: str) -> list[VerdictRow]:
    """Deployable restore verdicts about scopes of an image at a topology."""
    query = (
        select(VerdictRow)
        .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
        .where(
            VerdictCurrent.image_config_id == image_config_id,
            VerdictCurrent.kind == "scope",
            VerdictCurrent.deployable,
            VerdictCurrent.capability == "restore",
            VerdictCurrent.tp == tp,
            VerdictCurrent.dcp == dcp,
        )
    )
    return list(session.scalars(query.order_by(VerdictRow.id)))


def _as_of(wanted: VerdictFilter, *, until: datetime) -> Select[Any]:
    """Rows written before an instant that no other row of before it has replaced."""
    columns = (
        "kind",
        "outcome",
        "deployable",
        "tp",
        "dcp",
        "capability",
        "evidence_grade",
        "image_config_id",
        "receipt_sha256",
    )
    later = aliased(VerdictRow)
    # A question per row, by its unique index, and no join of everything with everything: rows come in order
    # and a page ends soon.
    replaced_by = (
        select(later.id)
        .where(later.previous_id == VerdictRow.id, later.created_at < until)
        .limit(1)
        .scalar_subquery()
    )
    query = select(VerdictRow).where(
        *_equal(VerdictRow, wanted, columns), VerdictRow.created_at < until, replaced_by.is_(None)
    )
    if wanted.outcomes:
        query = query.where(VerdictRow.outcome.in_(wanted.outcomes))
    for term in wanted.terms:
        query = query.where(_said(term))
    return query.order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())


def _said(term: str) -> ColumnElement[bool]:
    """A term over the columns of a verdict, for rows that are no longer the newest."""
    kind, _, value = term.partition(":")
    if kind == "code":
        return _has_code(value)
    if kind == "gate":
        gate, _, state = value.partition("=")
        found: ColumnElement[bool] = VerdictRow.gates[gate]["state"].astext == state
        return found
    if kind == "model":
        parts = func.string_to_array(VerdictRow.target + " " + VerdictRow.draft, " ")
        return or_(VerdictRow.target == value, VerdictRow.draft == value, parts.op("@>")([value]))
    prefix = "commit=" if kind == "commit" else ""
    said: ColumnElement[bool] = func.string_to_array(VerdictRow.source, " ").op("@>")([prefix + value])
    return said


def _has_code(value: str) -> ColumnElement[bool]:
    """A finding with exactly this code, or with this code and a detail after it."""
    codes = VerdictRow.finding_codes
    exactly = codes.contains([value])
    if ":" in value:
        return exactly
    code = func.unnest(codes).column_valued("code")
    # Most rows have no such text at all; to look at each of their codes costs four times as much.
    somewhere = func.strpos(func.array_to_string(codes, " "), value) > 0
    return and_(somewhere, or_(exactly, exists(select(code).where(func.split_part(code, ":", 1) == value))))


def _equal(
    model: type[VerdictRow] | type[VerdictCurrent], wanted: VerdictFilter, columns: Sequence[str]
) -> list[ColumnElement[bool]]:
    return [
        getattr(model, column) == getattr(wanted, column)
        for column in columns
        if getattr(wanted, column) is not None
    ]
