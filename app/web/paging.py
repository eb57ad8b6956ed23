"""Lists by key, never by offset: opaque page tokens that cannot be forged or used elsewhere."""

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from fastapi import Depends, Query, Request
from sqlalchemy import Select, func, literal, select
from sqlalchemy.orm import Session

from app.core.canonical_json import decode_canonical, encode_canonical, expect_list, expect_text
from app.core.errors import CoreError
from app.errors import BadRequest

DEFAULT_SIZE: Final = 50
LARGEST_SIZE: Final = 200
DIGEST_DIGITS: Final = 64
# In bytes: whoever guesses it writes page tokens.
SHORTEST_PAGE_SECRET: Final = 16
# So far a list is counted; beyond that it has "1000+" rows, however many.
COUNTED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last row of the page before: rows follow in descending (created_at, id).

    `id` is a digest where rows are named by one.
    """

    created_at: datetime
    id: UUID | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What one request asks of a list."""

    size: int
    after: Cursor | None
    secret: bytes
    scope: str

    def under(self, path: str, filters: Mapping[str, str]) -> "Page":
        """The same page as a link asks for it, which may write filters otherwise than this request did."""
        return replace(self, scope=_scope(path, filters.items()))

    def token(self, cursor: Cursor) -> str:
        """The opaque token with which the next request goes on after `cursor`."""
        body = encode_canonical([cursor.created_at.isoformat(), str(cursor.id)])
        return base64.urlsafe_b64encode(_mac(self.secret, scope=self.scope, body=body) + body).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """How many rows a list has, counted up to `COUNTED`; `is_exact` says whether it ended there."""

    count: int
    is_exact: bool

    def __str__(self) -> str:
        """``37`` or ``1000+``."""
        return str(self.count) if self.is_exact else f"{self.count}+"


def count_rows(session: Session, query: Select[Any]) -> Total:
    """Count the rows of a list, in time that does not grow with the list.

    Args:
        query: the whole list with its filters and its order: the order makes the count walk the index that
            serves the list, where a bare count could read the whole table to find rows of a rare kind.
    """
    rows = query.with_only_columns(literal(1), maintain_column_froms=True).limit(COUNTED + 1).subquery()
    found = session.execute(select(func.count()).select_from(rows)).scalar_one()
    return Total(count=min(found, COUNTED), is_exact=found <= COUNTED)


class Dated(Protocol):
    """A row of a list."""

    @property
    def created_at(self) -> datetime: ...


class Keyed(Dated, Protocol):
    """A row of a list: its place is (created_at, id)."""

    @property
    def id(self) -> UUID: ...


@runtime_checkable
class Digested(Dated, Protocol):
    """A row of a list: its place is (created_at, sha256)."""

    @property
    def sha256(self) -> str: ...


Row = TypeVar("Row", bound=Keyed | Digested)


def next_token(page: Page, rows: Sequence[Row]) -> tuple[Sequence[Row], str]:
    """The rows to show of `page.size + 1` fetched ones, and the token of what follows ("" at the end)."""
    if len(rows) <= page.size:
        return rows, ""
    shown = rows[: page.size]
    last = shown[-1]
    name = last.sha256 if isinstance(last, Digested) else last.id
    return shown, page.token(Cursor(created_at=last.created_at, id=name))


def _scope(path: str, filters: Iterable[tuple[str, str]]) -> str:
    """What a token is good for: one list under these filters."""
    return f"{path}?{sorted(one for one in filters if one[0] not in {'page_size', 'page_token'})}"


def _mac(secret: bytes, *, scope: str, body: bytes) -> bytes:
    return hmac.digest(secret, scope.encode() + b"\0" + body, "sha256")[:16]


def _read_token(text: str, *, secret: bytes, scope: str) -> Cursor:
    refused = BadRequest("page_token: not a token of this list and these filters", code="page-token-invalid")
    try:
        raw = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise refused from error
    if not hmac.compare_digest(raw[:16], _mac(secret, scope=scope, body=raw[16:])):
        raise refused
    try:
        fields = expect_list(
            decode_canonical(raw[16:], subject="page token"), subject="page token", maximum=2
        )
        created_at, row_id = (expect_text(field, subject="page token") for field in fields)
        row_name = row_id if len(row_id) == DIGEST_DIGITS else UUID(row_id)
        return Cursor(created_at=datetime.fromisoformat(created_at), id=row_name)
    except (CoreError, ValueError) as error:
        raise refused from error


async def page(
    request: Request,
    page_size: Annotated[
        int,
        Query(
            description=f"0: default ({DEFAULT_SIZE}); more than {LARGEST_SIZE}: {LARGEST_SIZE}",
            json_schema_extra={"minimum": 0},
        ),
    ] = 0,
    page_token: Annotated[str | None, Query(max_length=512, description="from `next_page_token`")] = None,
) -> Page:
    """The page a list request asks for; a token fits its own path and filters only.

    Raises:
        BadRequest: the size is negative, or the token not one of this list and these filters.
    """
    if page_size < 0:
        raise BadRequest(f"page_size: expected 0 or more, found {page_size}", code="page-size-invalid")
    secret: bytes = request.app.state.page_secret
    scope = _scope(request.url.path, request.query_params.multi_items())
    after = _read_token(page_token, secret=secret, scope=scope) if page_token else None
    return Page(size=min(page_size or DEFAULT_SIZE, LARGEST_SIZE), after=after, secret=secret, scope=scope)


PageDep = Annotated[Page, Depends(page)]
