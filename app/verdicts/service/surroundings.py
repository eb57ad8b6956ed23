"""What is known around a receipt, and whom a new one concerns: by key, never by looking through all.

What is fetched is a little more than needed; `app/core/qualify/neighbours.py` says what it means, for a
server as for a judgement without one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlalchemy.orm import Session

from app.core.qualify.facts import DocumentFacts
from app.core.qualify.neighbours import Stored, linked_pins, pinned_path, surroundings_of
from app.core.qualify.surroundings import Surroundings
from app.receipts.service import Appended, related
from app.receipts.service.keys import config_id, known, manifests, word
from app.verdicts.service.declarations import declarations_about

# Of receipts that say the same of one thing, so many are shown.
MOST_OF_A_KIND: Final = 16


def around(session: Session, *, sha256: str) -> tuple[DocumentFacts, Surroundings]:
    """The facts of a receipt, and everything that other receipts and people say about it. Of several places
    it stood in, the first counts."""
    own = related.placed(session, digests=[sha256])[sha256][0]
    image = known(own.facts.subject.image)
    found = related.by_key(session, keys=list(_asked(own)), most=MOST_OF_A_KIND)
    config = config_id(image)
    first_said = related.identities(session, image_config_id=config) if config else []
    wanted = {*found, *first_said}
    others = related.placed(session, digests={sha256, *wanted}) if wanted - {sha256} else {sha256: (own,)}
    children = [word("registry", child) for child in _children(others.values(), image=image)]
    published = related.by_key(session, keys=children, most=MOST_OF_A_KIND) - others.keys()
    if published:
        others = related.placed(session, digests={*others, *published})
    placed_own = next((one for one in others[sha256] if one.path == own.path), own)
    rest = [one for digest in sorted(others) if digest != sha256 for one in others[digest]]
    declared = declarations_about(session, sha256=sha256)
    return own.facts, surroundings_of(placed_own, rest, declarations=declared)


def concerned(session: Session, *, appended: Appended) -> list[str]:
    """Receipts whose surroundings a new one, or a new place of one, changes; itself included."""
    facts = appended.facts
    keys = [*_addressed(appended.keys), *_newly_published(session, appended=appended)]
    image = config_id(known(facts.subject.image))
    if image and appended.new_axes:
        values = related.identity_values(session, image_config_id=image)
        if any(values[axis] > 1 for axis in appended.new_axes):
            keys.append(word("image", known(facts.subject.image)))
    return sorted({facts.sha256, *related.every_by_key(session, keys=keys)})


def _asked(own: Stored) -> Iterator[str]:
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


def _addressed(keys: Sequence[str]) -> Iterator[str]:
    """Whom the words of a receipt with these keys concern."""
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


def _newly_published(session: Session, *, appended: Appended) -> Iterator[str]:
    """Images that get their first registry digest, and those they are children of."""
    pairs = _of_role(appended.keys, "registry")
    for pair in pairs:
        if len(related.by_key(session, keys=[pair], most=2)) > 1:
            continue
        _, _, image = pair.partition(":")
        yield f"image:{image}"
        linking = related.by_key(session, keys=[f"labels-child:{image}"], most=MOST_OF_A_KIND)
        for held in related.keys_of(session, digests=linking).values():
            yield from ("image" + key.removeprefix("labels") for key in _of_role(held, "labels"))


def _of_role(keys: Sequence[str], role: str) -> list[str]:
    return [key for key in keys if key.startswith(f"{role}:")]
