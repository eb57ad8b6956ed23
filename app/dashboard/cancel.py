"""Calling a restore off and trying one again, from their pages."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.dashboard import queries
from app.dashboard.access import Operator, Visitor
from app.dashboard.templating import page
from app.dashboard.wording import verdict_of
from app.db.session import database_time
from app.errors import Conflict, NotFound
from app.models import Restore
from app.restores.api.deps import AdmissionDep
from app.restores.service import cancellation, retry
from app.web.deps import ReadSession, SettingsDep, WriteSession

router = APIRouter(prefix="/restores/{restore_id}", include_in_schema=False)

LONGEST_REASON = 200


@router.get("/cancel")
def show_cancel(restore_id: UUID, request: Request, session: ReadSession, login: Visitor) -> Response:
    """What cancelling will do, before it is done."""
    return _show(request, session=session, login=login, restore_id=restore_id)


@router.post("/cancel")
def cancel(
    restore_id: UUID,
    request: Request,
    session: WriteSession,
    login: Operator,
    admission: AdmissionDep,
    reason: Annotated[str, Form(max_length=4000)] = "",
) -> Response:
    """A wish that comes too late is answered with what has happened meanwhile."""
    said = " ".join(reason.replace("\0", "").split())
    if len(said) > LONGEST_REASON:
        problem = f"Reason: expected at most {LONGEST_REASON} characters, found {len(said)}"
        return _show(
            request,
            session=session,
            login=login,
            restore_id=restore_id,
            status=422,
            problem=problem,
            reason=said,
        )
    restore = cancellation.locked_restore(session, restore_id=restore_id)
    try:
        cancellation.request_cancel(
            session,
            restore=restore,
            by=login.principal.name,
            reason=said or None,
            messages=admission.messages,
        )
    except Conflict as error:
        return _show(
            request,
            session=session,
            login=login,
            restore_id=restore_id,
            status=error.status,
            problem=f"Too late, nothing was changed. {error.detail}",
        )
    admission.look_after(session)
    return _to(restore_id)


@router.post("/retry")
def try_again(
    restore_id: UUID, session: WriteSession, login: Operator, admission: AdmissionDep, settings: SettingsDep
) -> Response:
    """Every restore is tried again once: the second click finds the same new restore."""
    newer = queries.retried_by(session, restore_id=restore_id)
    if newer is not None:
        return _to(newer)
    ordered = retry.retry_restore(session, restore_id=restore_id, by=login.principal.name, settings=settings)
    admission.look_after_order(session, ordered)
    return _to(ordered.restore.id)


def can_cancel(restore: Restore) -> bool:
    """Whether a restore may still be called off: nothing is decided."""
    return restore.state in {"waiting", "running"} and restore.cancel_requested_at is None


def _show(
    request: Request,
    *,
    session: Session,
    login: Login,
    restore_id: UUID,
    status: int = 200,
    problem: str = "",
    reason: str = "",
) -> Response:
    restore = session.get(Restore, restore_id)
    if restore is None:
        raise NotFound(f"restore {restore_id}: not found")
    return page(
        request,
        "cancel.html",
        status=status,
        login=login,
        now=database_time(session),
        restore=restore,
        verdict=verdict_of(restore),
        possible=can_cancel(restore),
        problem=problem,
        reason=reason,
        longest=LONGEST_REASON,
    )


def _to(restore_id: UUID) -> Response:
    return RedirectResponse(f"/restores/{restore_id}", status_code=303)
