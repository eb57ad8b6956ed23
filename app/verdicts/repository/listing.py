"""A page of the newest verdicts under any filters, in time that does not grow with the list.

What an index has in the list's order (`equal`) is walked by it. Words and terms (`sought`) have an index that
knows no order: a frequent one is met soon by walking, a rare one is found by that index and then put in
order. Which of the two it is nobody knows beforehand, and the planner guesses badly. So a bounded walk comes
first, and only where it has not filled the page all that is found is read.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, literal, literal_column, select, tuple_, union_all
from sqlalchemy.orm import Session

from app.models import VerdictCurrent
from app.web.paging import COUNTED, Cursor, Total, count_rows

# So many rows are walked for words and terms before their own index is asked; about a microsecond each.
WALKED: Final = 6000
# For a count of words of which one row in 25 has them, so many: the index would read every row's entry of a
# frequent word.
COUNT_WALKED: Final = 25 * COUNTED
_FREQUENT: Final = WALKED // 25


def of_kind(kind: str) -> ColumnElement[bool]:
    """Rows of a kind; written out, since the indexes over words and terms are kept for scopes and the rest
    apart."""
    if kind not in ("case", "receipt", "scope"):
        raise ValueError(f"kind: expected case, receipt or scope, found {kind}")
    return VerdictCurrent.kind == literal_column(f"'{kind}'")


def sought_by(row: Any, *, terms: Sequence[str], words: Sequence[str]) -> list[ColumnElement[bool]]:
    """Every one of the terms, and every one of the words as the start of one.

    Args: row: `VerdictCurrent` or an alias of its columns.
    """
    found: list[ColumnElement[bool]] = []
    if terms:
        found.append(row.terms.contains(list(terms)))
    if words:
        # Quoted, so that nothing in a word is an operator.
        quoted = ("'" + word.replace("\\", "\\\\").replace("'", "''") + "':*" for word in words)
        found.append(row.words.op("@@")(func.to_tsquery("simple", " & ".join(quoted))))
    return found


def newest(
    session: Session,
    *,
    equal: Sequence[ColumnElement[bool]],
    terms: Sequence[str] = (),
    words: Sequence[str] = (),
    after: Cursor | None,
    limit: int,
) -> list[UUID]:
    """The ids of a page of verdicts, newest first."""
    row = VerdictCurrent
    place = [] if after is None else [tuple_(row.created_at, row.verdict_id) < (after.created_at, after.id)]
    fitting = select(row.verdict_id, row.created_at).where(*equal, *place)
    if not terms and not words:
        query = fitting.order_by(row.created_at.desc(), row.verdict_id.desc()).limit(limit)
        return [one.verdict_id for one in session.execute(query)]
    near = _near(equal, place=place)
    walked = (
        select(near.c.verdict_id, near.c.created_at)
        .where(*sought_by(near.c, terms=terms, words=words))
        .order_by(near.c.created_at.desc(), near.c.verdict_id.desc())
        .limit(limit)
        .cte("walked")
    )
    filled = select(func.count()).select_from(walked).scalar_subquery() >= limit
    found = (
        fitting.where(*sought_by(row, terms=terms, words=words), ~filled)
        .cte("found")
        .prefix_with("MATERIALIZED")
    )
    every = union_all(
        select(walked.c.verdict_id, walked.c.created_at).where(filled),
        select(found.c.verdict_id, found.c.created_at),
    ).subquery()
    page = select(every.c.verdict_id).order_by(every.c.created_at.desc(), every.c.verdict_id.desc())
    return list(session.scalars(page.limit(limit)))


def count(
    session: Session,
    *,
    equal: Sequence[ColumnElement[bool]],
    terms: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Total:
    """How many fit, counted up to a bound."""
    row = VerdictCurrent
    fitting = select(row.verdict_id).where(*equal)
    if not terms and not words:
        return count_rows(session, fitting.order_by(row.created_at.desc(), row.verdict_id.desc()))
    walked = _counted(equal, terms=terms, words=words, of=WALKED).cte("walked")
    so_far = select(func.count()).select_from(walked).scalar_subquery()
    is_frequent = so_far >= (_FREQUENT if words else COUNTED + 1)
    further = (
        _counted(equal, terms=terms, words=words, of=COUNT_WALKED)
        .where(is_frequent, so_far <= COUNTED)
        .cte("further")
    )
    farther = select(func.count()).select_from(further).scalar_subquery()
    found = (
        select(literal(1).label("one"))
        .where(*equal, *sought_by(row, terms=terms, words=words), so_far <= COUNTED, farther <= COUNTED)
        .limit(COUNTED + 1)
        .subquery()
    )
    number = func.greatest(so_far, farther, select(func.count()).select_from(found).scalar_subquery())
    counted = session.execute(select(number)).scalar_one()
    return Total(count=min(counted, COUNTED), is_exact=counted <= COUNTED)


def _counted(
    equal: Sequence[ColumnElement[bool]], *, terms: Sequence[str], words: Sequence[str], of: int
) -> Select[Any]:
    """A row for each that fits of the next ones, up to the bound of a count."""
    near = _near(equal, place=[], most=of)
    fitting = select(literal(1).label("one")).select_from(near)
    return fitting.where(*sought_by(near.c, terms=terms, words=words)).limit(COUNTED + 1)


def _near(
    equal: Sequence[ColumnElement[bool]], *, place: Sequence[ColumnElement[bool]], most: int = WALKED
) -> Any:
    """The next rows of the list, whatever they say."""
    row = VerdictCurrent
    return (
        select(row.verdict_id, row.created_at, row.terms, row.words)
        .where(*equal, *place)
        .order_by(row.created_at.desc(), row.verdict_id.desc())
        .limit(most)
        .subquery("near")
    )
