"""A document comes in: kept, judged, and everything it bears on judged again, in one transaction."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.core.qualify.facts import DocumentFacts
from app.core.qualify.values import Basis
from app.models import ReceiptRow, VerdictRow
from app.receipts.service import Origin, append_receipt
from app.verdicts.service.judging import judge_receipts
from app.verdicts.service.rows import Cause
from app.verdicts.service.surroundings import concerned


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What became of submitted bytes: `changed` are the verdicts that are new."""

    receipt: ReceiptRow
    created: bool
    changed: tuple[VerdictRow, ...]


def submit(
    session: Session, *, raw: bytes, facts: DocumentFacts, origin: Origin | None, by: str, grade: Basis
) -> Submitted:
    """Keep a document whose facts were read from `raw`, and judge.

    Args: grade: the weakest grade of evidence with which anything is deployable.
    """
    appended = append_receipt(session, raw=raw, facts=facts, origin=origin, by=by)
    changed: list[VerdictRow] = []
    if appended.created or appended.placed:
        what = "receipt-imported" if appended.created else "place-added"
        detail = f"receipt {facts.sha256[:12]} came in"
        if not appended.created and origin is not None:
            detail = f"receipt {facts.sha256[:12]} stands at {origin.repository} {origin.path} too"
        changed = judge_receipts(
            session,
            digests=concerned(session, appended=appended),
            cause=Cause(what=what, detail=detail, by=by, receipt=facts.sha256),
            grade=grade,
        )
    return Submitted(receipt=appended.receipt, created=appended.created, changed=tuple(changed))
