"""Declaring a composition: a person means receipts for qualification, and the rules decide (§7.6)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.core.qualify.facts import Capability
from app.core.qualify.values import Basis
from app.dashboard.access import ImagesVisitor, author
from app.dashboard.templating import page
from app.dashboard.verdict_words import code_words
from app.db.session import database_time
from app.errors import NotFound
from app.models import ReceiptRow
from app.receipts import service as receipts
from app.receipts.service import ReceiptFilter
from app.verdicts.service import current, declarations
from app.verdicts.service.declare import declare
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep, WriteSession

router = APIRouter(prefix="/declarations", include_in_schema=False)

Declarer = Annotated[Login, Depends(author(Scope.IMAGES_WRITE))]
# What a claim can be made for: the capabilities that may become qualified.
CAPABILITIES: Final = ("restore", "serving", "recovery", "isolation", "capture", "readiness")
MOST_OFFERED: Final = 50
MOST_MEANT: Final = 100
LONGEST_REASON: Final = 2000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareForm:
    """What stands in the fields, as typed: `meant` are ticked receipts, `others` is one digest a line."""

    reason: str
    capability: str
    meant: tuple[str, ...]
    others: str
    image: str

    @property
    def digests(self) -> list[str]:
        """Every receipt meant, each once."""
        typed = self.others.lower().replace(",", " ").replace("sha256:", " ").split()
        return list(dict.fromkeys([*self.meant, *typed]))


def form_fields(
    reason: Annotated[str, Form(max_length=8000)] = "",
    capability: Annotated[str, Form(max_length=40)] = "",
    meant: Annotated[list[str], Form(max_length=200)] = [],  # noqa: B006  (FastAPI copies it)
    others: Annotated[str, Form(max_length=20_000)] = "",
    image: Annotated[str, Form(max_length=80)] = "",
) -> DeclareForm:
    return DeclareForm(
        reason=" ".join(reason.replace("\0", "").split()),
        capability=capability,
        meant=tuple(meant),
        others=others.replace("\0", "").strip(),
        image=image,
    )


@router.get("/new")
def show_form(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    image: Annotated[str, Query(max_length=80)] = "",
    receipt: Annotated[str, Query(max_length=80)] = "",
) -> Response:
    blank = DeclareForm(
        reason="", capability="restore", meant=(receipt,) if receipt else (), others="", image=image
    )
    return _show(request, session, login=login, form=blank)


@router.post("/new")
def declare_composition(
    request: Request,
    session: WriteSession,
    login: Declarer,
    settings: SettingsDep,
    form: Annotated[DeclareForm, Depends(form_fields)],
) -> Response:
    """What is wrong is said in the form, which keeps the rest."""
    problem = problem_of(form)
    if problem:
        return _show(request, session, login=login, form=form, problem=problem, status=422)
    try:
        row, _ = declare(
            session,
            reason=form.reason,
            digests=form.digests,
            capability=Capability(form.capability),
            by=login.principal.name,
            grade=Basis(settings.deployable_grade),
        )
    except NotFound as error:
        return _show(request, session, login=login, form=form, problem=error.detail, status=404)
    return RedirectResponse(f"/declarations/{row.id}", status_code=303)


@router.get("/{declaration_id}")
def show_declaration(
    declaration_id: UUID, request: Request, session: ReadSession, login: ImagesVisitor
) -> Response:
    row = declarations.get_declaration(session, declaration_id=declaration_id)
    verdicts = {
        digest: [
            one
            for one in current.verdicts_of_receipt(session, sha256=digest)
            if one.kind == "receipt" and one.capability == row.capability
        ]
        for digest in row.receipts[:MOST_OFFERED]
    }
    return page(
        request,
        "declaration.html",
        login=login,
        now=database_time(session),
        declaration=row,
        verdicts=verdicts,
        more=max(0, len(row.receipts) - MOST_OFFERED),
        code=code_words,
    )


def problem_of(form: DeclareForm) -> str:
    """What is wrong with the fields, in a sentence; empty if nothing is."""
    wrong = next((digest for digest in form.digests if not _DIGEST.fullmatch(digest)), None)
    if not form.reason:
        return "Reason: expected why these receipts are meant for qualification, found nothing"
    if len(form.reason) > LONGEST_REASON:
        return f"Reason: expected at most {LONGEST_REASON} characters, found {len(form.reason)}"
    if form.capability not in CAPABILITIES:
        return f"Meant for: expected one of {', '.join(CAPABILITIES)}, found {form.capability[:40]}"
    if wrong is not None:
        return f"Receipts: expected 64 hexadecimal digits each, found {wrong[:80]}"
    if not form.digests:
        return "Receipts: expected at least one, found none"
    if len(form.digests) > MOST_MEANT:
        return f"Receipts: expected at most {MOST_MEANT}, found {len(form.digests)}"
    return ""


def _show(
    request: Request,
    session: Session,
    *,
    login: Login,
    form: DeclareForm,
    problem: str = "",
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {
        "form": form,
        "offered": _offered(session, form),
        "capabilities": CAPABILITIES,
        "longest": LONGEST_REASON,
        "problem": problem,
        "may_declare": login.principal.may(Scope.IMAGES_WRITE),
    }
    return page(request, "declare.html", status=status, login=login, now=database_time(session), **values)


def _offered(session: Session, form: DeclareForm) -> Sequence[ReceiptRow]:
    """Receipts to tick: those of the image asked for, else those already meant."""
    if _DIGEST.fullmatch(form.image):
        wanted = ReceiptFilter(image_config_id=form.image)
        return receipts.list_receipts(session, wanted=wanted, after=None, limit=MOST_OFFERED)
    found = []
    for digest in form.meant[:MOST_OFFERED]:
        try:
            found.append(receipts.get_receipt(session, sha256=digest))
        except NotFound:
            continue
    return found
