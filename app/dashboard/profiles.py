"""The matrix of profiles: TP, DCP and cache of a contract, status and recommendation apart."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.core.profiles.documents import DocumentKind
from app.dashboard.access import ProfilesVisitor
from app.dashboard.checks_view import document_link, short_digests
from app.dashboard.templating import page
from app.db.session import database_time
from app.profiles import service as profiles
from app.profiles.service import StoredDocument
from app.profiles.service.contracts import newer_contracts, read_contracts
from app.profiles.service.matrix import matrix_of
from app.web.auth import Scope
from app.web.deps import ReadSession

router = APIRouter(prefix="/profiles", include_in_schema=False)

# Contracts to choose from; older ones are found among the documents.
MOST_OFFERED: Final = 50
# The catalog's grey words are no outcome of ours; this is the mark each has on the page.
RECOMMENDATION_MARKS: Final = {"preferred": "qualified", "available": "implemented", "retired": "gone"}


@router.get("")
def show_matrix(
    request: Request,
    session: ReadSession,
    login: ProfilesVisitor,
    contract: Annotated[str, Query(max_length=80)] = "",
) -> Response:
    """The profiles of one contract, the newest where none is asked for."""
    if "" in request.query_params.values():
        return RedirectResponse("/profiles", status_code=303)
    offered = contracts_offered(session)
    chosen = contract.strip() or (offered[0].sha256 if offered else "")
    found = read_contracts(session, digests=[chosen]) if chosen else []
    matrix = matrix_of(session, contracts=found)
    return page(
        request,
        "profiles.html",
        login=login,
        now=database_time(session),
        offered=offered,
        chosen=chosen,
        contract=found[0] if found else None,
        newer=next(iter(newer_contracts(session, contract=found[0])), None) if found else None,
        rows=matrix.rows,
        is_complete=matrix.is_complete,
        marks=RECOMMENDATION_MARKS,
        link=document_link,
        cut=short_digests,
        may_add=login.principal.may(Scope.PROFILES_WRITE),
    )


def contracts_offered(session: Session) -> list[StoredDocument]:
    """The newest contracts."""
    return profiles.list_documents(
        session, kind=DocumentKind.CONTRACT, text=None, after=None, limit=MOST_OFFERED
    )
