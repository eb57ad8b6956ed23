"""SQL of lists of restores: newest first, limited by any of the filters at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    Text,
    Uuid,
    cast,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.models import Account, Device, Layout, Node, RankAttempt, Restore, SnapshotRow
from app.web.paging import COUNTED, Cursor, Total, count_rows

# What is not known yet is the empty word here.
_UNKNOWN: Final = ""
_OUTCOMES: Final = (_UNKNOWN, "restored", "corrupt", "incomplete", "failed")
_SEMANTICS: Final = (_UNKNOWN, "right", "wrong", "unanswered", "not asked")
_UUID_DIGITS: Final = 32
_FINISHED: Final = "finished"
_NEWEST: Final = (Restore.created_at.desc(), Restore.id.desc())
# As the index `ix_restore_kind` has it: an index over an expression serves the same expression only.
_kind: Final[ColumnElement[str]] = literal_column(
    "((((coalesce(restore.outcome, '') || '/') || coalesce(restore.semantic, '')) || '/')"
    " || (restore.fault_name IS NOT NULL)::text)",
    Text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFilters:
    """What a list of restores is limited to; what is None limits nothing.

    Attributes:
        semantic: what came of the question.
        drill: True for restores with a fault put in on purpose, False for all others.
        node: a rank of the restore is placed on this node.
        text: how a restore's id, its snapshot's, storage key's or layout's digest begins, or who ordered it.
        since: the restore was requested then or later.
    """

    state: str | None = None
    outcome: str | None = None
    semantic: str | None = None
    drill: bool | None = None
    node: str | None = None
    text: str | None = None
    since: datetime | None = None


def list_restores(
    session: Session, *, filters: RestoreFilters, after: Cursor | None, limit: int
) -> list[Restore]:
    """Restores, newest first, without their attempts: a page of them must not load thousands of reports."""
    query = _newest_first(session, filters=filters)
    if _is_of_kinds(filters):
        newest = _by_kind(query, filters=filters, after=after, limit=limit).limit(limit).subquery()
        query = select(Restore).join(newest, newest.c.id == Restore.id).order_by(*_NEWEST)
    elif after is not None:
        query = query.where(tuple_(Restore.created_at, Restore.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_restores(session: Session, *, filters: RestoreFilters) -> Total:
    """How many restores fit, counted up to a bound."""
    query: Select[Any] = _newest_first(session, filters=filters)
    if _is_of_kinds(filters):
        # Kind after kind until there are enough: the order in which they are counted is nobody's.
        query = _by_kind(query, filters=filters, after=None, limit=COUNTED + 1).order_by(None)
    return count_rows(session, query)


def _is_of_kinds(filters: RestoreFilters) -> bool:
    """Whether kinds are looked up: an answer or drills are asked for, and no state that few are in."""
    is_asked = filters.semantic is not None or filters.drill is not None
    return is_asked and filters.state in (None, _FINISHED)


def _by_kind(
    query: Select[Restore], *, filters: RestoreFilters, after: Cursor | None, limit: int
) -> Select[UUID]:
    """Ids of the newest of each kind that fits, at most `limit` of a kind, newest first.

    A kind is an outcome, an answer and being a drill or not. LATERAL with a limit: the index has each kind
    in the order of the list, so that nobody walks many to find a few, as the wrong answers of no drill.
    What a kind is compared with is written as bounds and its rows are put in order by it too: that order no
    other index has, whatever the planner thinks how rare a kind is.
    """
    kind = func.unnest(cast(list(_kinds(filters)), ARRAY(Text))).table_valued("name", name="kind")
    upto, since = _kind <= kind.c.name, _kind >= kind.c.name
    if after is not None:
        place = (kind.c.name, literal(after.created_at), literal(after.id, Uuid))
        upto = tuple_(_kind, Restore.created_at, Restore.id) < tuple_(*place)
    if filters.since is not None:
        since = tuple_(_kind, Restore.created_at) >= tuple_(kind.c.name, literal(filters.since))
    of_kind = (
        query.with_only_columns(Restore.id, Restore.created_at)
        .where(upto, since)
        .order_by(None)
        .order_by(_kind.desc(), *_NEWEST)
        # A number the planner does not know: it reckons with a tenth, and sorts no whole kind for its newest.
        .limit(select(literal(limit)).scalar_subquery())
        .lateral()
    )
    rows = select(of_kind.c.id).select_from(kind.join(of_kind, true()))
    return rows.order_by(of_kind.c.created_at.desc(), of_kind.c.id.desc())


def _kinds(filters: RestoreFilters) -> Iterator[str]:
    """The kinds that fit, at most 21: what has an outcome has an answer too."""
    outcomes = _OUTCOMES if filters.outcome is None else (filters.outcome,)
    semantics = _SEMANTICS if filters.semantic is None else (filters.semantic,)
    drills = (False, True) if filters.drill is None else (filters.drill,)
    for outcome, semantic, is_drill in product(outcomes, semantics, drills):
        if outcome == _UNKNOWN or semantic != _UNKNOWN:
            yield f"{outcome}/{semantic}/{'true' if is_drill else 'false'}"


def _newest_first(session: Session, *, filters: RestoreFilters) -> Select[Restore]:
    """The list but for what `_by_kind` limits, if it does."""
    query = select(Restore).order_by(*_NEWEST)
    if not _is_of_kinds(filters):
        query = query.where(*_plainly(filters))
    if filters.state is not None:
        query = query.where(Restore.state == filters.state)
    if filters.text is not None:
        query = query.where(or_(false(), *_named(session, text=filters.text)))
    if filters.node is not None:
        on_node = (
            select(RankAttempt.id)
            .join(Device, Device.id == RankAttempt.device_id)
            .join(Node, Node.id == Device.node_id)
            .where(RankAttempt.restore_id == Restore.id, Node.name == filters.node)
        )
        query = query.where(on_node.exists())
    return query


def _plainly(filters: RestoreFilters) -> Iterator[ColumnElement[bool]]:
    if filters.since is not None:
        yield Restore.created_at >= filters.since
    if filters.outcome is not None:
        yield Restore.outcome == filters.outcome
    if filters.semantic is not None:
        yield Restore.semantic == filters.semantic
    if filters.drill is not None:
        yield Restore.fault_name.is_not(None) if filters.drill else Restore.fault_name.is_(None)


def _named(session: Session, *, text: str) -> list[ColumnElement[bool]]:
    """What a text can be the beginning of; looked up where few rows are, so that a slip reads no restore."""

    def known(column: InstrumentedAttribute[str]) -> list[str]:
        begins = column.startswith(text.lower(), autoescape=True)
        return list(session.scalars(select(column).where(begins).distinct().limit(COUNTED)))

    digests = (
        (Restore.context_digest, known(SnapshotRow.context_digest)),
        (Restore.rank_zero_storage_key, known(SnapshotRow.rank_zero_storage_key)),
        (Restore.layout_sha256, known(Layout.sha256)),
    )
    conditions: list[ColumnElement[bool]] = [column.in_(found) for column, found in digests if found]
    digits = text.lower().replace("-", "")
    if 0 < len(digits) <= _UUID_DIGITS and set(digits) <= set("0123456789abcdef"):
        least, most = (UUID(digits.ljust(_UUID_DIGITS, fill)) for fill in "0f")
        conditions.append(Restore.id.between(least, most))
    # A key writes as ACCOUNT/LABEL.
    account = select(Account.id).where(Account.name == text.partition("/")[0])
    if session.execute(account).first() is not None:
        conditions.append(Restore.created_by == text)
    return conditions
