"""SQL for the pages of evidence: images by verdict, receipts, what was qualified on a day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Select, bindparam, func, select, text, tuple_
from sqlalchemy.orm import Session, defer, joinedload

from app.models import (
    DeclarationRow,
    Image,
    ImageUnjudged,
    LedgerCheckpoint,
    VerdictCurrent,
    VerdictRow,
)
from app.verdicts.service import current
from app.verdicts.service.current import VerdictFilter
from app.web.paging import COUNTED, Cursor, Total

SCOPE = "scope"
MOST_OF_AN_IMAGE = 100
MOST_HISTORY = 60
# So many of the newest receipts about an image are looked at for a release that names it.
MOST_NAMING = 20
_NAMES = text(
    "SELECT asked.config_id, named.release, named.title "
    "FROM unnest(CAST(:config_ids AS char(64)[])) AS asked (config_id) CROSS JOIN LATERAL ("
    "SELECT release, title FROM (SELECT release, title, created_at FROM receipt "
    "WHERE image_config_id = asked.config_id ORDER BY created_at DESC, sha256 DESC LIMIT :most) AS newest "
    "ORDER BY release IS NULL, created_at DESC LIMIT 1) AS named"
)
# In the order of the index that has them: of many rows the planner would read the table instead.
_OUTCOMES = text(
    " UNION ALL ".join(
        f"SELECT '{outcome}' AS outcome, count(*) AS number FROM (SELECT FROM verdict_current "
        f"WHERE kind = 'scope' AND outcome = '{outcome}' ORDER BY created_at DESC, verdict_id DESC "
        f"LIMIT {COUNTED + 1}) AS those"
        for outcome in ("qualified", "rejected", "research-only", "implemented", "unsupported", "incomplete")
    )
)
_SCOPE_ROWS = text(
    "SELECT verdict.id, verdict.created_at, verdict.image_config_id, verdict.capability, verdict.tp, "
    "verdict.dcp, verdict.target, verdict.outcome, verdict.reason, verdict.deployable, "
    "verdict.deployable_reason, verdict.evidence_grade, verdict.finding_codes, verdict.gates, image.title, "
    "coalesce(nullif(named.release, ''), named.title, '') AS said "
    "FROM verdict LEFT JOIN image ON image.config_id = verdict.image_config_id LEFT JOIN LATERAL ("
    "SELECT release, title FROM (SELECT release, title, created_at FROM receipt "
    "WHERE image.id IS NULL AND image_config_id = verdict.image_config_id "
    "ORDER BY created_at DESC, sha256 DESC LIMIT :most) AS newest "
    "ORDER BY release IS NULL, created_at DESC LIMIT 1) AS named ON true "
    "WHERE verdict.id = ANY(CAST(:ids AS uuid[]))"
)
_HISTORY = text(
    "SELECT verdict.created_at, verdict.capability, verdict.tp, verdict.dcp, verdict.outcome, "
    "verdict.deployable, verdict.evidence_grade, verdict.cause, verdict.cause_detail, verdict.cause_receipt, "
    "verdict.created_by, verdict.ruleset, before.outcome AS outcome_before, "
    "before.deployable AS deployable_before, before.evidence_grade AS grade_before "
    "FROM verdict LEFT JOIN verdict AS before ON before.id = verdict.previous_id "
    "WHERE verdict.image_config_id = :config_id AND verdict.kind = 'scope' "
    "ORDER BY verdict.created_at DESC, verdict.id DESC LIMIT :most"
)
_KNOWN = text(
    "SELECT EXISTS (SELECT FROM verdict WHERE image_config_id = :config_id) "
    "OR EXISTS (SELECT FROM receipt WHERE image_config_id = :config_id)"
)
# Put together once: for few rows that costs more than asking.
_IMAGE = select(Image).options(joinedload(Image.source)).where(Image.config_id == bindparam("config_id"))
_PARTS = (
    select(VerdictRow)
    .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
    .where(
        VerdictCurrent.image_config_id == bindparam("config_id"),
        VerdictCurrent.kind.in_(("receipt", "case")),
        VerdictCurrent.composes,
    )
    .order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
    .limit(MOST_OF_AN_IMAGE)
)
_UNDER = (
    select(VerdictRow)
    .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
    .where(VerdictCurrent.subject_key.in_(bindparam("keys", expanding=True)))
    .options(defer(VerdictRow.document))
    .order_by(VerdictRow.capability, VerdictRow.created_at.desc(), VerdictRow.id)
    .limit(MOST_OF_AN_IMAGE)
)
_DECLARATIONS = (
    select(DeclarationRow)
    .where(DeclarationRow.receipts.contains(bindparam("receipts")))
    .order_by(DeclarationRow.created_at.desc(), DeclarationRow.id)
    .limit(MOST_OF_AN_IMAGE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFilters:
    """What a list of scopes is limited to; what is empty limits nothing.

    Attributes:
        outcomes: any of them.
        terms: exact words every row has (``gate:semantic=failed``, ``code:…``).
        words: words that all occur, each as the start of one.
    """

    outcomes: tuple[str, ...] = ()
    tp: str = ""
    dcp: str = ""
    capability: str = ""
    deployable: bool | None = None
    terms: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRow:
    """A verdict over a scope as lists show it.

    Attributes:
        title: of the registered image; none where it is not registered.
        said: what receipts call an image that is not, the newest release that is named or else a title;
            empty where none does.
    """

    id: UUID
    created_at: datetime
    image_config_id: str | None
    capability: str
    tp: str
    dcp: str
    target: str
    outcome: str
    reason: str
    deployable: bool
    deployable_reason: str
    evidence_grade: str | None
    finding_codes: list[str]
    gates: dict[str, Any]
    title: str | None
    said: str


def scopes(session: Session, *, filters: ScopeFilters, after: Cursor | None, limit: int) -> list[ScopeRow]:
    """Current verdicts over scopes, newest first."""
    ids = current.newest_ids(session, wanted=_asked(filters), after=after, limit=limit)
    return scope_rows(session, verdict_ids=ids)


def scope_rows(session: Session, *, verdict_ids: Sequence[UUID]) -> list[ScopeRow]:
    """These verdicts, in this order."""
    if not verdict_ids:
        return []
    found = session.execute(_SCOPE_ROWS, {"ids": list(verdict_ids), "most": MOST_NAMING})
    rows = {row["id"]: ScopeRow(**row) for row in found.mappings()}
    return [rows[one] for one in verdict_ids]


def count_scopes(session: Session, *, filters: ScopeFilters) -> Total:
    """How many scopes fit, counted up to a bound."""
    return current.count_verdicts(session, wanted=_asked(filters), on=None)


def _asked(filters: ScopeFilters) -> VerdictFilter:
    return VerdictFilter(
        kind=SCOPE,
        outcomes=filters.outcomes,
        deployable=filters.deployable,
        tp=filters.tp or None,
        dcp=filters.dcp or None,
        capability=filters.capability or None,
        terms=filters.terms,
        search=filters.words,
    )


def outcome_counts(session: Session) -> dict[str, Total]:
    """How many scopes have each outcome that occurs, each counted up to a bound."""
    return {
        row.outcome: Total(count=min(row.number, COUNTED), is_exact=row.number <= COUNTED)
        for row in session.execute(_OUTCOMES)
    }


def images_without_evidence(session: Session, *, after: Cursor | None, limit: int) -> list[Image]:
    """Registered images about which no scope was judged, newest first."""
    found: list[UUID] = []
    while len(found) < limit:
        noted = session.execute(_noted(after=after, limit=limit)).all()
        found += [one.image_id for one in noted if one.judged is None]
        if len(noted) < limit:
            break
        after = Cursor(created_at=noted[-1].created_at, id=noted[-1].image_id)
    query = select(Image).where(Image.id.in_(found[:limit])).options(joinedload(Image.source))
    return list(session.scalars(query.order_by(Image.created_at.desc(), Image.id.desc())))


def count_images_without_evidence(session: Session) -> Total:
    """How many, counted up to a bound."""
    noted = _noted(after=None, limit=COUNTED + 1).subquery()
    alone = select(func.count()).select_from(noted).where(noted.c.judged.is_(None))
    found = session.execute(alone).scalar_one()
    return Total(count=min(found, COUNTED), is_exact=found <= COUNTED)


def _noted(*, after: Cursor | None, limit: int) -> Select[Any]:
    """The next images noted as unjudged, and a verdict that came while one was noted: there is hardly any, so
    that they are looked for among the rows of the page and not before it is cut."""
    row = ImageUnjudged
    near = select(row.image_id, row.config_id, row.created_at)
    if after is not None:
        near = near.where(tuple_(row.created_at, row.image_id) < (after.created_at, after.id))
    cut = near.order_by(row.created_at.desc(), row.image_id.desc()).limit(limit).subquery()
    judged = select(VerdictCurrent.verdict_id).where(
        VerdictCurrent.image_config_id == cut.c.config_id, VerdictCurrent.kind == SCOPE
    )
    query = select(cut.c.image_id, cut.c.created_at, judged.limit(1).scalar_subquery().label("judged"))
    return query.order_by(cut.c.created_at.desc(), cut.c.image_id.desc())


def image_with_config(session: Session, *, config_id: str) -> Image | None:
    """The registered image of a config id."""
    return session.scalars(_IMAGE, {"config_id": config_id}).one_or_none()


def parts_of_image(session: Session, *, config_id: str) -> list[VerdictRow]:
    """The newest of the receipt verdicts of which the verdicts over an image's scopes are composed."""
    return list(session.scalars(_PARTS, {"config_id": config_id}))


