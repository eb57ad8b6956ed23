"""Namespaces of all registered profiles, and claims about documents."""

from fastapi import APIRouter, Request, Response

from app.core.profiles.documents import DocumentKind
from app.dashboard.access import ProfilesVisitor
from app.dashboard.checks_view import checks_of
from app.dashboard.templating import page
from app.db.session import database_time
from app.profiles import service as profiles
from app.profiles.service.claims import list_claims
from app.profiles.service.namespaces import registered
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/profiles", include_in_schema=False)


@router.get("/namespaces")
def show_namespaces(request: Request, session: ReadSession, login: ProfilesVisitor) -> Response:
    found = registered(session)
    return page(
        request,
        "profile_namespaces.html",
        login=login,
        now=database_time(session),
        found=found,
        checks=checks_of(found.findings),
    )


@router.get("/claims")
def show_claims(request: Request, session: ReadSession, login: ProfilesVisitor, asked: PageDep) -> Response:
    found = list_claims(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, found)
    size = request.query_params.get("page_size", "")
    more = f"&page_size={size}" if size.isdecimal() else ""
    return page(
        request,
        "profile_claims.html",
        login=login,
        now=database_time(session),
        claims=shown,
        total=profiles.count_documents(session, kind=DocumentKind.CLAIM, text=None),
        older=f"/profiles/claims?page_token={token}{more}" if token else "",
        first_page=asked.after is None,
    )
