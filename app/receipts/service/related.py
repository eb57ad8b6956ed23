"""Receipts that bear on each other, found by their keys (`app/core/qualify/keys.py`)."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from app.receipts import repository
from app.receipts.repository import KeptPlace


def around(
    session: Session, *, keys: Sequence[str], images: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Receipts under these keys, by key and in the order of their digests, and those that were first to give
    one of these images a value on an axis of its identity, by image: in one question."""
    if not keys and not images:
        return {}, {}
    found, said = repository.around(session, keys=keys, images=images)
    return _by_key(found), {image: list(dict.fromkeys(digests)) for image, digests in said.items()}


def _by_key(found: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    per_key: dict[str, list[str]] = {}
    for sha256, carried in sorted(found.items()):
        for key in set(carried):
            per_key.setdefault(key, []).append(sha256)
    return per_key


def places_of(session: Session, *, digests: Sequence[str]) -> dict[str, list[KeptPlace]]:
    """Where these receipts stood, oldest first, by receipt; each is there."""
    placed: dict[str, list[KeptPlace]] = {sha256: [] for sha256 in digests}
    for place in repository.places_of(session, digests=digests) if digests else ():
        placed[place.receipt_sha256].append(place)
    return placed


def by_key(session: Session, *, keys: Sequence[str], most: int) -> set[str]:
    """Receipts that carry one of the keys: of each key the first `most` by digest."""
    per_key = _by_key(repository.under_keys(session, keys=keys))
    return {sha256 for found in per_key.values() for sha256 in found[:most]}


def stored_among(session: Session, *, digests: Sequence[str]) -> set[str]:
    """Those of the digests that are receipts."""
    return repository.has_any(session, digests=digests)


def every_by_key(session: Session, *, keys: Iterable[str]) -> dict[str, set[str]]:
    """Every receipt that carries one of the keys, by key."""
    return repository.every_under_keys(session, keys=sorted(set(keys)))


def carried(session: Session, *, keys: Sequence[str]) -> set[str]:
    """Those of the keys that any receipt carries."""
    return {key for found in repository.under_keys(session, keys=keys).values() for key in found}


def with_two_values(session: Session, *, axes: Iterable[tuple[str, str]]) -> set[str]:
    """Those of the images that were given more than one value on one of these axes (image, axis)."""
    wanted = sorted(set(axes))
    return repository.with_two_values(session, axes=wanted) if wanted else set()


def keys_of(session: Session, *, digests: Iterable[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    return repository.keys_of(session, digests=list(digests))
