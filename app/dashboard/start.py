"""The form that orders a restore. The same form sent twice is one restore."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from uuid import uuid4

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.core.canonical_json import encode_canonical
from app.core.errors import CoreError
from app.core.oracle.partials import INJECTABLE
from app.core.restore.page_plan import plan_restore
from app.dashboard import queries, queries_answers
from app.dashboard.access import Operator, Visitor
from app.dashboard.answer import FAULTS
from app.dashboard.sending import answer_form
from app.dashboard.snapshots import newest_spreads
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import AppError, Refused
from app.layouts import service as layouts
from app.manifests import service as manifests
from app.manifests.service import Snapshot
from app.models import Layout, OracleQuestionRow
from app.restores.api.deps import Admission, AdmissionDep
from app.restores.service.answers import NO_QUESTION
from app.restores.service.drills import InjectedFault, check_drill
from app.restores.service.request import RestoreOrder, request_restore
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep, WriteSession
from app.web.idempotency import Answer

router = APIRouter(prefix="/restores/new", include_in_schema=False)

SNAPSHOTS: Final = 50
LAYOUTS: Final = 50
PURPOSES: Final = {
    "qualification": "qualification run: to find out, with any image; serves nobody",
    "operational": "operational: only an image that is deployable for exactly this, or an exception",
}
INJECTABLE_NAMES: Final = tuple(map(str, INJECTABLE))
LONGEST_STAY_S: Final = 7 * 24 * 3600
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForm:
    """What stands in the fields, as typed."""

    snapshot: str
    layout: str
    resident_s: str
    once: str
    purpose: str = "qualification"
    image: str = ""
    oracle: str = ""
    fault: str = ""
    fault_rank: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What can be chosen: complete snapshots, all layouts, which of them fit the chosen snapshot, and the
    questions that can be asked of it."""

    complete: tuple[Snapshot, ...]
    incomplete: tuple[Snapshot, ...]
    layouts: tuple[Layout, ...]
    fitting: frozenset[str]
    questions: tuple[OracleQuestionRow, ...] = ()
    rank_count: int = 1


def form_fields(
    snapshot: Annotated[str, Form(max_length=200)] = "",
    layout: Annotated[str, Form(max_length=200)] = "",
    resident_s: Annotated[str, Form(max_length=20)] = "",
    once: Annotated[str, Form(max_length=64)] = "",
    purpose: Annotated[str, Form(max_length=20)] = "qualification",
    image: Annotated[str, Form(max_length=80)] = "",
    oracle: Annotated[str, Form(max_length=80)] = "",
    fault: Annotated[str, Form(max_length=40)] = "",
    fault_rank: Annotated[str, Form(max_length=10)] = "0",
) -> StartForm:
    return StartForm(
        snapshot=snapshot,
        layout=layout,
        resident_s=resident_s.strip(),
        once=once,
        purpose=purpose,
        image=image.strip().lower().removeprefix("sha256:"),
        oracle=oracle.strip(),
        fault=fault.strip(),
        fault_rank=fault_rank.strip(),
    )


FormFields = Annotated[StartForm, Depends(form_fields)]


