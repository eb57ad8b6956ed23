"""One profile document: its bytes; of an activation or overlay check what it says and what is made of it."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.orm import Session

from app.core.errors import DocumentError
from app.core.profiles.documents import DocumentKind
from app.core.profiles.findings import ProfileFinding
from app.core.profiles.overlay_document import parse_overlay_check
from app.dashboard.access import ProfilesVisitor
from app.dashboard.checks_view import Checks, checks_of, short_digests
from app.dashboard.profile_documents import Digest
from app.dashboard.raw_lines import document_text
from app.dashboard.raw_text import anchor_of
from app.dashboard.templating import page
from app.db.session import database_time
from app.profiles import service as profiles
from app.profiles.service import StoredDocument
from app.profiles.service.activations import judge_stored, pins_of
from app.profiles.service.claims import claims_about
from app.profiles.service.documents import offences
from app.verdicts.service import current
from app.web.deps import ReadSession

router = APIRouter(prefix="/profiles/documents", include_in_schema=False)

# Of a check's files so many are shown; all of them stand in the document.
MOST_FILES: Final = 500
MOST_VALUES: Final = 40
MOST_RANKS: Final = 8


@router.get("/{sha256}")
def show_document(
    sha256: Digest,
    request: Request,
    session: ReadSession,
    login: ProfilesVisitor,
    at: Annotated[str | None, Query(max_length=2000)] = None,
) -> Response:
    """`at` is a JSON pointer, or the key of a template: the place is marked, or what is nearest to it."""
    document = profiles.get_document(session, sha256=sha256)
    raw = profiles.raw_bytes(session, sha256=sha256)
    is_json = document.kind != DocumentKind.TEMPLATE
    return page(
        request,
        "profile_document.html",
        login=login,
        now=database_time(session),
        document=document,
        text=document_text(raw, is_json=is_json, asked=at),
        anchor=anchor_of,
        cut=short_digests,
        pinned_by=pins_of(session, sha256=sha256),
        claims=claims_about(session, subject_sha256=sha256),
        **_said(session, document, raw),
    )


def _said(session: Session, document: StoredDocument, raw: bytes) -> dict[str, Any]:
    """What a document of its kind has besides its bytes."""
    said: dict[str, Any] = {"activation": None, "overlay": None, "checks": None, "files": (), "more_files": 0}
    said |= {"ranks": (), "more_ranks": 0, "columns": (), "verdicts": ()}
    if document.kind == DocumentKind.ACTIVATION:
        judged = judge_stored(session, sha256=document.sha256)
        verdicts = current.verdicts_of_receipt(session, sha256=document.sha256)
        ranks = () if judged.judgement is None else judged.judgement.ranks
        said |= {
            "activation": judged,
            "verdicts": [row for row in verdicts if row.kind == "receipt"],
            "checks": _checks(judged.findings, document),
            "ranks": ranks[:MOST_RANKS],
            "more_ranks": max(0, len(ranks) - MOST_RANKS),
            "columns": tuple(dict.fromkeys(name for rank in ranks for name in rank.values))[:MOST_VALUES],
        }
    elif document.kind == DocumentKind.OVERLAY_CHECK:
        try:
            check = parse_overlay_check(raw)
        except DocumentError as error:
            return said | {"checks": _checks(offences(error), document)}
        said |= {
            "overlay": check,
            "checks": _checks(check.findings, document),
            "files": check.files[:MOST_FILES],
            "more_files": max(0, len(check.files) - MOST_FILES) + check.files_left_out,
        }
    return said


def _checks(findings: Sequence[ProfileFinding], document: StoredDocument) -> Checks:
    return checks_of(findings, stored=(document.sha256,))
