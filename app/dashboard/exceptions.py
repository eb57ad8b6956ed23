"""Exceptions: operational restores of an image that is not deployable, for one scope, until a time."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.dashboard.access import ImagesVisitor, Operator
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import AppError, NotFound
from app.manifests import service as manifests
from app.verdicts.service import allowed
from app.verdicts.service.allowed import LONGEST_EXCEPTION, SnapshotScope
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep, WriteSession
from app.web.paging import Page, PageDep, next_token

router = APIRouter(prefix="/exceptions", include_in_schema=False)

LONGEST_REASON: Final = 2000
LONGEST_DAYS: Final = LONGEST_EXCEPTION.days
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantForm:
    """What stands in the fields, as typed."""

    image: str = ""
    snapshot: str = ""
    days: str = "1"
    reason: str = ""


def grant_fields(
    image: Annotated[str, Form(max_length=200)] = "",
    snapshot: Annotated[str, Form(max_length=200)] = "",
    days: Annotated[str, Form(max_length=20)] = "",
    reason: Annotated[str, Form(max_length=8000)] = "",
) -> GrantForm:
    return GrantForm(
        image=_one_line(image).lower().removeprefix("sha256:"),
        snapshot=_one_line(snapshot).lower(),
        days=_one_line(days),
        reason=_one_line(reason),
    )


@router.get("")
def list_exceptions(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    asked: PageDep,
    image: Annotated[str, Query(max_length=80)] = "",
) -> Response:
    form = GrantForm(image=image.replace("\0", ""))
    return _show(request, session, login=login, asked=asked, form=form)


@router.post("")
def grant(
    request: Request,
    session: WriteSession,
    login: Operator,
    asked: PageDep,
    settings: SettingsDep,
    form: Annotated[GrantForm, Depends(grant_fields)],
) -> Response:
    """What is wrong is said beside the form, which keeps the rest."""
    problem = problem_of(form)
    if problem:
        return _show(request, session, login=login, asked=asked, form=form, problem=problem, status=422)
    try:
        scope = _scope(session, context_digest=form.snapshot, settings=settings)
    except AppError as error:
        return _show(
            request,
            session,
            login=login,
            asked=asked,
            form=form,
            problem=f"Snapshot: {error.detail}",
            status=error.status,
        )
    allowed.grant_exception(
        session,
        image_config_id=form.image,
        scope=scope,
        reason=form.reason,
        expires_at=database_time(session) + timedelta(days=int(form.days)),
        by=login.principal.name,
    )
    return RedirectResponse("/exceptions", status_code=303)


@router.post("/{exception_id}/end")
def end(
    exception_id: UUID,
    request: Request,
    session: WriteSession,
    login: Operator,
    asked: PageDep,
    reason: Annotated[str, Form(max_length=8000)] = "",
) -> Response:
    said = _one_line(reason)
    problem, status = _reason_problem(said), 422
    if not problem:
        try:
            allowed.end_exception(session, exception_id=exception_id, reason=said, by=login.principal.name)
        except NotFound:
            raise
        except AppError as error:
            problem, status = error.detail, error.status
    if problem:
        return _show(
            request, session, login=login, asked=asked, form=GrantForm(), problem=problem, status=status
        )
    return RedirectResponse("/exceptions", status_code=303)


def problem_of(form: GrantForm) -> str:
    """What is wrong with the fields, in a sentence; empty if nothing is."""
    if not _DIGEST.fullmatch(form.image):
        return f"Image: expected the 64 digits of a config id, found {form.image[:80] or 'nothing'}"
    if not _DIGEST.fullmatch(form.snapshot):
        return f"Snapshot: expected the 64 digits of a context, found {form.snapshot[:80] or 'nothing'}"
    if not (form.days.isascii() and form.days.isdigit() and 1 <= int(form.days) <= LONGEST_DAYS):
        return f"Days: expected 1 to {LONGEST_DAYS}, found {form.days[:20] or 'nothing'}"
    return _reason_problem(form.reason)


def _reason_problem(reason: str) -> str:
    if not reason:
        return "Reason: expected why, for whoever audits this, found nothing"
    if len(reason) > LONGEST_REASON:
        return f"Reason: expected at most {LONGEST_REASON} characters, found {len(reason)}"
    return ""


def _scope(session: Session, *, context_digest: str, settings: Settings) -> SnapshotScope:
    snapshot = manifests.get_snapshot(
        session,
        context_digest=context_digest,
        rank_zero_storage_key=None,
        silence_s=settings.node_silence_s,
    )
    place = next(place for places in snapshot.places.values() for place in places)
    return allowed.scope_of_snapshot(place.root_document)


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", "").split())


def _show(
    request: Request,
    session: Session,
    *,
    login: Login,
    asked: Page,
    form: GrantForm,
    problem: str = "",
    status: int = 200,
) -> Response:
    rows = allowed.list_exceptions(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, rows)
    return page(
        request,
        "exceptions.html",
        status=status,
        login=login,
        now=database_time(session),
        exceptions=shown,
        total=allowed.count_exceptions(session),
        # The token of a form's answer would belong to the address the form was sent to.
        older=f"/exceptions?page_token={token}" if token and request.method == "GET" else "",
        first_page=asked.after is None,
        form=form,
        problem=problem,
        longest=LONGEST_REASON,
        longest_days=LONGEST_DAYS,
        may_allow=login.principal.may(Scope.RESTORES_WRITE),
    )
