"""What is known around a receipt, and whom a new one concerns: by key, never by looking through all.

Which receipts are looked at is said by `app/core/qualify/around.py`, for a server as for a judgement without
one.
"""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy.orm import Session

from app.core.qualify.around import MOST_OF_A_KIND, addressed
from app.core.qualify.around import around as around_receipt
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import config_id, known, word
from app.core.qualify.neighbours import Stored
from app.core.qualify.surroundings import Declaration, Surroundings
from app.receipts.service import Appended, related
from app.verdicts.service.declarations import declarations_about


def around(session: Session, *, sha256: str) -> tuple[DocumentFacts, Surroundings]:
    """The facts of a receipt, and everything that other receipts and people say about it."""
    return around_receipt(sha256, others=_Kept(session))


class _Kept:
    """The receipts of the database."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def placed(self, digests: Iterable[str]) -> dict[str, tuple[Stored, ...]]:
        return related.placed(self._session, digests=digests)

    def by_key(self, keys: Sequence[str], *, most: int) -> set[str]:
        return related.by_key(self._session, keys=keys, most=most)

    def identities(self, *, image_config_id: str) -> list[str]:
        return related.identities(self._session, image_config_id=image_config_id)

    def declarations_about(self, sha256: str) -> tuple[Declaration, ...]:
        return declarations_about(self._session, sha256=sha256)


def concerned(session: Session, *, appended: Appended) -> list[str]:
    """Receipts whose surroundings a new one, or a new place of one, changes; itself included."""
    facts = appended.facts
    keys = [*addressed(appended.keys), *_newly_published(session, appended=appended)]
    image = config_id(known(facts.subject.image))
    if image and appended.new_axes:
        values = related.identity_values(session, image_config_id=image)
        if any(values[axis] > 1 for axis in appended.new_axes):
            keys.append(word("image", known(facts.subject.image)))
    spoken_of = [] if facts.claim is None else [facts.claim.subject_sha256]
    about = related.stored_among(session, digests=spoken_of) if spoken_of else set()
    return sorted({facts.sha256, *about, *related.every_by_key(session, keys=keys)})


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
