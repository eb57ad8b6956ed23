"""Receipts that bear on each other, found by their keys (`app/core/qualify/keys.py`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.orm import Session

from app.db.together import Question, ask_together
from app.receipts import repository
from app.receipts.repository import KeptPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was asked beforehand, in the trip in which documents were kept.

    Attributes:
        under: key → receipts that carry it, in the order of their digests.
        said: image → receipts that were first to give it a value on an axis of its identity.
        places: where the first few of these stood.
        every: key → every receipt that carries it.
    """

    under: Mapping[str, list[str]]
    said: Mapping[str, list[str]]
    places: Mapping[str, list[KeptPlace]]
    every: Mapping[str, set[str]]


NOTHING_TOLD: Final = Told(under={}, said={}, places={}, every={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Beforehand:
    """What will be asked of receipts that are about to be kept, if all of them are new."""

    keys: Sequence[str]
    images: Sequence[str]
    concerned: Sequence[str]

    @property
    def questions(self) -> list[Question]:
        """To be asked once they are kept, and answered to `told`."""
        return [
            repository.near_question(keys=self.keys, images=self.images),
            *([repository.every_question(keys=self.concerned)] if self.concerned else []),
        ]

    def told(self, answers: Sequence[Sequence[Any]]) -> Told:
        """The answers to the questions."""
        near = repository.near(answers[0])
        every = repository.every_under(answers[1]) if self.concerned else {}
        return Told(
            under=_in_order(near.under, self.keys),
            said=_first(near.said, self.images),
            places=near.places,
            every={key: every.get(key, set()) for key in self.concerned},
        )


def around(session: Session, *, keys: Sequence[str], images: Sequence[str]) -> Told:
    """Receipts under these keys, by key and in the order of their digests, and those that were first to give
    one of these images a value on an axis of its identity, by image: in one question."""
    if not keys and not images:
        return NOTHING_TOLD
    asked = Beforehand(keys=keys, images=images, concerned=())
    return asked.told(ask_together(session, *asked.questions))


def _in_order(found: Mapping[str, Iterable[str]], keys: Sequence[str]) -> dict[str, list[str]]:
    return {key: sorted(found.get(key, ())) for key in keys}


def _first(said: Mapping[str, Sequence[str]], images: Sequence[str]) -> dict[str, list[str]]:
    return {image: list(dict.fromkeys(said.get(image, ()))) for image in images}


def places_of(session: Session, *, digests: Sequence[str]) -> dict[str, list[KeptPlace]]:
    """Where these receipts stood, oldest first, by receipt; each is there."""
    placed: dict[str, list[KeptPlace]] = {sha256: [] for sha256 in digests}
    for place in repository.places_of(session, digests=digests) if digests else ():
        placed[place.receipt_sha256].append(place)
    return placed


def by_key(session: Session, *, keys: Sequence[str], most: int) -> set[str]:
    """Receipts that carry one of the keys: of each key the first `most` by digest."""
    found = repository.under_keys(session, keys=keys)
    return {sha256 for digests in found.values() for sha256 in sorted(digests)[:most]}


def stored_among(session: Session, *, digests: Sequence[str]) -> set[str]:
    """Those of the digests that are receipts."""
    return repository.has_any(session, digests=digests)


def every_by_key(session: Session, *, keys: Iterable[str]) -> dict[str, set[str]]:
    """Every receipt that carries one of the keys, by key."""
    wanted = sorted(set(keys))
    if not wanted:
        return {}
    (found,) = ask_together(session, repository.every_question(keys=wanted))
    every = repository.every_under(found)
    return {key: every.get(key, set()) for key in wanted}


def carried(session: Session, *, keys: Sequence[str]) -> set[str]:
    """Those of the keys that any receipt carries."""
    return set(repository.under_keys(session, keys=keys))


def keys_of(session: Session, *, digests: Iterable[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    return repository.keys_of(session, digests=list(digests))
