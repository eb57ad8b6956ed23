"""Evidence to take away: past exports, and a new one, its population counted before it is asked for."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.core.canonical_json import encode_canonical
from app.core.dsse import fingerprint
from app.core.ledger.checkpoint import NoteSigner
from app.dashboard import queries_evidence
from app.dashboard.access import Exporter, LedgerVisitor
from app.dashboard.sending import answer_form
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import AppError, BadRequest, Refused
from app.evidence.service import population, reading
from app.evidence.service.request import CANCELLED, ExportOrder, request_export
from app.ledger.api import SignerDep
from app.models import EvidenceExport
from app.web.deps import ReadSession, SettingsDep, WriteSession
from app.web.idempotency import Answer
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/evidence", include_in_schema=False)

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DEGREE: Final = re.compile(r"[1-9][0-9]{0,3}")
_ONE_DAY: Final = timedelta(days=1)


# A state as a word, the icon beside it and the class that colours both.
STATES: Final = {
    "waiting": (
        "waiting",
        "is-waiting",
        "It waits for the control worker, which builds one bundle at a time.",
    ),
    "running": ("running", "is-running", "The control worker builds it from one snapshot of the database."),
    "finished": ("pinned", "is-restored", "It can be downloaded and verified without this server."),
    "failed": ("failed", "is-failed", "There is no bundle, and nothing half made is left."),
    "expired": ("gone", "is-finished", "Its file is not kept any more. The same request makes it again."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of an export in words."""

    word: str
    icon: str
    colour: str
    sentence: str


