"""Namespaces of all registered profiles, and claims about documents."""

from fastapi import APIRouter, Request, Response

from app.dashboard.access import ProfilesVisitor
from app.dashboard.checks_view import checks_of
from app.dashboard.templating import page
from app.db.session import database_time
from app.profiles.service.namespaces import registered
from app.web.deps import ReadSession

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
