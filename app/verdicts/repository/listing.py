"""A page of the newest verdicts under any filters, in time that does not grow with the list.

What an index has in the list's order (`equal`) is walked by it. Words and terms (`sought`) have an index that
knows no order: a frequent one is met soon by walking, a rare one is found by that index and then put in
order. Which of the two it is nobody knows beforehand, and the planner guesses badly. So a bounded walk comes
first, and only where it has not filled the page all that is found is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from app.web.paging import COUNTED, Cursor, Total

# So many rows are walked for words and terms before their own index is asked; about a microsecond each.
WALKED: Final = 6000
# A count looks at so many first: those tell how frequent what is sought is.
LOOKED_AT: Final = 600
# For a count of words of which one row in 25 has them, so many: the index would read every row's entry of a
# frequent word. Of terms it has few enough, unless every sixth row has them.
COUNT_WALKED: Final = 25 * COUNTED
_FREQUENT_WORDS: Final = LOOKED_AT // 25
_FREQUENT_TERMS: Final = LOOKED_AT // 6
_KINDS: Final = ("case", "receipt", "scope")
_ORDER: Final = "ORDER BY created_at DESC, verdict_id DESC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What a list is limited to; what is empty limits nothing.

    Attributes:
        equal: columns of `verdict_current` and what each is.
        outcomes: any of them.
        terms: exact words every row has.
        words: words that all occur, each as the start of one.
    """

    kind: str
    equal: Mapping[str, Any] = field(default_factory=dict)
    outcomes: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def shape(self) -> "_Shape":
        if self.kind not in _KINDS:
            raise ValueError(f"kind: expected {', '.join(_KINDS)}, found {self.kind}")
        return _Shape(
            kind=self.kind,
            columns=tuple(self.equal),
            outcomes=len(self.outcomes),
            has_terms=bool(self.terms),
            has_words=bool(self.words),
        )

    @property
    def given(self) -> dict[str, Any]:
        """The values, by the names they have in the statements."""
        given = dict(self.equal)
        given |= {f"outcome_{place}": outcome for place, outcome in enumerate(self.outcomes)}
        if self.terms:
            given["terms"] = list(self.terms)
        if self.words:
            # Quoted, so that nothing in a word is an operator.
            quoted = ("'" + word.replace("\\", "\\\\").replace("'", "''") + "':*" for word in self.words)
            given["words"] = " & ".join(quoted)
        return given


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What statements differ by: there are few, and each is put together once."""

    kind: str
    columns: tuple[str, ...]
    outcomes: int
    has_terms: bool
    has_words: bool

    @property
    def is_sought(self) -> bool:
        return self.has_terms or self.has_words

    @property
    def limits(self) -> str:
        """The kind is written out, since the indexes over words and terms are kept for scopes and the rest
        apart."""
        outcomes = ", ".join(f":outcome_{place}" for place in range(self.outcomes))
        parts = [f"kind = '{self.kind}'", *(f"{column} = :{column}" for column in self.columns)]
        return " AND ".join([*parts, f"outcome IN ({outcomes})"] if outcomes else parts)

    @property
    def sought(self) -> str:
        terms = ["terms @> CAST(:terms AS text[])"] if self.has_terms else []
        return " AND ".join([*terms, "words @@ to_tsquery('simple', :words)"] if self.has_words else terms)


def newest(session: Session, *, sought: Sought, after: Cursor | None, limit: int) -> list[UUID]:
    """The ids of a page of verdicts, newest first."""
    given = sought.given | {"limit": limit}
    if after is not None:
        given |= {"after_at": after.created_at, "after_id": after.id}
    return list(session.scalars(_newest(sought.shape, goes_on=after is not None), given))


def count(session: Session, *, sought: Sought) -> Total:
    """How many fit, counted up to a bound."""
    found = session.execute(_count(sought.shape), sought.given).scalar_one()
    return Total(count=min(found, COUNTED), is_exact=found <= COUNTED)


@cache
def _newest(shape: _Shape, *, goes_on: bool) -> TextClause:
    place = " AND (created_at, verdict_id) < (:after_at, :after_id)" if goes_on else ""
    if not shape.is_sought:
        return text(
            f"SELECT verdict_id FROM ({_in_order(shape, place=place)}) AS every {_ORDER} LIMIT :limit"
        )
    return text(
        "WITH walked AS ("
        "SELECT verdict_id, created_at FROM "
        f"({_near(shape, place=place, most=WALKED)}) AS near WHERE {shape.sought} {_ORDER} LIMIT :limit"
        "), found AS MATERIALIZED ("
        f"SELECT verdict_id, created_at FROM verdict_current WHERE {shape.limits}{place} AND {shape.sought} "
        "AND (SELECT count(*) FROM walked) < :limit"
        ") SELECT verdict_id FROM ("
        "SELECT verdict_id, created_at FROM walked WHERE (SELECT count(*) FROM walked) >= :limit "
        f"UNION ALL SELECT verdict_id, created_at FROM found) AS every {_ORDER} LIMIT :limit"
    )


def _in_order(shape: _Shape, *, place: str = "", most: str = ":limit") -> str:
    """Rows as an index has them in order: the newest of each outcome, where several are wanted."""
    limits = replace(shape, outcomes=0).limits
    parts = [
        f"(SELECT verdict_id, created_at FROM verdict_current WHERE {limits}{outcome}{place} "
        f"{_ORDER} LIMIT {most})"
        for outcome in [f" AND outcome = :outcome_{one}" for one in range(shape.outcomes)] or [""]
    ]
    return " UNION ALL ".join(parts)


@cache
def _count(shape: _Shape) -> TextClause:
    if not shape.is_sought:
        every = _in_order(shape, most=str(COUNTED + 1))
        return text(f"SELECT count(*) FROM ({every}) AS every")
    frequent = _FREQUENT_WORDS if shape.has_words else _FREQUENT_TERMS
    most = COUNT_WALKED if shape.has_words else 2 * 6 * COUNTED
    return text(
        f"WITH looked_at AS (SELECT count(*) AS number FROM ({_fitting(shape, most=LOOKED_AT)}) AS those), "
        f"walked AS (SELECT count(*) AS number FROM ({_fitting(shape, most=most)} "
        f"AND (SELECT number FROM looked_at) >= {frequent} LIMIT {COUNTED + 1}) AS those), "
        "found AS (SELECT count(*) AS number FROM ("
        f"SELECT FROM verdict_current WHERE {shape.limits} AND {shape.sought} "
        f"AND (SELECT number FROM walked) <= {COUNTED} LIMIT {COUNTED + 1}) AS those) "
        "SELECT greatest((SELECT number FROM walked), (SELECT number FROM found))"
    )


def _fitting(shape: _Shape, *, most: int) -> str:
    return f"SELECT FROM ({_near(shape, most=most)}) AS near WHERE {shape.sought}"


def _near(shape: _Shape, *, place: str = "", most: int) -> str:
    """The next rows of the list, whatever they say."""
    kept = ["terms"] * shape.has_terms + ["words"] * shape.has_words
    return (
        f"SELECT verdict_id, created_at, {', '.join(kept)} FROM verdict_current "
        f"WHERE {shape.limits}{place} {_ORDER} LIMIT {most}"
    )
