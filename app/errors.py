"""Errors of the application, each with the HTTP status and the problem code a client sees.

AppError
├── BadRequest            400
│   └── (codes name what is wrong)
├── Unauthenticated       401
├── Forbidden             403
├── NotFound              404
├── Conflict              409
├── Gone                  410
├── PreconditionFailed    412
├── TooLarge              413
├── Refused               422
├── PreconditionRequired  428
├── TooManyRequests       429
└── Unavailable           503
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One wrong part of a request: a JSON pointer and a sentence."""

    pointer: str
    detail: str


class AppError(Exception):
    """A request that cannot be served, with everything its answer needs.

    Args:
        code: stable kebab-case problem code; its page is ``/docs/problems#<code>``.
        detail: one sentence naming the thing, what was expected and what was found.
        errors: the wrong parts of the request, if it has parts.
        headers: extra response headers.
    """

    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal-error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: tuple[FieldProblem, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.errors = errors
        self.headers = dict(headers or {})


class BadRequest(AppError):
    status = 400
    default_code = "bad-request"


class Unauthenticated(AppError):
    status = 401
    default_code = "unauthenticated"


class Forbidden(AppError):
    status = 403
    default_code = "forbidden"


class NotFound(AppError):
    status = 404
    default_code = "not-found"


class Conflict(AppError):
    status = 409
    default_code = "conflict"


class Gone(AppError):
    status = 410
    default_code = "gone"


class PreconditionFailed(AppError):
    status = 412
    default_code = "precondition-failed"


class TooLarge(AppError):
    status = 413
    default_code = "content-too-large"


class Refused(AppError):
    status = 422
    default_code = "refused"


class PreconditionRequired(AppError):
    status = 428
    default_code = "precondition-required"


class TooManyRequests(AppError):
    status = 429
    default_code = "rate-limited"


class Unavailable(AppError):
    status = 503
    default_code = "unavailable"