@router.get("")
def show_form(
    request: Request,
    session: ReadSession,
    login: Visitor,
    settings: SettingsDep,
    snapshot: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    blank = StartForm(snapshot=snapshot, layout="", resident_s=str(settings.resident_s), once=str(uuid4()))
    return _show(request, session=session, login=login, settings=settings, form=blank)


@router.post("")
def start_restore(
    request: Request,
    session: WriteSession,
    login: Operator,
    settings: SettingsDep,
    admission: AdmissionDep,
    form: FormFields,
) -> Response:
    try:
        order = read_order(form)
        check_drill(login.principal, fault=order.fault)
        produce = _production(session, order=order, login=login, admission=admission)
        return _answer(session, form=form, login=login, produce=produce)
    except (AppError, CoreError) as error:
        again = replace(form, once=str(uuid4()))
        return _show(request, session=session, login=login, settings=settings, form=again, problem=error)


def read_order(form: StartForm) -> RestoreOrder:
    """The order in the fields.

    Raises:
        Refused: a field does not hold what it must.
    """
    context_digest, _, storage_key = form.snapshot.partition(".")
    if not (_is_digest(context_digest) and _is_digest(storage_key)):
        raise Refused("Snapshot: choose one of the complete snapshots")
    if not _is_digest(form.layout):
        raise Refused("Layout: choose the page layout that the snapshot was stored with")
    if not (form.resident_s.isascii() and form.resident_s.isdigit()):
        raise Refused(f"Pages stay: expected a whole number of seconds, found {form.resident_s!r}")
    if not 1 <= int(form.resident_s) <= LONGEST_STAY_S:
        raise Refused(f"Pages stay: expected 1 to {LONGEST_STAY_S} seconds, found {form.resident_s}")
    if not form.once:
        raise Refused("This form was incomplete; it has been renewed, please send it again")
    if form.purpose not in PURPOSES:
        raise Refused(f"Purpose: expected one of {', '.join(PURPOSES)}, found {form.purpose!r}")
    if form.image and not _is_digest(form.image):
        raise Refused("Image: expected the 64 digits of a config id, or nothing")
    if form.purpose == "operational" and not form.image:
        raise Refused("Image: expected the image that an operational restore is for, found nothing")
    if form.oracle not in ("", NO_QUESTION) and not _is_digest(form.oracle):
        raise Refused("Question: choose one that is registered, or none")
    return RestoreOrder(
        context_digest=context_digest,
        rank_zero_storage_key=storage_key,
        layout_sha256=form.layout,
        resident_s=int(form.resident_s),
        purpose=form.purpose,
        image_config_id=form.image or None,
        oracle=form.oracle or None,
        fault=_fault(form),
    )


def _fault(form: StartForm) -> InjectedFault | None:
    if not form.fault:
        return None
    if form.fault not in INJECTABLE_NAMES:
        raise Refused(f"Fault: expected one of {', '.join(INJECTABLE_NAMES)}, found {form.fault!r}")
    if not (form.fault_rank.isascii() and form.fault_rank.isdigit() and len(form.fault_rank) < 10):
        raise Refused(f"Rank of the fault: expected a whole number, found {form.fault_rank!r}")
    return InjectedFault(name=form.fault, rank=int(form.fault_rank))


def _is_digest(text: str) -> bool:
    return len(text) == 64 and _HEX.issuperset(text)


def _production(
    session: Session, *, order: RestoreOrder, login: Login, admission: Admission
) -> Callable[[], Answer]:
    def produce() -> Answer:
        silence_s = admission.settings.node_silence_s
        ordered = request_restore(session, order=order, by=login.principal.name, silence_s=silence_s)
        admission.look_after_order(session, ordered)
        return Answer(status=303, body=b"", location=f"/restores/{ordered.restore.id}")

    return produce


def _answer(session: Session, *, form: StartForm, login: Login, produce: Callable[[], Answer]) -> Response:
    """The redirect to the restore, the same one for the same form; a savepoint undoes what fails."""
    fingerprint = b"POST /restores/new\n" + encode_canonical(
        [
            *(form.snapshot, form.layout, form.resident_s, form.purpose, form.image),
            *(form.oracle, form.fault, form.fault_rank),
        ]
    )
    return answer_form(
        session, principal=login.principal.name, once=form.once, sent=fingerprint, produce=produce
    )


def _show(
    request: Request,
    *,
    session: Session,
    login: Login,
    settings: Settings,
    form: StartForm,
    problem: AppError | CoreError | None = None,
) -> Response:
    choices = _choices(session, wanted=form.snapshot, silence_s=settings.node_silence_s)
    return page(
        request,
        "start.html",
        status=200 if problem is None else getattr(problem, "status", 422),
        login=login,
        now=database_time(session),
        choices=choices,
        form=_preselected(form, choices=choices),
        problem=str(problem) if problem else "",
        longest_s=LONGEST_STAY_S,
        purposes=PURPOSES,
        faults={name: FAULTS[name] for name in INJECTABLE_NAMES},
        may_drill=login.principal.may(Scope.DRILLS_WRITE),
    )


def _preselected(form: StartForm, *, choices: Choices) -> StartForm:
    """The newest snapshot unless one is chosen, and the one layout that fits it unless one is chosen."""
    keys = [snapshot_key(one) for one in choices.complete]
    snapshot = form.snapshot if form.snapshot in keys else next(iter(keys), "")
    only = next(iter(choices.fitting)) if len(choices.fitting) == 1 else ""
    return replace(form, snapshot=snapshot, layout=form.layout or only)


def snapshot_key(snapshot: Snapshot) -> str:
    """A snapshot's name in a form field."""
    return f"{snapshot.context_digest}.{snapshot.rank_zero_storage_key}"


def _choices(session: Session, *, wanted: str, silence_s: float) -> Choices:
    now = database_time(session)
    spreads = newest_spreads(session, limit=SNAPSHOTS, now=now, silence_s=silence_s)
    found = [spread.snapshot for spread in spreads]
    complete = tuple(one for one in found if not one.missing)
    known = tuple(queries.layouts(session, limit=LAYOUTS))
    chosen = next((one for one in complete if snapshot_key(one) == wanted), next(iter(complete), None))
    return Choices(
        complete=complete,
        incomplete=tuple(one for one in found if one.missing),
        layouts=known,
        fitting=_fitting(chosen, known=known) if chosen else frozenset(),
        questions=_questions(session, chosen),
        rank_count=chosen.rank_count if chosen else 1,
    )


def _questions(session: Session, chosen: Snapshot | None) -> tuple[OracleQuestionRow, ...]:
    if chosen is None:
        return ()
    found = queries_answers.questions(
        session, context_digest=chosen.context_digest, rank_count=chosen.rank_count
    )
    return tuple(found)


def _fitting(snapshot: Snapshot, *, known: Sequence[Layout]) -> frozenset[str]:
    """The layouts with which rank 0 of a snapshot makes a plan."""
    manifest = manifests.parsed(snapshot.usable(0)[0].root_document)
    fitting = set()
    for row in known:
        try:
            plan_restore(manifest, layout=layouts.parsed(row))
        except CoreError:
            continue
        fitting.add(row.sha256)
    return frozenset(fitting)
