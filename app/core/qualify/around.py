"""What bears on a receipt: which others are looked at, by key, and what they say.

`neighbours.py` gives the relations their meaning. Whoever keeps receipts answers four questions (`Known`): a
server from its database, the verifier of a bundle from what the log had so far. Both judge with the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import config_id, known, manifests, word
from app.core.qualify.neighbours import Stored, linked_pins, pinned_path, surroundings_of
from app.core.qualify.surroundings import Declaration, Surroundings

# Of receipts that say the same of one thing, so many are shown.
MOST_OF_A_KIND: Final = 16
# Of claims the newest counts, so that none may be left out.
MOST_CLAIMS: Final = 100_000


class Known(Protocol):
    """What is asked of whoever keeps receipts."""

    def placed(self, digests: Iterable[str]) -> Mapping[str, tuple[Stored, ...]]:
        """These receipts, each once per place it stood in (`placed_at`)."""

    def by_key(self, keys: Sequence[str], *, most: int) -> set[str]:
        """Receipts that carry one of the keys: of each key the first `most` by digest."""

    def identities(self, *, image_config_id: str) -> Iterable[str]:
        """The receipts that were first to give the image a value on an axis of its identity."""

    def declarations_about(self, sha256: str) -> tuple[Declaration, ...]:
        """What people declared about a receipt, oldest first."""


class Place(Protocol):
    """Where a receipt stood."""

    @property
    def receipt_sha256(self) -> str:
        """Which receipt."""

    @property
    def repository(self) -> str:
        """The repository."""

    @property
    def path(self) -> str:
        """The path in it."""

    @property
    def commit(self) -> str:
        """The commit; empty where none was given."""

    @property
    def committed_at(self) -> datetime | None:
        """The time of that commit."""

    @property
    def created_at(self) -> datetime:
        """When the place became known."""


def around(sha256: str, *, others: Known) -> tuple[DocumentFacts, Surroundings]:
    """The facts of a receipt, and everything that other receipts and people say about it. Of several places
    it stood in, the first counts."""
    own = others.placed([sha256])[sha256][0]
    image = known(own.facts.subject.image)
    found = others.by_key(list(asked(own)), most=MOST_OF_A_KIND)
    found |= others.by_key([word("claim", sha256)], most=MOST_CLAIMS)
    config = config_id(image)
    first_said = others.identities(image_config_id=config) if config else ()
    wanted = {*found, *first_said}
    near = others.placed({sha256, *wanted}) if wanted - {sha256} else {sha256: (own,)}
    children = [word("registry", child) for child in _children(near.values(), image=image)]
    published = others.by_key(children, most=MOST_OF_A_KIND) - near.keys()
    if published:
        near = others.placed({*near, *published})
    placed_own = next((one for one in near[sha256] if one.path == own.path), own)
    rest = [one for digest in sorted(near) if digest != sha256 for one in near[digest]]
    declared = others.declarations_about(sha256)
    return own.facts, surroundings_of(placed_own, rest, declarations=declared)


def addressed(keys: Iterable[str]) -> Iterator[str]:
    """The keys of those whom a receipt with these keys says something about."""
    concerns = {
        "failure": ("image",),
        "labels": ("image",),
        "withdrawn-release": ("release",),
        "unproven-release": ("release",),
        "withdrawn-manifest": ("manifest",),
        "unproven-manifest": ("manifest",),
        "supersedes": ("artifact",),
        "place": ("place", "points"),
    }
    for key in keys:
        role, _, value = key.partition(":")
        yield from (f"{concerned_role}:{value}" for concerned_role in concerns.get(role, ()))


def placed_at(
    facts: Mapping[str, DocumentFacts], *, places: Sequence[Place]
) -> dict[str, tuple[Stored, ...]]:
    """Each document once per place it stood in, or once without a place.

    Ages order the versions of one path: by the time of their commits, else by the order they came in.
    """
    ages = _ages(places)
    placed: dict[str, list[Stored]] = {sha256: [] for sha256 in facts}
    for place in places:
        if place.receipt_sha256 in placed:
            placed[place.receipt_sha256].append(
                Stored(
                    facts=facts[place.receipt_sha256],
                    repository=place.repository,
                    path=place.path,
                    commit=place.commit,
                    age=ages[place.repository, place.path, place.receipt_sha256],
                )
            )
    return {sha256: tuple(stood) or (Stored(facts=facts[sha256]),) for sha256, stood in placed.items()}


def _ages(places: Sequence[Place]) -> dict[tuple[str, str, str], int]:
    versions: dict[tuple[str, str], dict[str, tuple[datetime, datetime]]] = {}
    for place in places:
        at = (place.committed_at or place.created_at, place.created_at)
        seen = versions.setdefault((place.repository, place.path), {})
        seen[place.receipt_sha256] = max(at, seen.get(place.receipt_sha256, at))
    ages = {}
    for where, seen in versions.items():
        for age, sha256 in enumerate(sorted(seen, key=lambda one: (seen[one], one), reverse=True)):
            ages[(*where, sha256)] = age
    return ages


def asked(own: Stored) -> Iterator[str]:
    """The keys under which others say something about this one."""
    facts = own.facts
    image, release = known(facts.subject.image), known(facts.lifecycle.release)
    if image:
        yield from (word(role, image) for role in ("failure", "registry", "labels"))
    for said in ("withdrawn", "unproven"):
        if release:
            yield word(f"{said}-release", release)
        yield from (word(f"{said}-manifest", one) for one in manifests(facts))
    if schema := known(facts.schema.schema):
        yield word("supersedes", schema, image)
    if own.path:
        yield word("place", own.repository, own.path)
        targets = {pinned_path(own, pin) for pin in (*facts.pins, *linked_pins(facts))} - {""}
        yield from (word("place", own.repository, one) for one in sorted(targets))


def _children(placed: Iterable[tuple[Stored, ...]], *, image: str) -> list[str]:
    """Children of the image that differ in labels only, as these receipts name them."""
    links = (link for places in placed for one in places for link in one.facts.lifecycle.labels_only)
    return sorted({known(link.child) for link in links if image and known(link.runtime) == image} - {""})
