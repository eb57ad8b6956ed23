"""The page of one node: its devices, what its last scan could not read, and that it will not come back."""

from typing import Annotated, Final

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.dashboard.access import NodesVisitor, Operator
from app.dashboard.machines import machines_of
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import Conflict, NotFound
from app.nodes import service as nodes
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep, WriteSession

router = APIRouter(prefix="/nodes", include_in_schema=False)

LONGEST_REASON: Final = 2000


@router.get("/{name}")
def show_node(
    name: str, request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    return _show(request, session, login=login, name=name, settings=settings)


@router.post("/{name}/gone")
def declare_gone(
    name: str,
    request: Request,
    session: WriteSession,
    login: Operator,
    settings: SettingsDep,
    reason: Annotated[str, Form(max_length=8000)] = "",
) -> Response:
    said = " ".join(reason.replace("\0", "").split())
    problem, status = _reason_problem(said), 422
    if not problem and "\0" not in name:
        try:
            nodes.declare_gone(
                session,
                name=name,
                reason=said,
                silence_s=settings.node_silence_s,
                by=login.principal.name,
            )
        except Conflict as error:
            problem, status = error.detail, error.status
    if problem:
        return _show(
            request, session, login=login, name=name, settings=settings, problem=problem, status=status
        )
    return RedirectResponse(f"/nodes/{name}", status_code=303)


def _reason_problem(reason: str) -> str:
    if not reason:
        return "Reason: expected why it will not come back, found nothing"
    if len(reason) > LONGEST_REASON:
        return f"Reason: expected at most {LONGEST_REASON} characters, found {len(reason)}"
    return ""


def _show(
    request: Request,
    session: Session,
    *,
    login: Login,
    name: str,
    settings: Settings,
    problem: str = "",
    status: int = 200,
) -> Response:
    now = database_time(session)
    known = "\0" not in name
    found = machines_of(session, now=now, silence_s=settings.node_silence_s, name=name) if known else None
    if found is None or not found.nodes:
        raise NotFound(f"node {name!r}: not registered")
    return page(
        request,
        "node.html",
        status=status,
        login=login,
        now=now,
        machines=found,
        one=found.nodes[0],
        problem=problem,
        longest=LONGEST_REASON,
        may_declare=login.principal.may(Scope.RESTORES_WRITE),
    )
