"""How an exception looks to a client: one table from errors to application/problem+json (RFC 9457)."""

import logging
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm.exc import StaleDataError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.core.errors import CoreError
from app.errors import AppError, FieldProblem

MEDIA_TYPE: Final = "application/problem+json"
SAID_AT_MOST: Final = 3
# FastAPI's words for JSON that Python's parser gives up on for another reason than its form.
_UNREADABLE: Final = "There was an error parsing the body"
_SENTENCES: Final = {
    "missing": "expected a value, found none",
    "extra_forbidden": "expected no field of this name",
    "model_attributes_type": "expected a JSON object",
}
_OPENINGS: Final = {
    "Input should be ": "expected ",
    "Input should have ": "expected one with ",
    "String should match pattern ": "expected text that fits ",
    "String should have ": "expected text of ",
    "List should have ": "expected a list of ",
}
log = logging.getLogger(__name__)

# Every code a client can meet, with the sentence its page explains it by (/docs/problems#code).
PROBLEMS: Final[dict[str, tuple[int, str]]] = {
    "bad-request": (400, "The request is not well-formed"),
    "idempotency-key-missing": (400, "This request needs an Idempotency-Key header"),
    "page-size-invalid": (400, "The page size is negative"),
    "page-token-invalid": (400, "The page token does not belong to this list"),
    "ledger-out-of-range": (400, "The ledger has no such entry or size"),
    "unauthenticated": (401, "No API key was sent"),
    "key-refused": (401, "The API key is unknown, expired or revoked"),
    "forbidden": (403, "This is not allowed"),
    "scope-missing": (403, "The key lacks the scope this needs"),
    "other-node": (403, "The key speaks for another node"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The resource does not know this method"),
    "conflict": (409, "The state of the resource does not allow this"),
    "idempotency-in-flight": (409, "The same request is being worked on"),
    "attempt-not-claimable": (409, "The rank attempt cannot be claimed"),
    "fencing-token-stale": (409, "The fencing token is not the current one"),
    "lease-lost": (409, "The lease of the rank attempt has expired"),
    "report-differs": (409, "Another report was already received"),
    "runtime-differs": (409, "The runtime is not the one the worker registered"),
    "epoch-stale": (409, "The epoch is not the one decided"),
    "snapshot-incomplete": (409, "Not every rank of the snapshot is there"),
    "snapshot-ambiguous": (409, "More than one snapshot fits"),
    "devices-missing": (409, "A node has too few devices for its ranks"),
    "image-not-deployable": (409, "The image is not deployable for exactly this, and no exception holds"),
    "evidence-not-ready": (409, "There is no bundle, or not yet"),
    "cancel-too-late": (409, "There is nothing left to cancel"),
    "retry-refused": (409, "Only a restore that is over and not restored can be tried again"),
    "already-retried": (409, "The restore was tried again already"),
    "tries-exhausted": (409, "The restore was tried as often as it may be"),
    "not-published": (409, "The pages are not published"),
    "not-resident": (409, "The restore holds no pages"),
    "last-admin": (409, "Nobody would be left to administer accounts"),
    "gone": (410, "The pages have been discarded"),
    "evidence-gone": (410, "The bundle's file is not kept any more"),
    "precondition-failed": (412, "The resource has changed since it was read"),
    "content-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body's media type is not supported"),
    "refused": (422, "The request is understood but wrong"),
    "validation-failed": (422, "Parts of the request are wrong"),
    "document-refused": (422, "The document is not valid"),
    "document-unknown": (422, "The document is of no kind that is known here"),
    "document-holds-secret": (422, "The document holds a secret, and what is kept is kept for good"),
    "idempotency-key-reused": (422, "The Idempotency-Key was used for another request"),
    "evidence-empty": (422, "The ledger has no entry in this period"),
    "source-dirty": (422, "A checkout with changes is no source identity"),
    "digests-mixed": (422, "A digest of one kind stands where another kind is expected"),
    "precondition-required": (428, "This request needs an If-Match header"),
    "rate-limited": (429, "Too many requests; wait as long as Retry-After says"),
    "internal-error": (500, "Something went wrong on our side"),
    "unavailable": (503, "The service cannot answer now"),
    "ledger-key-missing": (503, "No key is set that signs the ledger's checkpoints"),
    "ledger-inconsistent": (503, "The ledger differs from a checkpoint that was signed before"),
    "database-unavailable": (503, "The database cannot be reached now"),
}


