"""Errors as pages: whoever prefers HTML gets the problem's title, sentence and code instead of its JSON."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from app.dashboard.access import LoginNeeded, known_visitor, login_redirect
from app.dashboard.htmx import is_fragment_request
from app.dashboard.templating import page
from app.web.headers import CONTENT_SECURITY_POLICY

Answer = Callable[[Request, Any], Any]
# Programs ask here and nowhere else.
_PROGRAMS: Final = ("/api", "/health", "/openapi.json")


def install_page_errors(app: FastAPI) -> None:
    """Put a page around every error answer that is already installed, and lead strangers to the login."""
    app.exception_handlers.update({kind: _as_page(answer) for kind, answer in app.exception_handlers.items()})
    app.add_exception_handler(LoginNeeded, _to_login)


def _to_login(request: Request, error: Exception) -> Response:
    if not isinstance(error, LoginNeeded):
        raise error
    return login_redirect(request, error)


def _as_page(answer: Answer) -> Answer:
    def shown(request: Request, error: Any) -> Any:
        response = answer(request, error)
        is_page = isinstance(response, Response) and _wants_page(request)
        return _error_page(request, response) if is_page else response

    return shown


def _wants_page(request: Request) -> bool:
    path = request.url.path
    for_programs = any(path == root or path.startswith(f"{root}/") for root in _PROGRAMS)
    return not for_programs and _prefers_html(request.headers.get("accept", ""))


def _prefers_html(accept: str) -> bool:
    """Whether text/html is asked for by name and no JSON before it."""
    names = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    json_at = next((at for at, name in enumerate(names) if name.endswith("json")), len(names))
    return "text/html" in names[:json_at]


def _error_page(request: Request, response: Response) -> Response:
    problem = json.loads(bytes(response.body))
    status = response.status_code
    body = page(
        request,
        "error.html",
        status=status,
        login=known_visitor(request) if status < HTTPStatus.INTERNAL_SERVER_ERROR else None,
        problem=problem,
        phrase=HTTPStatus(status).phrase,
        fragment=is_fragment_request(request),
    )
    # The answer to an unexpected error leaves outside the middleware that adds this.
    body.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    body.headers["Cache-Control"] = "no-store"
    for name in ("retry-after", "allow"):
        if name in response.headers:
            body.headers[name] = response.headers[name]
    return body