def standing_of(export: EvidenceExport) -> Standing:
    """What the state of an export means."""
    icon, colour, sentence = STATES[export.state]
    word = "called off" if (export.problem or {}).get("code") == CANCELLED else export.state
    return Standing(word=word, icon=icon, colour=colour, sentence=sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportForm:
    """What stands in the fields, as typed; a period's days are both meant whole, UTC."""

    since: str = ""
    until: str = ""
    images: str = ""
    tp: str = ""
    dcp: str = ""
    ledger_size: str = ""
    once: str = ""

    @property
    def is_everything(self) -> bool:
        return not (self.since or self.until or self.images or self.tp or self.dcp)

    @property
    def digests(self) -> tuple[str, ...]:
        """Every image named, each once."""
        typed = self.images.lower().replace(",", " ").replace("sha256:", " ").split()
        return tuple(dict.fromkeys(typed))

    @property
    def address(self) -> str:
        """The form with these fields; this is the address to share."""
        given = {"from": self.since, "to": self.until, "images": " ".join(self.digests)}
        values = {name: value for name, value in (given | {"tp": self.tp, "dcp": self.dcp}).items() if value}
        return f"/evidence/new?{urlencode(values)}" if values else "/evidence/new"


def query_fields(
    since: Annotated[str, Query(alias="from", max_length=40)] = "",
    until: Annotated[str, Query(alias="to", max_length=40)] = "",
    images: Annotated[str, Query(max_length=20_000)] = "",
    tp: Annotated[str, Query(max_length=10)] = "",
    dcp: Annotated[str, Query(max_length=10)] = "",
) -> ExportForm:
    return _form(since, until, images, tp, dcp)


def form_fields(
    since: Annotated[str, Form(alias="from", max_length=40)] = "",
    until: Annotated[str, Form(alias="to", max_length=40)] = "",
    images: Annotated[str, Form(max_length=20_000)] = "",
    tp: Annotated[str, Form(max_length=10)] = "",
    dcp: Annotated[str, Form(max_length=10)] = "",
    ledger_size: Annotated[str, Form(max_length=20)] = "",
    once: Annotated[str, Form(max_length=64)] = "",
) -> ExportForm:
    return _form(since, until, images, tp, dcp, ledger_size, once)


def _form(*texts: str) -> ExportForm:
    names = ("since", "until", "images", "tp", "dcp", "ledger_size", "once")
    return ExportForm(
        **{name: text.replace("\0", "").strip() for name, text in zip(names, texts, strict=False)}
    )


@router.get("")
def list_exports(
    request: Request,
    session: ReadSession,
    login: LedgerVisitor,
    asked: PageDep,
    signer: SignerDep,
    settings: SettingsDep,
) -> Response:
    rows = reading.list_exports(session, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked, rows)
    size = request.query_params.get("page_size", "")
    older = urlencode({"page_token": token, **({"page_size": size} if size else {})})
    return page(
        request,
        "exports.html",
        login=login,
        now=database_time(session),
        exports=shown,
        standings={row.id: standing_of(row) for row in shown},
        total=reading.count_exports(session),
        roots=queries_evidence.checkpoint_roots(session, sizes=[row.ledger_size for row in shown]),
        kept_until={row.id: reading.kept_until(row, settings=settings) for row in shown},
        older=f"/evidence?{older}" if token else "",
        first_page=asked.after is None,
        **key_of(signer),
    )


@router.get("/new")
def show_form(
    request: Request,
    session: ReadSession,
    login: LedgerVisitor,
    signer: SignerDep,
    form: Annotated[ExportForm, Depends(query_fields)],
) -> Response:
    return _show(request, session=session, login=login, signer=signer, form=form)


@router.post("/new")
def ask(
    request: Request,
    session: WriteSession,
    login: Exporter,
    signer: SignerDep,
    form: Annotated[ExportForm, Depends(form_fields)],
) -> Response:
    """The same form sent twice is one export."""
    try:
        order = read_order(form)
        produce = _production(session, order=order, signer=signer, login=login)
        sent = b"POST /evidence/new\n" + encode_canonical([form.address, form.ledger_size])
        return answer_form(
            session, principal=login.principal.name, once=form.once, sent=sent, produce=produce
        )
    except AppError as error:
        return _show(
            request,
            session=session,
            login=login,
            signer=signer,
            form=form,
            problem=error.detail,
            status=error.status,
        )


def _production(
    session: Session, *, order: ExportOrder, signer: NoteSigner | None, login: Login
) -> Callable[[], Answer]:
    def produce() -> Answer:
        export = request_export(session, order=order, signer=signer, by=login.principal.name)
        return Answer(status=303, body=b"", location=f"/evidence/{export.id}")

    return produce


def read_order(form: ExportForm) -> ExportOrder:
    """The order in the fields.

    Raises:
        Refused: a field does not hold what it must.
    """
    unknown = [one for one in form.digests if _DIGEST.fullmatch(one) is None]
    if unknown:
        raise Refused(f"Images: expected config ids of 64 digits, found {unknown[0][:80]}")
    if bool(form.tp) != bool(form.dcp):
        raise Refused("Topology: expected both TP and DCP, or neither")
    for name, text in (("TP", form.tp), ("DCP", form.dcp)):
        if text and _DEGREE.fullmatch(text) is None:
            raise Refused(f"{name}: expected a number from 1 to 9999, found {text!r}")
    if form.ledger_size and not (form.ledger_size.isascii() and form.ledger_size.isdigit()):
        raise Refused(f"Ledger size: expected a number, found {form.ledger_size!r}")
    until = _day(form.until, name="To")
    return ExportOrder(
        period_from=_day(form.since, name="From"),
        period_until=until + _ONE_DAY if until else None,
        image_config_ids=form.digests,
        topology=(form.tp, form.dcp) if form.tp else None,
        ledger_size=int(form.ledger_size) if form.ledger_size else None,
    )


def _day(text: str, *, name: str) -> datetime | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        return datetime.combine(day, time.min, tzinfo=UTC)
    except ValueError:
        raise Refused(f"{name}: expected a day as YYYY-MM-DD, found {text[:40]!r}") from None


def _show(
    request: Request,
    *,
    session: Session,
    login: Login,
    signer: NoteSigner | None,
    form: ExportForm,
    problem: str = "",
    status: int = 200,
) -> Response:
    found = None
    try:
        found = population.count_population(session, order=read_order(form))
    except (Refused, BadRequest) as error:
        problem, status = problem or error.detail, max(status, error.status)
    return page(
        request,
        "export_new.html",
        status=status,
        login=login,
        now=database_time(session),
        form=form,
        once=str(uuid4()),
        found=found,
        problem=problem,
        named=population.NAMED,
        **key_of(signer),
    )


def key_of(signer: NoteSigner | None) -> dict[str, Any]:
    """The ledger's name and the fingerprint of its key, empty where none is set."""
    if signer is None:
        return {"origin": "", "key_fingerprint": ""}
    return {"origin": signer.name, "key_fingerprint": fingerprint(signer.verifier.public)}
