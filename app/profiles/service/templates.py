"""Which stored templates a contract means: it names files beside itself, and pins none of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy.orm import Session

from app.core.errors import DocumentError
from app.core.profiles.documents import DocumentKind
from app.core.profiles.template import Template, read_template, read_template_set
from app.core.qualify.keys import word
from app.models import ProfilePlace
from app.profiles import repository
from app.profiles.service.keys import TEMPLATE
from app.profiles.service.parsed import read_many

# Of templates that stood somewhere under the names asked for, so many are looked at, the newest first.
MOST_PLACES: Final = 2000
MOST_SETS: Final = 20


class Chosen(StrEnum):
    """Why this document, the best reason first."""

    SAME_COMMIT = "beside the contract, at its commit"
    BESIDE = "beside the contract"
    IN_ITS_SET = "keys and values of a template set of its repository"
    NAMED = "of the same name, the newest"
    IN_A_SET = "keys and values of a template set"


_ORDER: Final = tuple(Chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTemplate:
    """A template, the document it was read from, and why that one was taken."""

    template: Template
    document_sha256: str
    chosen: Chosen


def choose_templates(
    session: Session, *, contract_sha256: str, names: Iterable[str]
) -> dict[str, ChosenTemplate]:
    """The templates of these file names, as far as there are any; one that cannot be read is none."""
    wanted = sorted(set(names))
    beside = repository.places_of(session, sha256=contract_sha256)
    placed = repository.places_named(
        session, names=wanted, kind=DocumentKind.TEMPLATE.value, limit=MOST_PLACES
    )
    found = _read(session, _best(placed, beside=beside))
    far = [name for name in wanted if name not in found or found[name].chosen is Chosen.NAMED]
    for name, one in (_from_sets(session, far, beside=beside) if far else {}).items():
        known = found.get(name)
        if known is None or _ORDER.index(one.chosen) < _ORDER.index(known.chosen):
            found[name] = one
    return found


def _best(
    placed: Sequence[ProfilePlace], *, beside: Sequence[ProfilePlace]
) -> dict[str, tuple[ProfilePlace, Chosen]]:
    best: dict[str, tuple[ProfilePlace, Chosen]] = {}
    for place in placed:
        reason = _reason(place, beside=beside)
        known = best.get(place.name)
        if known is None or _ORDER.index(reason) < _ORDER.index(known[1]):
            best[place.name] = (place, reason)
    return best


def _reason(place: ProfilePlace, *, beside: Sequence[ProfilePlace]) -> Chosen:
    reason = Chosen.NAMED
    for own in beside:
        if (own.repository, _folder(own.path)) == (place.repository, _folder(place.path)):
            if own.commit and own.commit == place.commit:
                return Chosen.SAME_COMMIT
            reason = Chosen.BESIDE
    return reason


def _read(session: Session, best: Mapping[str, tuple[ProfilePlace, Chosen]]) -> dict[str, ChosenTemplate]:
    raw = repository.raw_bytes(session, digests=[place.document_sha256 for place, _ in best.values()])
    found = {}
    for name, (place, reason) in best.items():
        try:
            template = read_template(raw[place.document_sha256], name=name)
        except DocumentError:
            continue
        found[name] = ChosenTemplate(template=template, document_sha256=place.document_sha256, chosen=reason)
    return found


def _from_sets(
    session: Session, names: Sequence[str], *, beside: Sequence[ProfilePlace]
) -> dict[str, ChosenTemplate]:
    keys = [word(TEMPLATE, name) for name in names]
    sets = repository.under_keys(session, keys=keys, limit=MOST_SETS)
    own = {place.repository for place in beside if place.repository}
    near = {one.sha256 for one in sets if own & {place.repository for place in one.places}}
    ordered = sorted((one.sha256 for one in sets), key=lambda sha256: sha256 not in near)
    found: dict[str, ChosenTemplate] = {}
    for sha256, document in read_many(session, digests=ordered).items():
        chosen = Chosen.IN_ITS_SET if sha256 in near else Chosen.IN_A_SET
        try:
            templates = read_template_set(document)
        except DocumentError:
            continue
        for name in names:
            if name in templates and name not in found:
                found[name] = ChosenTemplate(template=templates[name], document_sha256=sha256, chosen=chosen)
    return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
