"""Idempotency-Key: the same request twice is one request (draft-ietf-httpapi-idempotency-key-header)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Header, Response
from sqlalchemy import text
from sqlalchemy.orm import Session

from app.core.digest import sha256
from app.db.together import Question, ask_together
from app.errors import AppError, BadRequest, Conflict, Refused

E = TypeVar("E", bound=Exception)

# Asked in one trip; each has its own look at the data, so that what was kept before a lock was free is seen.
_LOCK: Final = """
    SELECT pg_try_advisory_xact_lock(hashtextextended(name, 0)) AS is_locked, clock_timestamp() AS now
      FROM unnest(CAST(%(names)s AS text[])) WITH ORDINALITY AS wanted (name, place) ORDER BY place
"""
_KEPT: Final = """
    SELECT principal, key, fingerprint, status, location, body, created_at, expires_at
      FROM idempotency_record
      JOIN unnest(CAST(%(principals)s AS text[]), CAST(%(keys)s AS text[])) AS wanted (principal, key)
     USING (principal, key)
"""
# As text, because building it costs more than asking it.
_KEEP: Final = text(
    """
    INSERT INTO idempotency_record
           (principal, key, fingerprint, status, location, body, created_at, expires_at)
    SELECT principal, key, fingerprint, status, location, body, :created_at, :expires_at
      FROM unnest(CAST(:principals AS text[]), CAST(:keys AS text[]), CAST(:fingerprints AS text[]),
                  CAST(:statuses AS bigint[]), CAST(:locations AS text[]), CAST(:bodies AS bytea[]))
           AS new (principal, key, fingerprint, status, location, body)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that shall have one effect.

    Attributes:
        principal: keys of different principals never meet.
        request: method, path and canonical body; what the key stands for.
    """

    principal: str
    key: str
    request: bytes

    @property
    def fingerprint(self) -> str:
        return sha256(self.request)


def answer_once(
    session: Session, *, principal: str, key: str, request: bytes, produce: Callable[[], Answer]
) -> Response:
    """Run `produce` for a new key, or repeat the answer kept for it.

    Args:
        session: the transaction in which `produce` works; the answer is kept in the same one, so that
            neither exists without the other.
        principal, request: see `Asked`.

    Raises:
        Conflict: the first request with this key is still running.
        Refused: the key was used for another request.
    """
    asked = Asked(principal=principal, key=key, request=request)
    (answer,) = answer_together(session, [asked], produce=lambda _: [produce()])
    if isinstance(answer, Exception):
        raise answer
    return answer


def answer_together(
    session: Session, asked: Sequence[Asked], *, produce: Callable[[Sequence[int]], Sequence[Answer | E]]
) -> list[Response | E | AppError]:
    """The answer of each request, or what is said against it; what is kept is kept in this transaction.

    Args:
        produce: told the places of the requests that are new, what each of them is answered; one that is
            refused is not kept, and may be sent again.
    """
    locked, kept = _looked_up(session, asked)
    result: dict[int, Response | E | AppError] = {}
    begun: set[tuple[str, str]] = set()
    for place, (one, is_locked) in enumerate(zip(asked, locked.are_free, strict=True)):
        name = one.principal, one.key
        record = kept.get(name)
        if not is_locked or name in begun:
            result[place] = _in_flight(one.key)
        elif record is not None and record.expires_at > locked.now:
            result[place] = _replay(record, asked=one)
        else:
            begun.add(name)
    fresh = [place for place in range(len(asked)) if place not in result]
    made = produce(fresh) if fresh else ()
    answered = []
    for place, answer in zip(fresh, made, strict=True):
        if isinstance(answer, Answer):
            answered.append((asked[place], answer))
            result[place] = answer.response(replayed=False)
        else:
            result[place] = answer
    if answered:
        _keep(session, answered, now=locked.now)
    return [result[place] for place in range(len(asked))]


class _Locked(NamedTuple):
    """Whether each key was free, and the database's time then."""

    are_free: list[bool]
    now: datetime


def _looked_up(session: Session, asked: Sequence[Asked]) -> tuple[_Locked, dict[tuple[str, str], Any]]:
    """Lock the keys, and read what is kept for them."""
    locks, kept = ask_together(
        session,
        Question(sql=_LOCK, given={"names": [f"idempotency\n{one.principal}\n{one.key}" for one in asked]}),
        Question(
            sql=_KEPT,
            given={"principals": [one.principal for one in asked], "keys": [one.key for one in asked]},
        ),
    )
    locked = _Locked([row.is_locked for row in locks], locks[0].now)
    return locked, {(row.principal, row.key): row for row in kept}


def _in_flight(key: str) -> Conflict:
    return Conflict(
        f"Idempotency-Key {key}: the first request with it is still running; ask again",
        code="idempotency-in-flight",
        headers={"Retry-After": "1"},
    )


def _replay(kept: Any, *, asked: Asked) -> Response | Refused:
    if kept.fingerprint != asked.fingerprint:
        return Refused(
            f"Idempotency-Key {asked.key}: used at {kept.created_at:%Y-%m-%dT%H:%M:%SZ} for another request",
            code="idempotency-key-reused",
        )
    return Answer(status=kept.status, body=kept.body, location=kept.location).response(replayed=True)


def _keep(session: Session, answered: Sequence[tuple[Asked, Answer]], *, now: datetime) -> None:
    """In the place of those that have expired, should they still be there."""
    values = {
        "principals": [asked.principal for asked, _ in answered],
        "keys": [asked.key for asked, _ in answered],
        "fingerprints": [asked.fingerprint for asked, _ in answered],
        "statuses": [answer.status for _, answer in answered],
        "locations": [answer.location for _, answer in answered],
        "bodies": [answer.body for _, answer in answered],
        "created_at": now,
        "expires_at": now + KEPT,
    }
    session.execute(_KEEP, values)
