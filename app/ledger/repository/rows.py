"""Rows of the views as texts: the database prints every value in one way, so a digest has one spelling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
    cast,
    extract,
    func,
    inspect,
    literal,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from app.core.ledger.leaf import row_digest
from app.ledger.repository.views import VIEWS, View
from app.models import Base

_STREAMED: Final = 500
_ASKED: Final = 1000
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every row of a view that belongs to one restore or readback."""

    owner: UUID


# A key (a tuple where the primary key has several columns), a row just written, or all rows of an owner.
RowKey = Base | AllOf | str | int | UUID | tuple[str | int | UUID, ...]


def digests_of(session: Session, *, view: str, keys: Iterable[RowKey]) -> dict[str, str]:
    """Key → digest of these rows of a view, as the database holds them now.

    Raises:
        LookupError: a row is not there.
    """
    shape = VIEWS[view]
    given = list(keys)
    found: dict[str, str] = {}
    for one in given:
        if isinstance(one, AllOf):
            if shape.of is None:
                raise LookupError(f"ledger view {view}: belongs to no owner")
            found |= dict(_rows(session, shape, where=shape.of(one.owner), streamed=0))
    wanted = [_identity(one) for one in given if not isinstance(one, AllOf)]
    for start in range(0, len(wanted), _ASKED):
        part = wanted[start : start + _ASKED]
        found |= dict(_rows(session, shape, where=_is_one_of(shape, part), streamed=0))
    for identity in wanted:
        key = "/".join(map(str, identity))
        if key not in found:
            raise LookupError(f"ledger view {view}: expected row {key}, found none")
    return found


def stream_due(session: Session, *, view: View) -> Iterator[tuple[str, str]]:
    """Key and digest of every row of a view that must have a leaf, in bounded memory."""
    yield from _rows(session, view, where=view.due)


def _rows(
    session: Session, view: View, *, where: ColumnElement[bool] | None, streamed: int = _STREAMED
) -> Iterator[tuple[str, str]]:
    """Key and digest of rows, `streamed` at a time or (0) all at once: a cursor costs more round trips."""
    query, kinds = _selection(view.name)
    if where is not None:
        query = query.where(where)
    options = {"yield_per": streamed} if streamed else {}
    with session.execute(query.execution_options(**options)) as rows:
        for row in rows:
            values = {
                name: None if text is None else (kind, text)
                for name, kind, text in zip(view.columns, kinds, row[1:], strict=True)
            }
            yield row[0], row_digest(view.name, values=values)


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


def _is_one_of(view: View, identities: Sequence[tuple[Any, ...]]) -> ColumnElement[bool]:
    columns = inspect(view.model).primary_key
    if len(columns) == 1:
        return columns[0].in_([identity[0] for identity in identities])
    return tuple_(*columns).in_(identities)
