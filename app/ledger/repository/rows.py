"""Rows of the views as texts: the database prints every value in one way, so a digest has one spelling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CHAR,
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    LargeBinary,
    Numeric,
    Select,
    Text,
    Uuid,
    any_,
    bindparam,
    cast,
    extract,
    func,
    inspect,
    literal,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB, array, psycopg
from sqlalchemy.orm import Session

from app.core.ledger.leaf import row_digest
from app.db.together import Question
from app.ledger.repository.views import VIEWS, View
from app.models import Base

_STREAMED: Final = 500
_MICROSECONDS: Final = 1_000_000
_FEW: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every row of a view that belongs to one restore or readback."""

    owner: UUID


# A key (a tuple where the primary key has several columns), a row just written, or all rows of an owner.
RowKey = Base | AllOf | str | int | UUID | tuple[str | int | UUID, ...]


# A view, and whether its rows are asked for by owner or by the first column of their keys.
_Part = tuple[str, bool]


class DigestQuestion:
    """View → key → digest of the rows of several leaves, all asked for with one statement."""

    def __init__(self, leaves: Iterable[Mapping[str, Iterable[RowKey]]]) -> None:
        self._leaves = [{view: _sorted_out(keys) for view, keys in rows.items()} for rows in leaves]
        # The order of the parts is that of the views, whatever the rows are: there are few such statements.
        self._firsts: dict[str, list[Any]] = {}
        self._owned: dict[tuple[str, UUID], None] = {}
        for rows in self._leaves:
            for view, (owners, identities) in rows.items():
                self._owned.update(dict.fromkeys((view, owner) for owner in owners))
                if identities:
                    self._firsts.setdefault(view, []).extend(identity[0] for identity in identities)

    @property
    def is_long(self) -> bool:
        """Whether many rows are asked for, or all of an owner, who may have many."""
        return bool(self._owned) or sum(map(len, self._firsts.values())) > _FEW

    @property
    def questions(self) -> list[Question]:
        """The statement, or none where no leaf has rows."""
        parts = [*((view, False) for view in self._firsts), *((view, True) for view, _ in self._owned)]
        if not parts:
            return []
        values = [*self._firsts.values(), *(owner for _, owner in self._owned)]
        sql, constants = _question(tuple(parts))
        return [Question(sql=sql, given=constants | {f"p{number}": one for number, one in enumerate(values)})]

    def answered(self, found: Iterable[Sequence[Any]]) -> list[dict[str, dict[str, str]]]:
        """Of each leaf the digests of its rows, as the database holds them now.

        Args:
            found: number of the part, key and texts of every row.

        Raises:
            LookupError: a row is not there.
        """
        # Of a key with several columns only the first is asked for: there may be more rows than wanted.
        texts: dict[int, dict[str, Sequence[str | None]]] = {}
        for number, key, printed in found:
            texts.setdefault(number, {})[key] = printed
        places: dict[object, int] = {}
        for one in (*self._firsts, *self._owned):
            places[one] = len(places)
        by_place = {one: texts.get(number, {}) for one, number in places.items()}
        return [
            {view: _digests(view, *wanted, by_place=by_place) for view, wanted in rows.items()}
            for rows in self._leaves
        ]


def _digests(
    view: str,
    owners: Sequence[UUID],
    identities: Sequence[tuple[Any, ...]],
    *,
    by_place: Mapping[object, Mapping[str, Sequence[str | None]]],
) -> dict[str, str]:
    """Key → digest of one leaf's rows of a view."""
    known = by_place.get(view, {})
    names = {"/".join(map(str, identity)) for identity in identities}
    for name in sorted(names - known.keys()):
        raise LookupError(f"ledger view {view}: expected row {name}, found none")
    chosen = {name: known[name] for name in names}
    for owner in owners:
        chosen.update(by_place[view, owner])
    return {name: _digest(VIEWS[view], printed) for name, printed in chosen.items()}


def _sorted_out(keys: Iterable[RowKey]) -> tuple[list[UUID], list[tuple[Any, ...]]]:
    owners, identities = [], []
    for one in keys:
        if isinstance(one, AllOf):
            owners.append(one.owner)
        else:
            identities.append(_identity(one))
    return owners, identities


@lru_cache(maxsize=256)
def _question(parts: tuple[_Part, ...]) -> tuple[str, dict[str, Any]]:
    """The statement and its constants; ``p0``, ``p1``, … are to be given. Built once: that costs more than
    asking it, and a digest is wanted in almost every transaction."""
    selects = [_select_part(number, part=part) for number, part in enumerate(parts)]
    compiled = union_all(*selects).compile(dialect=psycopg.dialect())  # type: ignore[no-untyped-call]
    return str(compiled), dict(compiled.params)


