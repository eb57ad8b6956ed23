"""A profile document is taken in: kept byte for byte, or as a receipt where it is evidence too."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session

from app.core.errors import DocumentError
from app.core.profiles.documents import DocumentKind, ProfileDocumentError
from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.kinds import AnyDocument, read_any
from app.core.qualify.keys import index_text
from app.core.qualify.values import Basis
from app.db.session import database_time
from app.errors import FieldProblem, Refused
from app.ledger import service as ledger
from app.models import ProfileDocument, ProfilePlace
from app.profiles import repository
from app.profiles.service.evidence import is_evidence
from app.profiles.service.keys import document_keys
from app.profiles.service.reading import StoredDocument, stored_document, stored_receipt
from app.profiles.service.secrets import check_no_secret
from app.profiles.service.titles import title_of
from app.receipts.service import Origin, get_receipt
from app.receipts.service.locks import lock_subjects
from app.receipts.service.stored import facts_of_bytes
from app.verdicts.service.submit import submit

# Parts of a document that are wrong, as a problem lists them.
MOST_OFFENCES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a document stood; `repository` and `commit` are empty where none was given."""

    path: str
    repository: str = ""
    commit: str = ""


def place(*, path: str | None, repository: str | None, commit: str | None) -> Place | None:
    """The place of a request; None where it says none.

    Raises:
        Refused: a repository or commit without a path.
    """
    if path is None:
        if repository is None and commit is None:
            return None
        detail = "path: expected beside the rest of the place, found none"
        raise Refused(detail, errors=(FieldProblem(pointer="/path", detail=detail),))
    return Place(path=path, repository=repository or "", commit=commit or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of submitted bytes: `created` whether they are new, `changed` how many verdicts are."""

    document: StoredDocument
    created: bool
    changed: int = 0


def read_bytes(raw: bytes, *, kind: DocumentKind | None, name: str) -> AnyDocument:
    """Submitted bytes, read in full by their kind.

    Args: name: what messages call the document, and a template its file.

    Raises:
        Refused: they are no document of a known kind, every offence with its code and pointer; or they
            hold a secret.
    """
    try:
        document = read_any(raw, subject=_name(name) or "document", kind=kind)
    except DocumentError as error:
        raise refusal(error) from None
    check_no_secret(document)
    return document


def offences(error: DocumentError) -> tuple[ProfileFinding, ...]:
    """What is wrong with a document, as failed checks; at least one."""
    if isinstance(error, ProfileDocumentError):
        return error.findings
    failed = finding(
        "DOC_JSON_INVALID",
        CheckResult.FAIL,
        pointer=error.pointer,
        detail=f"byte {error.offset}",
        expected=error.expected,
        found=error.found,
    )
    return (failed,)


def refusal(error: DocumentError) -> Refused:
    """What is wrong with a document, part by part; the first offence names the kind of problem."""
    findings = offences(error)
    parts = tuple(FieldProblem(pointer=one.pointer, detail=_told(one)) for one in findings[:MOST_OFFENCES])
    problem = "document-unknown" if findings[0].code == "DOC_SCHEMA_UNKNOWN" else "document-refused"
    return Refused(f"{findings[0].code}: {error}", code=problem, errors=parts)


def _told(one: ProfileFinding) -> str:
    said = f"expected {one.expected}, found {one.found}" if one.expected else one.detail
    return f"{one.code}: {said}"


def add_document(
    session: Session, *, raw: bytes, document: AnyDocument, place: Place | None, by: str, grade: Basis
) -> Added:
    """Keep a document that was read from `raw`; the same bytes again are the same document.

    What the evidence model judges becomes a receipt, as if it had been sent there: one row, one judgement.

    Args: grade: the weakest grade of evidence with which anything is deployable.

    Raises:
        Refused: evidence that the receipts do not take.
    """
    if is_evidence(document):
        return _submit(session, raw=raw, place=place, by=by, grade=grade)
    lock_subjects(session, digests=[document.sha256], keys=())
    now = database_time(session)
    row = repository.get_document(session, sha256=document.sha256)
    created = row is None
    if row is None:
        row = _row(raw, document=document, place=place, by=by, now=now)
        repository.add_document(session, document=row)
    rows: dict[str, list[ledger.RowKey]] = {"profile_document": [row]} if created else {}
    placed = None if place is None else _place(session, document.sha256, place=place, by=by, now=now)
    if placed is not None:
        rows["profile_place"] = [placed]
    if rows:
        facts = {"document": str(document.sha256), "document_kind": document.kind.value}
        ledger.record(session, kind="profile-document-added", by=by, rows=rows, facts={**facts})
    session.refresh(row, attribute_names=["places"])
    return Added(document=stored_document(row), created=created)


def _submit(session: Session, *, raw: bytes, place: Place | None, by: str, grade: Basis) -> Added:
    origin = None
    if place is not None and place.repository:
        origin = Origin(repository=place.repository, path=place.path, commit=place.commit)
    try:
        facts = facts_of_bytes(raw)
    except DocumentError as error:
        raise refusal(error) from None
    made = submit(session, raw=raw, facts=facts, origin=origin, by=by, grade=grade)
    receipt = get_receipt(session, sha256=made.sha256)
    return Added(document=stored_receipt(receipt), created=made.created, changed=len(made.changed))


def _row(
    raw: bytes, *, document: AnyDocument, place: Place | None, by: str, now: datetime
) -> ProfileDocument:
    name = "" if place is None else _name(place.path)
    return ProfileDocument(
        sha256=document.sha256,
        document=raw,
        byte_count=document.byte_count,
        kind=document.kind.value,
        schema_name=None if document.schema is None else index_text(document.schema),
        title=index_text(title_of(document, name=name)),
        keys=document_keys(document),
        created_at=now,
        created_by=by,
    )


def _place(session: Session, sha256: str, *, place: Place, by: str, now: datetime) -> ProfilePlace | None:
    """The row of a place that is new for these bytes."""
    known = repository.find_place(
        session, sha256=sha256, repository=place.repository, path=place.path, commit=place.commit
    )
    if known is not None:
        return None
    row = ProfilePlace(
        document_sha256=sha256,
        repository=place.repository,
        path=place.path,
        name=_name(place.path),
        commit=place.commit,
        created_at=now,
        created_by=by,
    )
    repository.add_place(session, place=row)
    return row


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
