"""Idempotency-Key: the same request twice is one request (draft-ietf-httpapi-idempotency-key-header)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import Depends, Header, Response
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.errors import BadRequest, Conflict, Refused

# As text, because building them costs more than asking them, and every order asks all three.
_LOCK: Final = text(
    "SELECT pg_try_advisory_xact_lock(hashtextextended(CAST(:name AS text), 0)), clock_timestamp()"
)
_KEPT: Final = text(
    "SELECT fingerprint, status, location, body, created_at, expires_at FROM idempotency_record"
    " WHERE principal = :principal AND key = :key"
)
_KEEP: Final = text(
    """
    INSERT INTO idempotency_record
           (principal, key, fingerprint, status, location, body, created_at, expires_at)
    VALUES (:principal, :key, :fingerprint, :status, :location, :body, :created_at, :expires_at)
    ON CONFLICT (principal, key) DO UPDATE
       SET fingerprint = excluded.fingerprint, status = excluded.status, location = excluded.location,
           body = excluded.body, created_at = excluded.created_at, expires_at = excluded.expires_at
    """
)

KEPT: Final = timedelta(hours=24)
LONGEST_KEY: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request was answered: kept, and given again to its repetition.

    Attributes:
        shown_once: the body of the first answer where that is not kept, because a secret stands in it.
    """

    status: int
    body: bytes
    location: str | None = None
    shown_once: bytes | None = None

    def response(self, *, replayed: bool) -> Response:
        headers = {"Idempotent-Replayed": "true"} if replayed else {}
        if self.location:
            headers["Location"] = self.location
        if self.status == 202:
            headers["Retry-After"] = "1"
        body = self.body if replayed or self.shown_once is None else self.shown_once
        return Response(body, status_code=self.status, media_type="application/json", headers=headers)


async def idempotency_key(
    key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", description="A new UUID per wanted effect; kept for 24 hours"),
    ] = None,
) -> str:
    """The key as sent, with or without the quotes of a structured header string.

    Raises:
        BadRequest: missing, empty or too long.
    """
    text = (key or "").strip().strip('"')
    if not text or len(text) > LONGEST_KEY:
        raise BadRequest(
            f"Idempotency-Key: expected 1 to {LONGEST_KEY} characters, found {len(text)}",
            code="idempotency-key-missing",
        )
    return text


IdempotencyKey = Annotated[str, Depends(idempotency_key)]


async def optional_idempotency_key(
    key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", description="Wanted: one effect, however often it is sent"),
    ] = None,
) -> str | None:
    """The key as sent, or nothing where none was.

    Raises:
        BadRequest: empty or too long.
    """
    return None if key is None else await idempotency_key(key)


IdempotencyKeyOptional = Annotated[str | None, Depends(optional_idempotency_key)]


def answer_once(
    session: Session, *, principal: str, key: str, request: bytes, produce: Callable[[], Answer]
) -> Response:
    """Run `produce` for a new key, or repeat the answer kept for it.

    Args:
        session: the transaction in which `produce` works; the answer is kept in the same one, so that
            neither exists without the other.
        principal: keys of different principals never meet.
        request: method, path and canonical body; what the key stands for.

    Raises:
        Conflict: the first request with this key is still running.
        Refused: the key was used for another request.
    """
    is_locked, now = session.execute(_LOCK, {"name": f"idempotency\n{principal}\n{key}"}).one()
    if not is_locked:
        raise Conflict(
            f"Idempotency-Key {key}: the first request with it is still running; ask again",
            code="idempotency-in-flight",
            headers={"Retry-After": "1"},
        )
    fingerprint = sha256(request)
    kept = session.execute(_KEPT, {"principal": principal, "key": key}).one_or_none()
    if kept is not None and kept.expires_at > now:
        answer = Answer(status=kept.status, body=kept.body, location=kept.location)
        return _replay(answer, key=key, fingerprint=fingerprint, used=kept.fingerprint, at=kept.created_at)
    answer = produce()
    _keep(session, principal=principal, key=key, fingerprint=fingerprint, answer=answer, now=now)
    return answer.response(replayed=False)


def _replay(kept: Answer, *, key: str, fingerprint: str, used: str, at: datetime) -> Response:
    if used != fingerprint:
        raise Refused(
            f"Idempotency-Key {key}: used at {at:%Y-%m-%dT%H:%M:%SZ} for another request",
            code="idempotency-key-reused",
        )
    return kept.response(replayed=True)


def _keep(
    session: Session, *, principal: str, key: str, fingerprint: str, answer: Answer, now: datetime
) -> None:
    """In the place of one that has expired, should it still be there."""
    values = {
        "principal": principal,
        "key": key,
        "fingerprint": fingerprint,
        "status": answer.status,
        "location": answer.location,
        "body": answer.body,
        "created_at": now,
        "expires_at": now + KEPT,
    }
    session.execute(_KEEP, values)