class FieldProblemBody(BaseModel):
    pointer: str = Field(examples=["/context_digest"])
    detail: str = Field(examples=["expected 64 lower-case hexadecimal digits, found 'abc'"])


class ProblemBody(BaseModel):
    """application/problem+json (RFC 9457)."""

    type: str = Field(examples=["/docs/problems#not-found"])
    title: str = Field(examples=["There is no such thing"])
    status: int = Field(examples=[404])
    detail: str
    instance: str = Field(examples=["/api/v1/restores/7e1c…"])
    code: str = Field(examples=["not-found"])
    request_id: str
    errors: list[FieldProblemBody] = Field(default_factory=list)


def problem_response(request: Request, error: AppError) -> JSONResponse:
    """The answer for one application error."""
    title = PROBLEMS.get(error.code, (error.status, HTTPStatus(error.status).phrase))[1]
    body = ProblemBody(
        type=f"/docs/problems#{error.code}",
        title=title,
        status=error.status,
        detail=error.detail,
        instance=request.url.path,
        code=error.code,
        request_id=getattr(request.state, "request_id", ""),
        errors=[FieldProblemBody(pointer=part.pointer, detail=part.detail) for part in error.errors],
    )
    return JSONResponse(
        body.model_dump(), status_code=error.status, media_type=MEDIA_TYPE, headers=error.headers
    )


class _Status(AppError):
    """An error with a status chosen at run time (routing errors, server errors)."""

    def __init__(self, status: int, detail: str, **rest: Any) -> None:
        super().__init__(detail, **rest)
        self.status = status  # type: ignore[misc]  # a class constant everywhere else


def _of_http(request: Request, error: HTTPException) -> AppError:
    codes = {
        404: "not-found",
        405: "method-not-allowed",
        413: "content-too-large",
        415: "unsupported-media-type",
    }
    code = codes.get(error.status_code, "bad-request" if error.status_code < 500 else "internal-error")
    detail = error.detail or HTTPStatus(error.status_code).phrase
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(allowed_methods(request))
        detail = f"method: expected one of {headers['Allow']}, found {request.method:.20}"
    if detail == _UNREADABLE:
        detail = (
            "body: expected JSON in UTF-8, found another encoding, deep nesting or a number too long to read"
        )
    return _Status(error.status_code, detail, code=code, headers=headers)


def allowed_methods(request: Request) -> list[str]:
    """The methods that any route knows for this path; Starlette names those of the first one only."""
    found: set[str] = set()
    for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            found.add(method)
    if "GET" in found:
        found.add("HEAD")
    return sorted(found)


def _of_validation(request: Request, error: RequestValidationError) -> AppError:
    found = error.errors()
    for part in found:
        if part["type"] == "json_invalid":
            return _Status(400, _malformed(part), code="bad-request")
        if part["loc"] == ("body",) and isinstance(part.get("input"), bytes):
            # A body that is not said to be JSON is not parsed.
            sent = request.headers.get("content-type", "none")
            detail = f"Content-Type: expected application/json, found {sent:.100}"
            return _Status(415, detail, code="unsupported-media-type")
    parts = tuple(_field_problem(part) for part in found)
    return _Status(422, _said_of(parts), code="validation-failed", errors=parts)


def _malformed(part: dict[str, Any]) -> str:
    """What the JSON parser says, with the character at which it says it."""
    said = str(part.get("ctx", {}).get("error", "another thing"))
    return f"body: expected JSON, found at character {part['loc'][-1]}: {said}"


def _said_of(parts: tuple[FieldProblem, ...]) -> str:
    """What is wrong where, in one line; of many the first ones, all of them stand in ``errors``."""
    said = "; ".join(f"{part.pointer or 'body'}: {part.detail}" for part in parts[:SAID_AT_MOST])
    more = len(parts) - SAID_AT_MOST
    return said if more <= 0 else f"{said}; and {more} more"


def _field_problem(part: dict[str, Any]) -> FieldProblem:
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in part["loc"][1:])
    pointer = "".join(f"/{step}" for step in steps)
    found = part.get("input")
    tellable = isinstance(found, str | int | float | bool) or found is None
    shown = f", found {found!r:.120}" if tellable and not _may_be_secret(part) else ""
    where = "" if part["loc"][0] == "body" else f"{part['loc'][0]} "
    return FieldProblem(pointer=pointer, detail=f"{where}{_expected(part)}{shown}")


