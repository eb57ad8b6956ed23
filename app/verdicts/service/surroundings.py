"""What is known around receipts, and whom new ones concern: by key, never by looking through all.

Which receipts are looked at is said by `app/core/qualify/around.py`, for a server as for a judgement without
one. It asks one thing after the other of one receipt; here everything that it will ask of all receipts under
judgement is asked beforehand, at once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from app.core.qualify.around import MOST_OF_A_KIND, addressed, asked, placed_at
from app.core.qualify.around import around as around_receipt
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import config_id, known, word
from app.core.qualify.neighbours import Stored
from app.core.qualify.surroundings import Declaration, Surroundings
from app.receipts.service import Appended, KeptPlace, Submission, related
from app.receipts.service.append import all_keys
from app.receipts.service.related import NOTHING_TOLD, Beforehand, Told
from app.receipts.service.stored import facts_of
from app.verdicts.service.declarations import declarations_about


class Around:
    """The receipts of the database, as far as these ones are concerned by them.

    Args:
        new: what this transaction has written: nobody declared anything about it yet, and it stood nowhere
            else.
        told: what was asked before: of keys that cannot change meanwhile, since the locks of what is new are
            held. Where others stood may have changed for whoever is judged again and was waited for.
    """

    def __init__(
        self,
        session: Session,
        *,
        digests: Sequence[str],
        new: Sequence[Appended] = (),
        told: Told = NOTHING_TOLD,
    ) -> None:
        self._session = session
        self._new = {one.facts.sha256 for one in new if one.created}
        self._facts: dict[str, DocumentFacts] = {one.facts.sha256: one.facts for one in new}
        self._places: dict[str, list[KeptPlace]] = {str(digest): [] for digest in self._new}
        for one in new:
            if one.place is not None and one.facts.sha256 in self._new:
                self._places[one.facts.sha256].append(one.place)
        self._under = dict(told.under)
        self._said = dict(told.said)
        if self._new.issuperset(digests):
            self._places = {**told.places, **self._places}
        self._ask_for(digests)

    def of(self, sha256: str) -> tuple[DocumentFacts, Surroundings]:
        """The facts of a receipt, and everything that other receipts and people say about it."""
        return around_receipt(sha256, others=self)

    def placed(self, digests: Iterable[str]) -> dict[str, tuple[Stored, ...]]:
        """As `app.core.qualify.around.Known`."""
        wanted = list(digests)
        self._have(wanted)
        places = [place for digest in wanted for place in self._places[digest]]
        return placed_at({digest: self._facts[digest] for digest in wanted}, places=places)

    def by_key(self, keys: Sequence[str], *, most: int) -> set[str]:
        """As `app.core.qualify.around.Known`."""
        self._have_under(keys)
        return {sha256 for key in keys for sha256 in self._under[key][:most]}

    def identities(self, *, image_config_id: str) -> list[str]:
        """As `app.core.qualify.around.Known`."""
        return self._said[image_config_id]

    def declarations_about(self, sha256: str) -> tuple[Declaration, ...]:
        """As `app.core.qualify.around.Known`."""
        return () if sha256 in self._new else declarations_about(self._session, sha256=sha256)

    def _ask_for(self, digests: Sequence[str]) -> None:
        own = self.placed(digests)
        keys = {key for placed in own.values() for key in asked(placed[0])}
        images = {config_id(known(placed[0].facts.subject.image)) for placed in own.values()} - {None}
        self._have_under(
            sorted({*keys, *(word("claim", digest) for digest in own)}),
            images=[image for image in images if image],
        )
        near = {one for found in (*self._under.values(), *self._said.values()) for one in found[:_NEAR]}
        self._have(sorted(near))

    def _have_under(self, keys: Sequence[str], *, images: Sequence[str] = ()) -> None:
        told = related.around(
            self._session,
            keys=[key for key in keys if key not in self._under],
            images=[image for image in images if image not in self._said],
        )
        self._under |= told.under
        self._said |= told.said

    def _have(self, digests: Sequence[str]) -> None:
        """Facts and places of these receipts."""
        without = [digest for digest in digests if digest not in self._facts]
        if without:
            self._facts |= facts_of(self._session, digests=without)
        unplaced = [digest for digest in digests if digest not in self._places]
        if unplaced:
            self._places |= related.places_of(self._session, digests=unplaced)


# Of a key so many are asked for beforehand; who needs more (claims) asks again.
_NEAR = MOST_OF_A_KIND


def beforehand(submissions: Sequence[Submission]) -> Beforehand:
    """What judging these will ask, and whom they concern, if all of them are new."""
    keys: dict[str, None] = {}
    images: dict[str, None] = {}
    concern: dict[str, None] = {}
    for one in submissions:
        facts, origin = one.facts, one.origin
        own = Stored(facts=facts)
        if origin is not None:
            own = replace(own, repository=origin.repository, path=origin.path)
        keys.update(dict.fromkeys(asked(own)))
        keys[word("claim", facts.sha256)] = None
        concern.update(dict.fromkeys(addressed(all_keys(one))))
        if image := config_id(known(facts.subject.image)):
            images[image] = None
    return Beforehand(keys=sorted(keys), images=sorted(images), concerned=sorted(concern))


def concerned(
    session: Session, *, appended: Sequence[Appended], told: Told = NOTHING_TOLD
) -> dict[str, list[str]]:
    """Receipts whose surroundings each of these, or a new place of it, changes; itself included.

    Args: told: what was asked once they were kept, with their locks held.
    """
    by_key: dict[str, list[str]] = {}
    for one in appended:
        # The same bytes may have come in at several places at once.
        by_key.setdefault(one.facts.sha256, []).extend(_changed_keys(session, one))
    second = {known(one.facts.subject.image) for one in appended if one.is_second}
    for one in appended:
        image = known(one.facts.subject.image)
        if image in second and one.new_axes:
            by_key[one.facts.sha256].append(word("image", image))
    wanted = {key for keys in by_key.values() for key in keys}
    others = {**told.every, **related.every_by_key(session, keys=wanted - told.every.keys())}
    spoken_of = {one.facts.claim.subject_sha256 for one in appended if one.facts.claim is not None}
    about = related.stored_among(session, digests=sorted(spoken_of)) if spoken_of else set()
    found: dict[str, list[str]] = {}
    for one in appended:
        digest, claim = one.facts.sha256, one.facts.claim
        meant = {claim.subject_sha256} & about if claim is not None else set()
        found[digest] = sorted({digest, *meant, *(sha for key in by_key[digest] for sha in others[key])})
    return found


def _changed_keys(session: Session, one: Appended) -> list[str]:
    return [*addressed(one.keys), *_newly_published(session, appended=one)]


def _newly_published(session: Session, *, appended: Appended) -> Iterator[str]:
    """Images whose registry digest is read in this document from now on, and those they are children of.

    It is read in the first by digest of those that give one, so a later one may take the place of another.
    """
    for pair in _of_role(appended.keys, "registry"):
        if appended.facts.sha256 not in related.by_key(session, keys=[pair], most=1):
            continue
        _, _, image = pair.partition(":")
        yield f"image:{image}"
        child = f"labels-child:{image}"
        linking = related.every_by_key(session, keys=[child])[child]
        for held in related.keys_of(session, digests=linking).values():
            yield from ("image" + key.removeprefix("labels") for key in _of_role(held, "labels"))


def _of_role(keys: Sequence[str], role: str) -> list[str]:
    return [key for key in keys if key.startswith(f"{role}:")]
