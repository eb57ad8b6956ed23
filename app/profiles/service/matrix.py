"""The matrix of TP, DCP and cache over stored contracts, with the documents behind every word of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from sqlalchemy.orm import Session

from app.core.digest import Digest
from app.core.errors import DocumentError
from app.core.profiles.contract import Contract
from app.core.profiles.documents import DocumentKind, ProfileDocument
from app.core.profiles.matrix import ActivationEvidence, Around, Evidence, MatrixRow, matrix_rows
from app.core.profiles.release import (
    CatalogEntry,
    Publication,
    ReleaseSelection,
    read_catalog_entry,
    read_publication,
    read_release_selection,
)
from app.core.qualify.claim import Claim
from app.core.qualify.keys import word
from app.profiles import repository
from app.profiles.service.activations import activations_of, judge_stored
from app.profiles.service.claims import standing_about
from app.profiles.service.contracts import text_of
from app.profiles.service.keys import DEPLOYS
from app.profiles.service.parsed import read_many
from app.profiles.service.reading import list_documents

# Of each kind so many are looked at, the newest ones.
MOST_DEPLOYMENTS: Final = 500
MOST_SELECTIONS: Final = 200
MOST_PUBLICATIONS: Final = 50

T = TypeVar("T", CatalogEntry, Publication, ReleaseSelection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of several contracts; `is_complete`: every stored activation was looked at."""

    rows: tuple[MatrixRow, ...]
    is_complete: bool


def matrix_of(session: Session, *, contracts: Sequence[Contract]) -> Matrix:
    """Every TP, DCP and cache mode of these contracts."""
    if not contracts:
        return Matrix(rows=(), is_complete=True)
    activations, is_complete = _activations(session, contracts)
    around = Around(
        catalog=_deployments(session, contracts),
        publications=_newest(session, DocumentKind.PUBLICATION, read_publication, MOST_PUBLICATIONS),
        selections=_newest(session, DocumentKind.RELEASE_SELECTION, read_release_selection, MOST_SELECTIONS),
        activations=activations,
    )
    rows = (row for contract in contracts for row in matrix_rows(contract, around=around))
    claimed = {str(one.sha256): standing_about(session, sha256=one.sha256) for one in activations}
    return Matrix(rows=tuple(_with_claims(row, claimed) for row in rows), is_complete=is_complete)


def _with_claims(row: MatrixRow, claimed: Mapping[str, Sequence[Claim]]) -> MatrixRow:
    """An activation somebody took back is not told of without saying so."""
    evidence = (_told(one, claimed.get(one.sha256, ())) for one in row.evidence)
    return replace(row, evidence=tuple(evidence))


def _told(one: Evidence, claims: Sequence[Claim]) -> Evidence:
    said = ", ".join(dict.fromkeys(claim.state.value for claim in claims))
    return replace(one, says=f"{one.says}; claimed: {said}") if said else one


def _deployments(session: Session, contracts: Iterable[Contract]) -> list[CatalogEntry]:
    """What catalogs say of these profiles, the newest last: it is the one that counts."""
    keys = sorted({word(DEPLOYS, name) for contract in contracts for name in contract.profiles})
    rows = repository.under_keys(session, keys=keys, limit=MOST_DEPLOYMENTS)
    return _read(read_many(session, digests=[row.sha256 for row in reversed(rows)]), read_catalog_entry)


def _newest(session: Session, kind: DocumentKind, read: Callable[[ProfileDocument], T], most: int) -> list[T]:
    listed = list_documents(session, kind=kind, text=None, after=None, limit=most)
    return _read(read_many(session, digests=[one.sha256 for one in listed]), read)


def _read(found: dict[str, ProfileDocument], read: Callable[[ProfileDocument], T]) -> list[T]:
    """What can be read of what was stored before the form was looked at (a receipt may be anything)."""
    taken = []
    for document in found.values():
        try:
            taken.append(read(document))
        except DocumentError:
            continue
    return taken


def _activations(session: Session, contracts: Sequence[Contract]) -> tuple[list[ActivationEvidence], bool]:
    found, is_complete = activations_of(session, contracts=[one.sha256 for one in contracts])
    taken = []
    for one in found:
        judged = judge_stored(session, sha256=one.sha256)
        taken.append(
            ActivationEvidence(
                sha256=Digest(one.sha256),
                profile=text_of(one, "profile") or "",
                contract_sha256=text_of(one, "profile_contract_sha256") or "",
                result=judged.result,
            )
        )
    return taken, is_complete
