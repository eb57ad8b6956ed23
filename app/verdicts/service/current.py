"""Verdicts read: the newest, those of a day, one, its history, an image's, two images side by side."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.errors import NotFound
from app.models import VerdictRow
from app.verdicts import repository
from app.verdicts.repository import VerdictFilter as VerdictFilter
from app.web.paging import Cursor, Total

# So many scopes of one image are laid side by side.
MOST_SCOPES: Final = 500
# A text that is searched for as this is found nowhere: PostgreSQL sees no word in it.
_NO_WORD: Final = "-"
MOST_WORDS: Final = 10


def searched(text: str) -> tuple[str, ...]:
    """The words of a search, the first ten, each as the start of one.

    A blank text limits nothing, as the empty field of a form; one of other characters without a word in them
    is found nowhere: it must not look like one that everything fits.
    """
    if not text.strip():
        return ()
    words = [word for word in text.replace("\0", " ").split() if any(map(str.isalnum, word))]
    return tuple(words[:MOST_WORDS]) or (_NO_WORD,)


def end_of(day: date) -> datetime:
    """The first instant after a day, UTC: what was written before it stood at its end."""
    return datetime.combine(day + timedelta(days=1), time.min, tzinfo=UTC)


def list_verdicts(
    session: Session, *, wanted: VerdictFilter, on: date | None, after: Cursor | None, limit: int
) -> list[VerdictRow]:
    """The newest verdicts, or those that were the newest at the end of a day; newest first."""
    if on is None:
        return repository.list_current(session, wanted=wanted, after=after, limit=limit)
    return repository.list_as_of(session, wanted=wanted, until=end_of(on), after=after, limit=limit)


def newest_ids(session: Session, *, wanted: VerdictFilter, after: Cursor | None, limit: int) -> list[UUID]:
    """The ids of the newest verdicts that fit, newest first."""
    return repository.newest_ids(session, wanted=wanted, after=after, limit=limit)


def ids_of_day(
    session: Session, *, wanted: VerdictFilter, on: date, after: Cursor | None, limit: int
) -> list[UUID]:
    """The ids of what was the newest at the end of a day, newest first."""
    return repository.ids_as_of(session, wanted=wanted, until=end_of(on), after=after, limit=limit)


def count_verdicts(session: Session, *, wanted: VerdictFilter, on: date | None) -> Total:
    """How many fit, counted up to a bound."""
    if on is None:
        return repository.count_current(session, wanted=wanted)
    return repository.count_as_of(session, wanted=wanted, until=end_of(on))


def get_verdict(session: Session, *, verdict_id: UUID) -> VerdictRow:
    """One verdict, current or not.

    Raises:
        NotFound: none has this id.
    """
    row = repository.get_verdict(session, verdict_id=verdict_id)
    if row is None:
        raise NotFound(f"verdict {verdict_id}: not found")
    return row


def is_current(session: Session, *, row: VerdictRow) -> bool:
    """Whether no later row has taken its place."""
    current = repository.currents(session, keys=[row.subject_key])
    return row.subject_key in current and current[row.subject_key].verdict_id == row.id


def verdicts_of_receipt(session: Session, *, sha256: str) -> list[VerdictRow]:
    """The newest verdicts about a receipt and its cases."""
    return repository.verdicts_of_receipt(session, sha256=sha256)


def list_history(session: Session, *, row: VerdictRow, after: Cursor | None, limit: int) -> list[VerdictRow]:
    """Every verdict ever made about what this one is about, newest first."""
    return repository.history(session, subject_key=row.subject_key, after=after, limit=limit)


def count_history(session: Session, *, row: VerdictRow) -> Total:
    """How many there are, counted up to a bound."""
    return repository.count_history(session, subject_key=row.subject_key)


def scopes_of_image(session: Session, *, image_config_id: str) -> list[VerdictRow]:
    """The newest verdicts about an image's scopes."""
    return repository.scopes_of_image(session, image_config_id=image_config_id, limit=MOST_SCOPES)


def side_by_side(
    session: Session, *, left: str, right: str
) -> list[tuple[VerdictRow | None, VerdictRow | None]]:
    """The scopes of two images, those of one capability, topology, model and schemas in one line.

    Being in one line says that the questions are the same; nothing of one image holds for the other.
    """
    rows = [scopes_of_image(session, image_config_id=one) for one in (left, right)]
    lines: dict[tuple[str, ...], list[list[VerdictRow]]] = {}
    for side, found in enumerate(rows):
        for row in found:
            lines.setdefault(_question(row), [[], []])[side].append(row)
    return [pair for _, both in sorted(lines.items()) for pair in _paired(*both)]


def _question(row: VerdictRow) -> tuple[str, ...]:
    return (
        row.capability,
        row.tp,
        row.dcp,
        row.target,
        row.draft,
        row.publication_schema,
        row.manifest_schema,
    )


def _paired(
    left: Sequence[VerdictRow], right: Sequence[VerdictRow]
) -> list[tuple[VerdictRow | None, VerdictRow | None]]:
    most = max(len(left), len(right))
    return [
        (left[place] if place < len(left) else None, right[place] if place < len(right) else None)
        for place in range(most)
    ]