def _expected(part: dict[str, Any]) -> str:
    """Pydantic's sentence in the words of every other problem: what was expected."""
    said = str(_SENTENCES.get(part["type"], part["msg"]))
    for theirs, ours in _OPENINGS.items():
        if said.startswith(theirs):
            return ours + said.removeprefix(theirs)
    return said


def _may_be_secret(part: dict[str, Any]) -> bool:
    """Whether what was sent there must not be repeated: secrets, fields nobody knows (mistyped ones), and
    a whole body, which can be either."""
    return (
        part["type"] == "extra_forbidden"
        or len(part["loc"]) == 1
        or any(
            word in str(step).lower()
            for step in part["loc"]
            for word in ("password", "secret", "authorization")
        )
    )


def _of_core(error: CoreError) -> AppError:
    return _Status(422, str(error), code="document-refused")


def _of_stale(_: StaleDataError) -> AppError:
    return _Status(409, "the resource was changed meanwhile; ask again", code="conflict")


def _of_integrity(error: IntegrityError) -> AppError:
    """Two requests made the same thing at once, and this one was second."""
    log.warning("conflict in the database: %s", type(error.orig).__name__)
    return _Status(409, "the same thing was registered meanwhile; ask again", code="conflict")


def _of_value(error: DataError) -> AppError:
    log.warning("value the database cannot hold: %s", type(error.orig).__name__)
    return _Status(422, "body: expected values the database can hold, found one it cannot", code="refused")


def _of_database(error: Exception) -> AppError:
    log.error("database: %s", error)
    return _Status(
        503, "the database cannot be reached now", code="database-unavailable", headers={"Retry-After": "2"}
    )


def install_problems(app: FastAPI) -> None:
    """Answer every error, routing errors included, with problem+json."""

    @app.exception_handler(AppError)
    def _app(request: Request, error: AppError) -> JSONResponse:
        return problem_response(request, error)

    @app.exception_handler(Exception)
    def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.exception("unexpected error in %s", request.url.path, exc_info=error)
        return problem_response(
            request, _Status(500, "unexpected error; the log has it", code="internal-error")
        )

    @app.exception_handler(HTTPException)
    def _http(request: Request, error: HTTPException) -> JSONResponse:
        return problem_response(request, _of_http(request, error))

    @app.exception_handler(RequestValidationError)
    def _validation(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem_response(request, _of_validation(request, error))

    for kind, translate in (
        (CoreError, _of_core),
        (StaleDataError, _of_stale),
        (IntegrityError, _of_integrity),
        (DataError, _of_value),
        (OperationalError, _of_database),
        (PoolTimeoutError, _of_database),
    ):
        _install(app, kind=kind, translate=translate)


def _install(app: FastAPI, *, kind: Any, translate: Any) -> None:
    @app.exception_handler(kind)
    def _translated(request: Request, error: Any) -> JSONResponse:
        return problem_response(request, translate(error))


def problem_responses(*codes: str, everywhere: bool = True) -> dict[int | str, dict[str, Any]]:
    """OpenAPI `responses` for one operation: each problem with an example.

    Args:
        codes: what is special to the operation; what follows from its kind, `app.web.openapi` adds.
        everywhere: with those of every operation that wants a key.
    """
    responses: dict[int | str, dict[str, Any]] = {}
    general = ("unauthenticated", "scope-missing", "validation-failed") if everywhere else ()
    for code in (*general, *codes):
        status, title = PROBLEMS[code]
        entry = responses.setdefault(
            status, {"model": ProblemBody, "description": title, "content": {MEDIA_TYPE: {"examples": {}}}}
        )
        entry["content"][MEDIA_TYPE]["examples"][code] = {"summary": title, "value": _example(code)}
    return responses


def _example(code: str) -> dict[str, Any]:
    status, title = PROBLEMS[code]
    return {
        "type": f"/docs/problems#{code}",
        "title": title,
        "status": status,
        "detail": title,
        "instance": "/api/v1/…",
        "code": code,
        "request_id": "5f0c1d4e9a7b4f6f8f0f1b2c3d4e5f60",
        "errors": [],
    }
