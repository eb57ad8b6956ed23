"""A member given twice in a JSON body is refused: of two values only the last would have counted."""

import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from app.core.qualify import pointer
from app.errors import FieldProblem, Refused

TOLD_AT_MOST: Final = 10
_LONGEST_NAME: Final = 100


class ApiRouter(APIRouter):
    """A router of the API: JSON bodies that FastAPI reads are looked through as they are read."""

    def __init__(self, *, prefix: str, tags: list[str | Enum]) -> None:
        super().__init__(prefix=prefix, tags=tags, route_class=_Route)


def refuse_repeated(request: Request) -> None:
    """Return if every member of every object of the body stands there once.

    Raises:
        Refused: it does not; the first ones are named.
    """
    if isinstance(request, _OnceRequest) and request.repeated:
        raise Refused(
            "; ".join(f"{one.pointer}: {one.detail}" for one in request.repeated[:3]),
            code="validation-failed",
            errors=request.repeated,
        )


class _Repeated(Exception):
    """Some object has a member twice."""


class _Members(list[tuple[str, Any]]):
    """An object as it is written."""


class _OnceRequest(Request):
    """Remembers what its body gives twice: an error raised while FastAPI reads it would be another one, and
    would be told to strangers."""

    repeated: tuple[FieldProblem, ...] = ()

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            try:
                self._json = json.loads(body, object_pairs_hook=_once)
            except _Repeated:
                self._json = json.loads(body)
                found = _found(json.loads(body, object_pairs_hook=_Members), at="")
                self.repeated = tuple(islice(found, TOLD_AT_MOST))
        return self._json


def _reading_once(route: APIRoute) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    answer = APIRoute.get_route_handler(route)

    async def answer_once(request: Request) -> Response:
        return await answer(_OnceRequest(request.scope, request.receive, request._send))

    return answer_once


class _Route(APIRoute):
    # FastAPI's name for it.
    get_route_handler = _reading_once


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(members)
    if len(made) != len(members):
        raise _Repeated
    return made


def _found(value: Any, *, at: str) -> Iterator[FieldProblem]:
    """What is given twice, outermost first."""
    if not isinstance(value, list):
        return
    if not isinstance(value, _Members):
        for place, element in enumerate(value):
            yield from _found(element, at=f"{at}/{place}")
        return
    for name, count in Counter(name for name, _ in value).items():
        if count > 1:
            shown = name[:_LONGEST_NAME]
            detail = f"expected {shown} once, found {count} times"
            yield FieldProblem(pointer=at + pointer.step(shown), detail=detail)
    for name, inner in value:
        yield from _found(inner, at=at + pointer.step(name[:_LONGEST_NAME]))
