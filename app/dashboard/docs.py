"""Reference pages that need no login: every problem code, every REST operation."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from app.dashboard.access import known_visitor
from app.dashboard.templating import page
from app.web.auth import Scope
from app.web.problems import MEDIA_TYPE, PROBLEMS

router = APIRouter(prefix="/docs", include_in_schema=False)

METHODS: Final = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    place: str
    required: bool
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path, as the OpenAPI document describes it."""

    tag: str
    method: str
    path: str
    operation_id: str
    summary: str
    description: str
    needs_key: bool
    scope: str
    parameters: tuple[Parameter, ...]
    answers: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


@router.get("")
def docs() -> Response:
    return RedirectResponse("/docs/api", status_code=303)


@router.get("/problems")
def show_problems(request: Request) -> Response:
    rows = [(code, status, HTTPStatus(status).phrase, title) for code, (status, title) in PROBLEMS.items()]
    grouped = groupby(sorted(rows, key=lambda row: row[1]), key=lambda row: (row[1], row[2]))
    login = known_visitor(request)
    return page(
        request, "problems.html", login=login, groups=[(status, list(group)) for status, group in grouped]
    )


@router.get("/api")
def show_api(request: Request) -> Response:
    app: FastAPI = request.app
    document = app.openapi()
    by_tag: dict[str, list[Operation]] = {}
    for operation in operations(document, scopes=dict(_scopes(app.routes))):
        by_tag.setdefault(operation.tag, []).append(operation)
    version = document["info"]["version"]
    return page(request, "api.html", login=known_visitor(request), tags=by_tag, version=version)


def operations(document: dict[str, Any], *, scopes: Mapping[str, str]) -> list[Operation]:
    """Every operation of an OpenAPI document, in its order; `scopes` by operation id."""
    return [
        _operation(path, method=method, body=item[method], scopes=scopes)
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


def _scopes(routes: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Operation ids with the scope their dependencies ask for; OpenAPI has no place for it."""
    names = {f"requires_{scope.name.lower()}": str(scope) for scope in Scope}
    for route in routes:
        included = getattr(route, "original_router", None)
        if isinstance(included, APIRouter):
            yield from _scopes(included.routes)
        elif isinstance(route, APIRoute) and route.operation_id:
            found = [names[name] for name in _called(route.dependant) if name in names]
            yield from ((route.operation_id, scope) for scope in found)


def _called(dependant: Dependant) -> Iterator[str]:
    for one in dependant.dependencies:
        yield getattr(one.call, "__name__", "")
        yield from _called(one)


def _operation(path: str, *, method: str, body: dict[str, Any], scopes: Mapping[str, str]) -> Operation:
    answers, problems = _responses(body["responses"])
    return Operation(
        tag=body.get("tags", ["other"])[0],
        method=method.upper(),
        path=path,
        operation_id=body["operationId"],
        summary=body.get("summary", ""),
        description=body.get("description", ""),
        needs_key=bool(body.get("security")),
        scope=scopes.get(body["operationId"], ""),
        parameters=tuple(_parameter(one) for one in body.get("parameters", [])),
        answers=answers,
        problems=problems,
    )


def _parameter(one: dict[str, Any]) -> Parameter:
    return Parameter(
        name=one["name"],
        place=one["in"],
        required=one.get("required", False),
        description=one.get("description") or one.get("schema", {}).get("description", ""),
    )


def _responses(responses: dict[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Good answers with their sentences, and the codes of the problems."""
    good = tuple((status, _sentence(status, one)) for status, one in responses.items() if status < "400")
    problems = [
        code
        for status, one in responses.items()
        if status >= "400"
        for code in one.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {})
    ]
    return good, tuple(problems)


def _sentence(status: str, response: dict[str, Any]) -> str:
    """What an answer means: its own description, or what HTTP calls it where it has none."""
    said: str = response["description"]
    return HTTPStatus(int(status)).phrase if said == "Successful Response" else said
