"""Query parameters nobody knows are refused: a mistyped filter must not look like one that matches.

So are those sent twice where one is meant: of two outcomes only one would have been looked for.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from app.errors import FieldProblem, Refused
from app.web.auth import Principal, current_principal
from app.web.members import refuse_repeated


async def known_query(request: Request, _principal: Annotated[Principal, Depends(current_principal)]) -> None:
    """Return if the route knows every query parameter of the request; strangers are told nothing (401).

    Raises:
        Refused: a parameter is not one of the route's, or stands there more than once, as may no member of
            an object in the body.
    """
    refuse_repeated(request)
    _once(request)
    known = sorted(set(_names(request.scope["route"].dependant)))
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        expected = f"expected one of {', '.join(known)}" if known else "expected none"
        raise Refused(
            f"query: {expected}, found {', '.join(unknown)[:200]}",
            code="validation-failed",
            errors=tuple(_problem(name, expected=f"{expected}, found this one") for name in unknown),
        )


def _once(request: Request) -> None:
    counts = Counter(name for name, _ in request.query_params.multi_items())
    many = sorted(name for name, count in counts.items() if count > 1)
    if many:
        said = {name: f"expected {name[:100]} once, found {counts[name]} times" for name in many}
        raise Refused(
            f"query: {'; '.join(said.values())[:200]}",
            code="validation-failed",
            errors=tuple(_problem(name, expected=said[name]) for name in many),
        )


def _problem(name: str, *, expected: str) -> FieldProblem:
    pointer = "/" + name[:100].replace("~", "~0").replace("/", "~1")
    return FieldProblem(pointer=pointer, detail=f"query {expected}")


def _names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for one in dependant.dependencies:
        yield from _names(one)
