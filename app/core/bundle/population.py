"""The receipts a log had so far, found by the words they carry: what judging asks of a server's database."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.core.digest import sha256_bytes
from app.core.qualify.around import addressed, placed_at
from app.core.qualify.document import read_document
from app.core.qualify.extract import document_facts
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.keys import config_id, identity_axes, known, origin_keys, receipt_keys, word
from app.core.qualify.neighbours import Stored
from app.core.qualify.surroundings import Declaration

_MOST_KEPT: Final = 512
_MOST_DECLARATIONS: Final = 20
_MOST_IDENTITIES: Final = 200


Mark = bytes
"""A key that receipts carry, shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """Where a receipt stood. `row` orders places that became known at the same instant."""

    receipt_sha256: str
    repository: str
    path: str
    commit: str
    committed_at: datetime | None
    created_at: datetime
    row: str


class Population:
    """Grows in the order of the log.

    Args: read: the bytes of a receipt by digest; facts of some are kept, the rest are read again.
    """

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._kept: OrderedDict[str, DocumentFacts] = OrderedDict()
        self._under: dict[Mark, list[str]] = {}
        self._places: dict[str, list[Stood]] = {}
        self._identities: dict[str, dict[tuple[str, str], str]] = {}
        self._declared: dict[str, list[tuple[datetime, str, Declaration]]] = {}

    def facts(self, sha256: str) -> DocumentFacts:
        """The facts of a receipt.

        Raises:
            DocumentError: its bytes are no document.
        """
        known_facts = self._kept.get(sha256)
        if known_facts is None:
            known_facts = document_facts(read_document(self._read(sha256), subject=f"receipt {sha256[:12]}"))
            self._kept[sha256] = known_facts
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(sha256)
        return known_facts

    def add_receipt(self, sha256: str) -> set[Mark]:
        """A receipt came in; marks of those whose verdicts may change by it, itself included."""
        facts = self.facts(sha256)
        keys = receipt_keys(facts)
        for key in (*keys, _own(sha256)):
            self._carry(key, sha256)
        image = known(facts.subject.image)
        concerned = {_own(sha256), *addressed(keys), *self._published(keys, sha256=sha256)}
        if facts.claim is not None:
            concerned.add(_own(facts.claim.subject_sha256))
        config = config_id(image)
        if config is not None:
            said = self._identities.setdefault(config, {})
            before = len(said)
            for axis, value in identity_axes(facts).items():
                said.setdefault((axis, value), sha256)
            if 0 < before < len(said):
                concerned.add(word("image", image))
        return set(map(_short, concerned))

    def add_place(self, place: Stood) -> set[Mark]:
        """A receipt stood somewhere; marks of those whose verdicts may change by it."""
        self._places.setdefault(place.receipt_sha256, []).append(place)
        facts = self.facts(place.receipt_sha256)
        keys = origin_keys(facts, repository=place.repository, path=place.path)
        for key in keys:
            self._carry(key, place.receipt_sha256)
        return set(map(_short, (_own(place.receipt_sha256), *addressed(keys))))

    def add_declaration(self, declaration: Declaration, *, at: datetime, row: str) -> set[Mark]:
        """A person declared something about receipts; their marks."""
        about = set(declaration.receipts)
        for sha256 in about:
            self._declared.setdefault(sha256, []).append((at, row, declaration))
        return {_short(_own(sha256)) for sha256 in about}

    def marked(self, marks: Iterable[Mark]) -> set[str]:
        """The receipts that carry one of the marks."""
        return {sha256 for mark in marks for sha256 in self._under.get(mark, ())}

    def placed(self, digests: Iterable[str]) -> Mapping[str, tuple[Stored, ...]]:
        """As `app.core.qualify.around.Known`."""
        wanted = list(digests)
        facts = {sha256: self.facts(sha256) for sha256 in wanted}
        places = [place for sha256 in wanted for place in self._places.get(sha256, ())]
        places.sort(key=lambda place: (place.created_at, place.row))
        return placed_at(facts, places=places)

    def by_key(self, keys: Sequence[str], *, most: int) -> set[str]:
        """As `app.core.qualify.around.Known`."""
        return {sha256 for key in keys for sha256 in sorted(self._under.get(_short(key), ()))[:most]}

    def identities(self, *, image_config_id: str) -> Iterable[str]:
        """As `app.core.qualify.around.Known`."""
        first = list(self._identities.get(image_config_id, {}).values())
        return dict.fromkeys(first[:_MOST_IDENTITIES])

    def declarations_about(self, sha256: str) -> tuple[Declaration, ...]:
        """As `app.core.qualify.around.Known`."""
        about = sorted(self._declared.get(sha256, ()), key=lambda one: one[:2])
        return tuple(declaration for _, _, declaration in about[:_MOST_DECLARATIONS])

    def _published(self, keys: Sequence[str], *, sha256: str) -> Iterator[str]:
        """Keys of the images whose registry digest is read in this receipt from now on: in the first by
        digest of those that give one. And of those whose labels-only child these keys publish."""
        pairs = [key for key in keys if key.startswith("registry:")]
        children = [pair.removeprefix("registry:") for pair in pairs]
        yield from (
            word("image", child)
            for pair, child in zip(pairs, children, strict=True)
            if sha256 in self.by_key([pair], most=1)
        )
        for linking in self.marked(_short(word("labels-child", child)) for child in children):
            for link in self.facts(linking).lifecycle.labels_only:
                yield word("image", known(link.runtime))

    def _carry(self, key: str, sha256: str) -> None:
        carrying = self._under.setdefault(_short(key), [])
        if sha256 not in carrying[-1:]:
            carrying.append(sha256)


def _own(sha256: str) -> str:
    """A key that one receipt carries alone."""
    return f"own:{sha256}"


def _short(key: str) -> Mark:
    """A key in little memory."""
    return sha256_bytes(key.encode())[:16]
