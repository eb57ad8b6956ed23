"""Contracts as they are stored: parsed, with what they refer to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

from sqlalchemy.orm import Session

from app.core.profiles.contract import Contract, ancestors, read_contract
from app.core.profiles.documents import DocumentKind, ProfileDocument
from app.core.profiles.effective import EffectiveProfile, effective_profile
from app.core.profiles.references import Lookup, Reference
from app.core.profiles.release import ReleaseSelection, read_release_selection
from app.core.qualify.keys import word
from app.errors import NotFound
from app.profiles import repository
from app.profiles.service.keys import LOCK, PINS
from app.profiles.service.parsed import read_many, read_stored
from app.profiles.service.reading import find_bytes, get_document, list_documents
from app.profiles.service.templates import ChosenTemplate, choose_templates

# Image receipts are looked through from the newest on; more than these nobody has of one image.
MOST_IMAGE_RECEIPTS: Final = 100
MOST_SAME_IMAGE: Final = 100
MOST_SELECTIONS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """One profile of a stored contract with everything it refers to that is stored."""

    contract: Contract
    effective: EffectiveProfile
    templates: tuple[ChosenTemplate, ...]
    lookup: Lookup
    image_receipt: ProfileDocument | None
    newer: tuple[Contract, ...]
    selections: tuple[ReleaseSelection, ...]

    @property
    def superseded_by(self) -> str | None:
        """The newest contract of the same image, if it came in after this one."""
        return self.newer[0].sha256 if self.newer else None

    @property
    def image_id(self) -> str | None:
        """Config id of the image, as its receipt says."""
        return text_of(self.image_receipt, "image_id")

    @property
    def image_reference(self) -> str | None:
        """What a registry is asked for, as the receipt says."""
        return text_of(self.image_receipt, "image_reference")


def get_contract(session: Session, *, sha256: str) -> Contract:
    """A stored contract.

    Raises:
        NotFound: no contract has this digest.
    """
    get_document(session, sha256=sha256, kind=DocumentKind.CONTRACT)
    return read_contract(read_stored(session, sha256=sha256))


def read_contracts(session: Session, *, digests: Iterable[str]) -> list[Contract]:
    """Those of the stored documents that are contracts, in the order asked."""
    found = read_many(session, digests=digests)
    return [read_contract(one) for one in found.values() if one.kind is DocumentKind.CONTRACT]


def get_profile(session: Session, *, contract_sha256: str, name: str) -> StoredProfile:
    """One profile of a contract.

    Raises:
        NotFound: no such contract, or it has no such profile.
    """
    contract = get_contract(session, sha256=contract_sha256)
    if name not in contract.profiles:
        known = ", ".join(contract.profiles)
        raise NotFound(
            f"profile of contract {contract_sha256[:12]}: expected one of {known}, found {name[:128]}"
        )
    files = [
        contract.profiles[one].template
        for one in (name, *ancestors(contract, name))
        if one in contract.profiles
    ]
    chosen = choose_templates(session, contract_sha256=contract_sha256, names=files)
    templates = {file: one.template for file, one in chosen.items()}
    receipt = image_receipt_of(session, contract=contract)
    return StoredProfile(
        contract=contract,
        effective=effective_profile(contract, name, templates=templates),
        templates=tuple(chosen[file] for file in dict.fromkeys(files) if file in chosen),
        lookup=lookup_of(session, contract_sha256=contract_sha256),
        image_receipt=receipt,
        newer=newer_contracts(session, contract=contract),
        selections=_selections(session, [contract.sha256, *([receipt.sha256] if receipt else [])]),
    )


def lookup_of(session: Session, *, contract_sha256: str) -> Lookup:
    """What a contract refers to, among the stored documents: by digest where it is pinned, else a template by
    its name."""
    return partial(_look_up, session, contract_sha256)


def _look_up(session: Session, contract_sha256: str, reference: Reference) -> bytes | None:
    if reference.sha256 is not None:
        return find_bytes(session, sha256=reference.sha256)
    name = reference.path.rpartition("/")[2]
    chosen = choose_templates(session, contract_sha256=contract_sha256, names=[name]).get(name)
    return None if chosen is None else find_bytes(session, sha256=chosen.document_sha256)


def image_receipt_of(session: Session, *, contract: Contract) -> ProfileDocument | None:
    """The newest image receipt over the contract's artifact lock; one of a published image before others."""
    lock = contract.image.artifact_lock_sha256
    listed = list_documents(
        session, kind=DocumentKind.IMAGE_RECEIPT, text=None, after=None, limit=MOST_IMAGE_RECEIPTS
    )
    found = read_many(session, digests=[one.sha256 for one in listed])
    same = [one for one in found.values() if one.value.get("artifact_lock_sha256") == lock]
    published = (one for one in same if one.value.get("image_reference") != one.value.get("image_id"))
    return next(published, next(iter(same), None))


def newer_contracts(session: Session, *, contract: Contract) -> tuple[Contract, ...]:
    """Contracts of the same image that came in after this one, the newest first."""
    key = word(LOCK, contract.image.artifact_lock_sha256)
    rows = repository.under_keys(session, keys=[key], limit=MOST_SAME_IMAGE)
    listed = [row.sha256 for row in rows if row.kind == DocumentKind.CONTRACT]
    return tuple(read_contracts(session, digests=takewhile(lambda one: one != contract.sha256, listed)))


def _selections(session: Session, digests: Sequence[str]) -> tuple[ReleaseSelection, ...]:
    """The stored release selections that pin one of these documents."""
    keys = [word(PINS, digest) for digest in digests]
    rows = repository.under_keys(session, keys=keys, limit=MOST_SELECTIONS)
    found = read_many(session, digests=[row.sha256 for row in rows]).values()
    return tuple(read_release_selection(one) for one in found if one.kind is DocumentKind.RELEASE_SELECTION)


def text_of(document: ProfileDocument | None, name: str) -> str | None:
    """A text at the top of a document that may not be there."""
    value = None if document is None else document.value.get(name)
    return value if isinstance(value, str) else None
