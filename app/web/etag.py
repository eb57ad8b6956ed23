"""Strong ETags on everything that is read; 304 for who has it already, 412 for who knows an older one."""

from typing import Annotated, Final

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel

from app.core.digest import sha256
from app.errors import PreconditionFailed, PreconditionRequired

IMMUTABLE: Final = "private, max-age=31536000, immutable"


def etag_of(body: bytes) -> str:
    """A strong entity tag, quotes included (RFC 9110 §8.8.3)."""
    return f'"{sha256(body)[:32]}"'


def matches(header: str | None, *, etag: str) -> bool:
    """Whether an If-None-Match header names `etag` (weak comparison, RFC 9110 §13.1.2)."""
    if header is None:
        return False
    candidates = {part.strip().removeprefix("W/") for part in header.split(",")}
    return "*" in candidates or etag in candidates


def conditional(
    request: Request, body: bytes, *, media_type: str, status: int = 200, fixed: bool = False
) -> Response:
    """The body with its ETag, or 304 without one.

    Args:
        fixed: what stands under this address never changes; it is named by its digest.
    """
    etag = etag_of(body)
    headers = {"ETag": etag, "Cache-Control": IMMUTABLE if fixed else "private, no-cache"}
    if matches(request.headers.get("if-none-match"), etag=etag):
        return Response(status_code=304, headers=headers)
    return Response(body, status_code=status, media_type=media_type, headers=headers)


def conditional_json(request: Request, model: BaseModel) -> Response:
    """A resource as JSON with its ETag, or 304."""
    return conditional(request, model.model_dump_json().encode(), media_type="application/json")


def tagged_json(model: BaseModel) -> Response:
    """What a change made of a resource, with the ETag the next change has to name."""
    body = model.model_dump_json().encode()
    headers = {"ETag": etag_of(body), "Cache-Control": "private, no-cache"}
    return Response(body, media_type="application/json", headers=headers)


class IfMatch:
    """The If-Match header of a request that changes something, and what it is compared with.

    Take it as `IfMatchOptional` or `IfMatchRequired` and call `check` in the transaction, once the rows are
    locked and before anything is changed.
    """

    def __init__(self, header: str | None) -> None:
        self._header = header

    @property
    def sent(self) -> bool:
        """Whether there is such a header: without one, `check` needs no current version."""
        return self._header is not None

    def check(self, current: BaseModel) -> None:
        """Return if the client knows `current`, what a GET of the resource would show now.

        Strong comparison (RFC 9110 §13.1.1): a weak tag never matches; `*` matches whatever is there.

        Raises:
            PreconditionFailed: the client knows another version.
        """
        if self._header is None:
            return
        etag = etag_of(current.model_dump_json().encode())
        sent = [part.strip() for part in self._header.split(",")]
        if "*" not in sent and etag not in sent:
            raise PreconditionFailed(
                f"If-Match: expected {etag}, found {self._header[:200]}; read the resource again",
                headers={"ETag": etag},
            )


def if_match_optional(
    header: Annotated[
        str | None,
        Header(alias="If-Match", description="the ETag of the resource as it was read; 412 where it changed"),
    ] = None,
) -> IfMatch:
    return IfMatch(header)


def if_match_required(
    header: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description="required: the ETag of the resource as it was read, or *; 412 where it changed",
        ),
    ] = None,
) -> IfMatch:
    """The header, if there is one.

    Raises:
        PreconditionRequired: there is none.
    """
    if header is None:
        raise PreconditionRequired(
            "If-Match: expected the ETag of the resource as it was read, found no header"
        )
    return IfMatch(header)


IfMatchOptional = Annotated[IfMatch, Depends(if_match_optional)]
IfMatchRequired = Annotated[IfMatch, Depends(if_match_required)]
