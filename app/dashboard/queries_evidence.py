"""SQL for the pages of evidence: images by verdict, receipts, what was qualified on a day."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, select, tuple_, union_all
from sqlalchemy.orm import Session, aliased, contains_eager, defer, joinedload

from app.models import DeclarationRow, Image, LedgerCheckpoint, ReceiptRow, VerdictCurrent, VerdictRow
from app.web.paging import COUNTED, Cursor, Total, count_rows

SCOPE = "scope"
MOST_OF_AN_IMAGE = 100
MOST_HISTORY = 60


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


def scopes(
    session: Session, *, filters: ScopeFilters, after: Cursor | None, limit: int
) -> list[tuple[VerdictCurrent, Image | None]]:
    """Current verdicts over scopes, newest first, each with its registered image.

    The newest of each outcome are taken by the index that serves it, then the newest of those.
    """
    parts = []
    for one in _by_outcome(filters):
        query = _scopes(one).with_only_columns(VerdictCurrent.verdict_id).limit(limit)
        if after is not None:
            place = tuple_(VerdictCurrent.created_at, VerdictCurrent.verdict_id)
            query = query.where(place < (after.created_at, after.id))
        parts.append(select(query.subquery().c.verdict_id))
    page = (
        select(VerdictCurrent, Image)
        .where(VerdictCurrent.verdict_id.in_(union_all(*parts)))
        .join(VerdictCurrent.verdict)
        .outerjoin(Image, Image.config_id == VerdictCurrent.image_config_id)
        .options(contains_eager(VerdictCurrent.verdict).defer(VerdictRow.document))
        .order_by(VerdictCurrent.created_at.desc(), VerdictCurrent.verdict_id.desc())
    )
    return [(row, image) for row, image in session.execute(page.limit(limit))]


def count_scopes(session: Session, *, filters: ScopeFilters) -> Total:
    """How many scopes fit, counted up to a bound."""
    counts = [count_rows(session, _scopes(one)) for one in _by_outcome(filters)]
    found = sum(one.count for one in counts)
    exact = all(one.is_exact for one in counts) and found <= COUNTED
    return Total(count=min(found, COUNTED), is_exact=exact)


def _by_outcome(filters: ScopeFilters) -> list[ScopeFilters]:
    """The same filters for each outcome alone."""
    return [replace(filters, outcomes=(one,)) for one in filters.outcomes] or [filters]


def _scopes(filters: ScopeFilters) -> Select[Any]:
    query = select(VerdictCurrent).where(VerdictCurrent.kind == SCOPE)
    if filters.outcomes:
        query = query.where(VerdictCurrent.outcome.in_(filters.outcomes))
    for name in ("tp", "dcp", "capability"):
        asked = getattr(filters, name)
        if asked:
            query = query.where(getattr(VerdictCurrent, name) == asked)
    if filters.deployable is not None:
        query = query.where(VerdictCurrent.deployable.is_(filters.deployable))
    if filters.terms:
        query = query.where(VerdictCurrent.terms.contains(list(filters.terms)))
    if filters.words:
        query = query.where(VerdictCurrent.words.op("@@")(_search(filters.words)))
    return query.order_by(VerdictCurrent.created_at.desc(), VerdictCurrent.verdict_id.desc())


def _search(words: Sequence[str]) -> ColumnElement[Any]:
    """Every word as the start of one; quoted, so that nothing in it is an operator."""
    quoted = ("'" + word.replace("\\", "\\\\").replace("'", "''") + "':*" for word in words)
    return func.to_tsquery("simple", " & ".join(quoted))


def outcome_counts(session: Session) -> dict[str, Total]:
    """How many scopes have each outcome that occurs, each counted up to a bound."""
    parts = []
    for outcome in ("qualified", "rejected", "research-only", "implemented", "unsupported", "incomplete"):
        rows = (
            select(literal(1))
            .where(VerdictCurrent.kind == SCOPE, VerdictCurrent.outcome == outcome)
            .limit(COUNTED + 1)
            .subquery()
        )
        parts.append(select(literal(outcome), select(func.count()).select_from(rows).scalar_subquery()))
    return {
        outcome: Total(count=min(count, COUNTED), is_exact=count <= COUNTED)
        for outcome, count in session.execute(union_all(*parts))
    }


def images_without_evidence(session: Session, *, after: Cursor | None, limit: int) -> list[Image]:
    """Registered images about which no scope was judged, newest first."""
    query = _without_evidence().options(joinedload(Image.source))
    if after is not None:
        query = query.where(tuple_(Image.created_at, Image.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_images_without_evidence(session: Session) -> Total:
    """How many, counted up to a bound."""
    return count_rows(session, _without_evidence())


def _without_evidence() -> Select[Image]:
    judged = select(VerdictCurrent.verdict_id).where(
        VerdictCurrent.image_config_id == Image.config_id, VerdictCurrent.kind == SCOPE
    )
    return select(Image).where(~judged.exists()).order_by(Image.created_at.desc(), Image.id.desc())


def image_with_config(session: Session, *, config_id: str) -> Image | None:
    """The registered image of a config id."""
    query = select(Image).options(joinedload(Image.source)).where(Image.config_id == config_id)
    return session.scalars(query).one_or_none()


def parts_of_image(session: Session, *, config_id: str) -> list[VerdictRow]:
    """The newest of the receipt verdicts of which the verdicts over an image's scopes are composed."""
    query = (
        select(VerdictRow)
        .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
        .where(
            VerdictCurrent.image_config_id == config_id,
            VerdictCurrent.kind.in_(("receipt", "case")),
            VerdictCurrent.composes,
        )
        .order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
        .limit(MOST_OF_AN_IMAGE)
    )
    return list(session.scalars(query))


