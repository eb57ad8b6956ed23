"""Documents are kept: their bytes, an index over them, where they stood."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject
from app.core.digest import sha256
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import (
    identity_axes,
    index_text,
    origin_keys,
    receipt_columns,
    receipt_keys,
)
from app.db.together import Question, ask_together
from app.ledger import service as ledger
from app.receipts import repository
from app.receipts.repository import Kept, KeptPlace
from app.receipts.service.locks import subject_locks


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a document stood: ``committed_at`` orders the versions of one path."""

    repository: str
    path: str
    commit: str = ""
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A document that comes in: ``facts`` were read from ``raw``."""

    raw: bytes
    facts: DocumentFacts
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of submitted bytes.

    Attributes:
        created: the bytes are new.
        place: where they stood, if they are new there.
        new_axes: axes on which their image got a value it did not have.
        is_second: another document says something of the image's identity too. From now on this one is
            asked beside it about every axis, those on which it is not the first included.
    """

    facts: DocumentFacts
    created: bool
    place: KeptPlace | None
    new_axes: tuple[str, ...]
    is_second: bool
    keys: tuple[str, ...]

    @property
    def is_new(self) -> bool:
        """Whether anything about them has to be judged."""
        return self.created or self.place is not None


def append_receipts(session: Session, *, submissions: Sequence[Submission], by: str) -> list[Appended]:
    """Keep documents under their SHA-256; the same bytes again are the same row. Holds the locks of what they
    speak about."""
    every, _ = append_and_ask(session, submissions=submissions, by=by, questions=())
    return every


def append_and_ask(
    session: Session, *, submissions: Sequence[Submission], by: str, questions: Sequence[Question]
) -> tuple[list[Appended], list[list[Any]]]:
    """The same, and in the same trip what is asked once they are kept, with the answers."""
    keys = [receipt_keys(one.facts) for one in submissions]
    placed_keys = [_place_keys(one) for one in submissions]
    locks = subject_locks(
        digests=[one.facts.sha256 for one in submissions],
        keys=[key for many in (*keys, *placed_keys) for key in many],
    )
    rows = [_columns(one, keys=under) for one, under in zip(submissions, placed_keys, strict=True)]
    keeping = repository.keep_question(rows=rows, documents=[one.raw for one in submissions], by=by)
    answers = ask_together(session, *locks, keeping, *questions)[len(locks) :]
    kept = repository.kept(answers[0])
    if kept:
        _record(session, kept=kept, by=by)
    return _appended(submissions, kept, keys=keys, placed_keys=placed_keys), answers[1:]


def all_keys(one: Submission) -> list[str]:
    """Everything a document will be found under, if it is new and so is its place."""
    return [*receipt_keys(one.facts), *_place_keys(one)]


def _place_keys(one: Submission) -> list[str]:
    origin = one.origin
    if origin is None:
        return []
    return origin_keys(one.facts, repository=origin.repository, path=origin.path)


def _columns(one: Submission, *, keys: list[str]) -> JsonObject:
    """The row of a document, of its place, and what it says of its image's identity."""
    origin, columns = one.origin, receipt_columns(one.facts)
    place: JsonObject | None = None
    if origin is not None:
        place = {
            "repository": origin.repository,
            "path": origin.path,
            "commit": origin.commit,
            "committed_at": origin.committed_at.isoformat() if origin.committed_at else None,
            "keys": [*keys],
        }
    axes: JsonObject = {
        axis: [index_text(value), str(sha256(value.encode()))]
        for axis, value in (identity_axes(one.facts) if columns["image_config_id"] else {}).items()
    }
    return {**columns, "origin": place, "axes": axes}


def _record(session: Session, *, kept: Sequence[Kept], by: str) -> None:
    rows: dict[str, list[ledger.RowKey]] = {}
    for one in kept:
        rows.setdefault(one.view, []).append(one.id or one.sha256)
    digests = sorted({one.sha256 for one in kept})
    facts: JsonObject = {"receipt": digests[0]} if len(digests) == 1 else {"receipts": len(digests)}
    ledger.record(session, kind="receipt-appended", by=by, rows=rows, facts=facts)


def _appended(
    submissions: Sequence[Submission],
    kept: Sequence[Kept],
    *,
    keys: Sequence[Sequence[str]],
    placed_keys: Sequence[Sequence[str]],
) -> list[Appended]:
    """What became of each; of the same bytes twice the first are the new ones."""
    created = {one.sha256 for one in kept if one.view == "receipt"}
    places = {_where(one.place): one.place for one in kept if one.place is not None}
    axes: dict[str, list[str]] = {}
    second = {one.sha256 for one in kept if one.is_second}
    for one in kept:
        if one.axis is not None:
            axes.setdefault(one.sha256, []).append(one.axis)
    found = []
    for given, said, under in zip(submissions, keys, placed_keys, strict=True):
        digest, origin = given.facts.sha256, given.origin
        place = None
        if origin is not None:
            place = places.pop((digest, origin.repository, origin.path, origin.commit), None)
        is_created = digest in created
        created.discard(digest)
        found.append(
            Appended(
                facts=given.facts,
                created=is_created,
                place=place,
                new_axes=tuple(axes.get(digest, ())) if is_created else (),
                is_second=is_created and digest in second,
                keys=(*(said if is_created else ()), *(under if place is not None else ())),
            )
        )
    return found


def _where(place: KeptPlace) -> tuple[str, str, str, str]:
    return place.receipt_sha256, place.repository, place.path, place.commit
