"""Claims about documents: who says what, and what it does to what was judged (profile-contract §18.8)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session

from app.core.errors import DocumentError
from app.core.profiles.claim import claim_findings
from app.core.profiles.documents import DocumentKind
from app.core.profiles.findings import ProfileFinding
from app.core.qualify.claim import Claim, ClaimState, parse_claim, standing_claims
from app.core.qualify.keys import word
from app.errors import NotFound
from app.profiles.service.documents import offences
from app.profiles.service.reading import StoredDocument, get_document, list_documents
from app.receipts import service as receipts
from app.receipts.service import related
from app.web.paging import Cursor

# Of claims about one document so many are looked at.
MOST_CLAIMS: Final = 500
_EFFECTS: Final = {
    ClaimState.ASSERTED: "nothing: somebody says so",
    ClaimState.EVIDENCED: "nothing: the document stands as it is",
    ClaimState.AMENDED: "a warning; no result is changed",
    ClaimState.AFFECTED: "a warning; no result is changed",
    ClaimState.WITHDRAWN: "what the document showed is taken out of the verdicts' evidence",
    ClaimState.SUPERSEDED: "what the document showed is taken out of the verdicts' evidence",
}
_REPLACED: Final = "nothing any more: a newer claim about the same place counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredClaim:
    """A claim as it is stored.

    Attributes:
        claim: None where a receipt of its schema is no claim in form; `findings` says why.
        stands: whether it is the newest about its place, the one that counts.
    """

    document: StoredDocument
    claim: Claim | None
    subject_is_stored: bool
    stands: bool
    findings: tuple[ProfileFinding, ...]

    @property
    def sha256(self) -> str:
        return self.document.sha256

    @property
    def created_at(self) -> datetime:
        return self.document.created_at

    @property
    def effect(self) -> str:
        """What it changes, in a sentence."""
        if self.claim is None:
            return "nothing: it is no claim in form"
        return _EFFECTS[self.claim.state] if self.stands else _REPLACED


def list_claims(session: Session, *, after: Cursor | None, limit: int) -> list[StoredClaim]:
    """Claims, newest first."""
    listed = list_documents(session, kind=DocumentKind.CLAIM, text=None, after=after, limit=limit)
    return _stored(session, listed)


def claims_about(session: Session, *, subject_sha256: str) -> list[StoredClaim]:
    """The claims about one document, newest first."""
    key = word("claim", subject_sha256)
    found = related.by_key(session, keys=[key], most=MOST_CLAIMS)
    documents = [get_document(session, sha256=one) for one in sorted(found)]
    stored = _stored(session, documents)
    return sorted(stored, key=lambda one: (one.created_at, one.sha256), reverse=True)


def standing_about(session: Session, *, sha256: str) -> tuple[Claim, ...]:
    """Of the claims about a document the newest for each place."""
    found = related.by_key(session, keys=[word("claim", sha256)], most=MOST_CLAIMS)
    claims = _read(session, digests=found).values()
    return standing_claims(one for one in claims if isinstance(one, Claim))


def _stored(session: Session, documents: Iterable[StoredDocument]) -> list[StoredClaim]:
    listed = list(documents)
    read = _read(session, digests=[one.sha256 for one in listed])
    subjects = {one.subject_sha256 for one in read.values() if isinstance(one, Claim)}
    standing = {one.sha256 for subject in subjects for one in standing_about(session, sha256=subject)}
    stored = {subject for subject in subjects if _is_stored(session, sha256=subject)}
    claims = []
    for document in listed:
        found = read[document.sha256]
        claim = found if isinstance(found, Claim) else None
        claims.append(
            StoredClaim(
                document=document,
                claim=claim,
                subject_is_stored=claim is not None and claim.subject_sha256 in stored,
                stands=document.sha256 in standing,
                findings=claim_findings([found]) if isinstance(found, Claim) else offences(found),
            )
        )
    return claims


def _read(session: Session, *, digests: Iterable[str]) -> dict[str, Claim | DocumentError]:
    read: dict[str, Claim | DocumentError] = {}
    for sha256, raw in receipts.documents(session, digests=list(digests)).items():
        try:
            read[sha256] = parse_claim(raw)
        except DocumentError as error:
            read[sha256] = error
    return read


def _is_stored(session: Session, *, sha256: str) -> bool:
    try:
        get_document(session, sha256=sha256)
    except NotFound:
        return bool(receipts.documents(session, digests=[sha256]))
    return True