def history_of_image(session: Session, *, config_id: str) -> list[tuple[VerdictRow, VerdictRow | None]]:
    """The newest verdicts over an image's scopes, current or not, each with the one before it."""
    before = aliased(VerdictRow)
    query = (
        select(VerdictRow, before)
        .outerjoin(before, before.id == VerdictRow.previous_id)
        .options(defer(VerdictRow.document), defer(before.document))
        .where(VerdictRow.image_config_id == config_id, VerdictRow.kind == SCOPE)
        .order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
        .limit(MOST_HISTORY)
    )
    return [(row, previous) for row, previous in session.execute(query)]


def receipt_bytes(session: Session, *, digests: Sequence[str]) -> dict[str, bytes]:
    """The bytes of receipts, by digest."""
    query = select(ReceiptRow.sha256, ReceiptRow.document).where(ReceiptRow.sha256.in_(digests))
    return {row.sha256: bytes(row.document) for row in session.execute(query)}


def current_under(session: Session, *, keys: Sequence[str]) -> list[VerdictRow]:
    """The newest verdicts of these subjects, without their documents."""
    query = (
        select(VerdictRow)
        .join(VerdictCurrent, VerdictCurrent.verdict_id == VerdictRow.id)
        .where(VerdictCurrent.subject_key.in_(keys))
        .options(defer(VerdictRow.document))
        .order_by(VerdictRow.capability, VerdictRow.created_at.desc(), VerdictRow.id)
        .limit(MOST_OF_AN_IMAGE)
    )
    return list(session.scalars(query))


def declarations_of_receipt(session: Session, *, sha256: str) -> list[DeclarationRow]:
    """Who declared a receipt meant for qualification."""
    query = (
        select(DeclarationRow)
        .where(DeclarationRow.receipts.contains([sha256]))
        .order_by(DeclarationRow.created_at.desc(), DeclarationRow.id)
        .limit(MOST_OF_AN_IMAGE)
    )
    return list(session.scalars(query))


def checkpoint_roots(session: Session, *, sizes: Sequence[int]) -> dict[int, str]:
    """The roots of the checkpoints handed out for these sizes."""
    query = select(LedgerCheckpoint.size, LedgerCheckpoint.root).where(LedgerCheckpoint.size.in_(sizes))
    return {row.size: row.root for row in session.execute(query)} if sizes else {}


def is_known(session: Session, *, config_id: str) -> bool:
    """Whether a receipt or a verdict is about this image."""
    judged = select(literal(1)).where(VerdictRow.image_config_id == config_id).limit(1)
    named = select(literal(1)).where(ReceiptRow.image_config_id == config_id).limit(1)
    return session.execute(judged.union_all(named)).first() is not None


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


def images_with_configs(session: Session, *, config_ids: Sequence[str | None]) -> dict[str, Image]:
    """The registered images of these config ids."""
    known = [one for one in config_ids if one is not None]
    query = select(Image).where(Image.config_id.in_(known))
    return {image.config_id: image for image in session.scalars(query) if image.config_id} if known else {}
