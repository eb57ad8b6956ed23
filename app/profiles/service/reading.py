"""Profile documents read: one, its bytes, lists over both tables they stand in."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.core.profiles.documents import DocumentKind
from app.errors import NotFound
from app.models import ProfileDocument, ProfilePlace, ReceiptOrigin, ReceiptRow
from app.profiles import repository
from app.profiles.service.evidence import EVIDENCE_SCHEMAS, kind_of_schema
from app.receipts import service as receipts
from app.receipts.service import ReceiptFilter
from app.web.paging import COUNTED, Cursor, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlace:
    """Where a document stood when it was submitted; empty what was not said."""

    repository: str
    path: str
    commit: str
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """One stored document; `is_evidence`: it is a receipt, and judged as one."""

    sha256: str
    kind: str
    schema_name: str | None
    title: str
    byte_count: int
    is_evidence: bool
    places: tuple[StoredPlace, ...]
    created_at: datetime
    created_by: str


def stored_document(row: ProfileDocument) -> StoredDocument:
    """A row of this noun's own table."""
    return StoredDocument(
        sha256=row.sha256,
        kind=row.kind,
        schema_name=row.schema_name,
        title=row.title,
        byte_count=row.byte_count,
        is_evidence=False,
        places=tuple(_place(one) for one in row.places),
        created_at=row.created_at,
        created_by=row.created_by,
    )


def stored_receipt(row: ReceiptRow) -> StoredDocument:
    """A receipt whose schema is one of the kinds of profile documents.

    Raises: LookupError: it is not; that is a fault of the caller.
    """
    kind = kind_of_schema(row.schema_name)
    if kind is None:
        raise LookupError(f"receipt {row.sha256}: expected a kind of profile document, found none")
    return StoredDocument(
        sha256=row.sha256,
        kind=kind.value,
        schema_name=row.schema_name,
        title=row.title,
        byte_count=row.byte_count,
        is_evidence=True,
        places=tuple(_place(one) for one in row.origins),
        created_at=row.created_at,
        created_by=row.created_by,
    )


def _place(row: ProfilePlace | ReceiptOrigin) -> StoredPlace:
    return StoredPlace(
        repository=row.repository,
        path=row.path,
        commit=row.commit,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def get_document(session: Session, *, sha256: str, kind: DocumentKind | None = None) -> StoredDocument:
    """A document without its bytes.

    Args: kind: what it must be.

    Raises:
        NotFound: no profile document has this digest, or it is of another kind.
    """
    found = _find(session, sha256=sha256)
    if found is None:
        raise NotFound(f"profile document {sha256}: not stored")
    if kind is not None and found.kind != kind:
        raise NotFound(f"{kind.value} {sha256}: expected a {kind.value}, found a {found.kind}")
    return found


def raw_bytes(session: Session, *, sha256: str) -> bytes:
    """The bytes as they were submitted.

    Raises:
        NotFound: no profile document has this digest.
    """
    found = find_bytes(session, sha256=sha256)
    if found is None:
        raise NotFound(f"profile document {sha256}: not stored")
    return found


def find_bytes(session: Session, *, sha256: str) -> bytes | None:
    """The bytes of a profile document, or of a receipt of any kind; None where neither has the digest."""
    own = repository.raw_bytes(session, digests=[sha256])
    if sha256 in own:
        return own[sha256]
    try:
        return receipts.raw_bytes(session, sha256=sha256)
    except NotFound:
        return None


def file_name(document: StoredDocument) -> str:
    """What a download of it is called."""
    ends = "env" if document.kind == DocumentKind.TEMPLATE else "json"
    return f"{document.sha256}.{ends}"


def list_documents(
    session: Session, *, kind: DocumentKind | None, text: str | None, after: Cursor | None, limit: int
) -> list[StoredDocument]:
    """Documents, newest first, at most `limit`: of both tables the first of each, then the first of all."""
    found = []
    if kind not in EVIDENCE_SCHEMAS:
        rows = repository.list_documents(
            session, kind=None if kind is None else kind.value, text=text, after=after, limit=limit
        )
        found += [stored_document(row) for row in rows]
    for schema in _schemas(kind):
        wanted = ReceiptFilter(schema_name=schema, text=text)
        evidence = receipts.list_receipts(session, wanted=wanted, after=after, limit=limit)
        found += [stored_receipt(row) for row in evidence]
    return sorted(found, key=lambda one: (one.created_at, one.sha256), reverse=True)[:limit]


def one_document(session: Session, *, sha256: str, kind: DocumentKind) -> tuple[list[StoredDocument], Total]:
    """A list of the one document of this digest and kind, or an empty one."""
    try:
        return [get_document(session, sha256=sha256, kind=kind)], Total(count=1, is_exact=True)
    except NotFound:
        return [], Total(count=0, is_exact=True)


def count_documents(session: Session, *, kind: DocumentKind | None, text: str | None) -> Total:
    """How many fit, counted up to a bound."""
    totals = [
        receipts.count_receipts(session, wanted=ReceiptFilter(schema_name=schema, text=text))
        for schema in _schemas(kind)
    ]
    if kind not in EVIDENCE_SCHEMAS:
        of = None if kind is None else kind.value
        totals.append(repository.count_documents(session, kind=of, text=text))
    count = sum(total.count for total in totals)
    exact = all(total.is_exact for total in totals) and count <= COUNTED
    return Total(count=min(count, COUNTED), is_exact=exact)


def _find(session: Session, *, sha256: str) -> StoredDocument | None:
    row = repository.get_document(session, sha256=sha256)
    if row is not None:
        return stored_document(row)
    try:
        receipt = receipts.get_receipt(session, sha256=sha256)
    except NotFound:
        return None
    return None if kind_of_schema(receipt.schema_name) is None else stored_receipt(receipt)


def _schemas(kind: DocumentKind | None) -> tuple[str, ...]:
    if kind is not None:
        return EVIDENCE_SCHEMAS.get(kind, ())
    return tuple(schema for schemas in EVIDENCE_SCHEMAS.values() for schema in schemas)