def history_of_image(session: Session, *, config_id: str) -> Sequence[Row[Any]]:
    """The newest verdicts over an image's scopes, current or not, each with what the one before it said."""
    return session.execute(_HISTORY, {"config_id": config_id, "most": MOST_HISTORY}).all()


def current_under(session: Session, *, keys: Sequence[str]) -> list[VerdictRow]:
    """The newest verdicts of these subjects, without their documents."""
    return list(session.scalars(_UNDER, {"keys": list(keys)})) if keys else []


def declarations_of_receipt(session: Session, *, sha256: str) -> list[DeclarationRow]:
    """Who declared a receipt meant for qualification."""
    return list(session.scalars(_DECLARATIONS, {"receipts": [sha256]}))


def checkpoint_roots(session: Session, *, sizes: Sequence[int]) -> dict[int, str]:
    """The roots of the checkpoints handed out for these sizes."""
    query = select(LedgerCheckpoint.size, LedgerCheckpoint.root).where(LedgerCheckpoint.size.in_(sizes))
    return {row.size: row.root for row in session.execute(query)} if sizes else {}


def is_known(session: Session, *, config_id: str) -> bool:
    """Whether a receipt or a verdict is about this image."""
    return bool(session.execute(_KNOWN, {"config_id": config_id}).scalar_one())


def outcomes_of_images(session: Session, *, config_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What the rules say of images now, by config id: each outcome of their scopes once."""
    if not config_ids:
        return {}
    query = (
        select(VerdictCurrent.image_config_id, VerdictCurrent.capability, VerdictCurrent.outcome)
        .where(VerdictCurrent.kind == SCOPE, VerdictCurrent.image_config_id.in_(config_ids))
        .distinct()
        .order_by(VerdictCurrent.capability, VerdictCurrent.outcome)
        .limit(MOST_OF_AN_IMAGE)
    )
    found: dict[str, tuple[str, ...]] = {}
    for config_id, capability, outcome in session.execute(query):
        found[config_id or ""] = (*found.get(config_id or "", ()), f"{outcome} ({capability})")
    return found


def names_from_receipts(
    session: Session, *, config_ids: Sequence[str | None]
) -> dict[str, tuple[str | None, str]]:
    """What receipts call images, by config id: the release that the newest one of the last few names, or
    none, and the title of that receipt."""
    known = sorted({one for one in config_ids if one is not None})
    if not known:
        return {}
    found = session.execute(_NAMES, {"config_ids": known, "most": MOST_NAMING})
    return {one.config_id: (one.release, one.title) for one in found}