def _select_part(number: int, *, part: _Part) -> Select[Any]:
    name, is_owned = part
    view = VIEWS[name]
    query, _ = _selection(name)
    key, *texts = query.selected_columns
    if is_owned:
        if view.of is None:
            raise LookupError(f"ledger view {name}: belongs to no owner")
        # A parameter where the view expects the owner itself.
        where = view.of(bindparam(f"p{number}", type_=Uuid()))  # type: ignore[arg-type]
    else:
        first = inspect(view.model).primary_key[0]
        where = first == any_(bindparam(f"p{number}", type_=ARRAY(first.type)))
    return select(literal_column(str(number)), key, array(texts)).where(where)


# Column → type and printed text, or None for NULL: what a row's digest is over.
Values = Mapping[str, tuple[str, str] | None]


def values_of(
    session: Session, *, view: View, keys: Sequence[str], raw: str | None = None
) -> Iterator[tuple[str, Values, bytes | None]]:
    """Key, values and the bytes of one column of these rows, in no order; one that is not there is left out.

    Args:
        view: one whose rows have a key of one column.
        raw: the column whose bytes are wanted as they are.
    """
    query, kinds = _selection(view.name)
    (first,) = inspect(view.model).primary_key
    given = list(map(UUID, keys)) if isinstance(first.type, Uuid) else list(keys)
    columns = view.model.__table__.c
    query = query.add_columns(columns[raw] if raw else literal(None))
    for key, *texts, document in session.execute(
        query.where(first == any_(bindparam("keys", given, ARRAY(first.type))))
    ):
        yield key, _values(view, texts=texts, kinds=kinds), None if document is None else bytes(document)


def _digest(view: View, texts: Sequence[str | None]) -> str:
    _, kinds = _selection(view.name)
    return row_digest(view.name, values=_values(view, texts=texts, kinds=kinds))


def _values(view: View, *, texts: Sequence[str | None], kinds: Sequence[str]) -> Values:
    return {
        name: None if printed is None else (kind, printed)
        for name, kind, printed in zip(view.columns, kinds, texts, strict=True)
    }


def stream_due(session: Session, *, view: View) -> Iterator[tuple[str, str]]:
    """Key and digest of every row of a view that must have a leaf, in bounded memory."""
    yield from _rows(session, view, where=view.due)


def _rows(session: Session, view: View, *, where: ColumnElement[bool] | None) -> Iterator[tuple[str, str]]:
    """Key and digest of rows, some at a time."""
    query, _ = _selection(view.name)
    if where is not None:
        query = query.where(where)
    with session.execute(query.execution_options(yield_per=_STREAMED)) as rows:
        for row in rows:
            yield row[0], _digest(view, row[1:])


@cache
def _selection(name: str) -> tuple[Select[Any], tuple[str, ...]]:
    """Key and texts of a view's rows, and the types of the texts; building it costs more than asking it."""
    view = VIEWS[name]
    columns = [view.model.__table__.c[column] for column in view.columns]
    kinds = tuple(_kind(column) for column in columns)
    texts = [
        _text(column, kind=kind).label(f"value_{number}")
        for number, (column, kind) in enumerate(zip(columns, kinds, strict=True))
    ]
    return select(_key(view).label("row_key"), *texts), kinds


def _key(view: View) -> ColumnElement[str]:
    key: Any = None
    for column in inspect(view.model).primary_key:
        text = cast(column, Text)
        key = text if key is None else key.concat(literal("/")).concat(text)
    return key  # type: ignore[no-any-return]


def _kind(column: ColumnElement[Any]) -> str:
    for kind, types in _KINDS.items():
        if isinstance(column.type, types):
            return kind
    raise LookupError(f"ledger column {column}: no text form for {column.type!r}")


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "text": (Text, CHAR),
    "integer": (BigInteger,),
    "boolean": (Boolean,),
    "uuid": (Uuid,),
    "microseconds": (DateTime,),
    "bytes": (LargeBinary,),
    "json": (JSONB,),
    "texts": (ARRAY,),
}


def _text(column: ColumnElement[Any], *, kind: str) -> ColumnElement[Any]:
    """How each type is printed. Bytes as length and SHA-256: they need not travel to be compared."""
    match kind:
        case "microseconds":
            return microseconds(column)
        case "bytes":
            digest = func.encode(func.pg_catalog.sha256(column), "hex")
            return cast(func.octet_length(column), Text).concat(literal(" ")).concat(digest)
        case "texts":
            return cast(func.array_to_json(column), Text)
        case _:
            return cast(column, Text)


def microseconds(column: ColumnElement[Any]) -> ColumnElement[str]:
    """An instant as whole microseconds since 1970, or the word Infinity, for which to_char has none."""
    return cast(func.trunc(cast(extract("epoch", column), Numeric) * _MICROSECONDS), Text)


def _identity(row: RowKey) -> tuple[Any, ...]:
    if isinstance(row, Base):
        identity = inspect(row).identity
        if identity is None:
            raise LookupError(f"ledger: expected a written row, found a new {type(row).__name__}")
        return tuple(identity)
    return row if isinstance(row, tuple) else (row,)
