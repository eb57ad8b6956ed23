"""Receipts that bear on each other, found by their keys (`app/core/qualify/keys.py`)."""

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from app.core.qualify.around import placed_at
from app.core.qualify.neighbours import Stored
from app.receipts import repository
from app.receipts.service.stored import facts_of


def placed(session: Session, *, digests: Iterable[str]) -> dict[str, tuple[Stored, ...]]:
    """These receipts as the rules take them: each once per place it stood in."""
    wanted = list(digests)
    if not wanted:
        return {}
    facts = facts_of(session, digests=wanted)
    own = repository.origins_of(session, digests=wanted)
    return placed_at(facts, places=own)


def by_key(session: Session, *, keys: Sequence[str], most: int) -> set[str]:
    """Receipts that carry one of the keys: of each key the first `most` by digest."""
    per_key: dict[str, list[str]] = {}
    for sha256, carried in sorted(repository.under_keys(session, keys=keys).items()):
        for key in set(carried):
            per_key.setdefault(key, []).append(sha256)
    return {sha256 for found in per_key.values() for sha256 in found[:most]}


def stored_among(session: Session, *, digests: Sequence[str]) -> set[str]:
    """Those of the digests that are receipts."""
    return repository.has_any(session, digests=digests)


def every_by_key(session: Session, *, keys: Sequence[str]) -> list[str]:
    """Every receipt that carries one of the keys, in the order of their digests."""
    return repository.every_under_keys(session, keys=keys)


def carried(session: Session, *, keys: Sequence[str]) -> set[str]:
    """Those of the keys that any receipt carries."""
    return {key for found in repository.under_keys(session, keys=keys).values() for key in found}


def identities(session: Session, *, image_config_id: str) -> list[str]:
    """The receipts that were first to give the image a value on an axis of its identity."""
    rows = repository.identities_of(session, image_config_id=image_config_id)
    return list(dict.fromkeys(row.receipt_sha256 for row in rows))


def identity_values(session: Session, *, image_config_id: str) -> dict[str, int]:
    """How many values were given the image, by axis."""
    counted: dict[str, int] = {}
    for row in repository.identities_of(session, image_config_id=image_config_id):
        counted[row.axis] = counted.get(row.axis, 0) + 1
    return counted


def keys_of(session: Session, *, digests: Iterable[str]) -> dict[str, list[str]]:
    """The keys of these receipts."""
    return repository.keys_of(session, digests=list(digests))
