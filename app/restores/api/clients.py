"""Routes for clients: order a restore, follow, cancel or retry it, read its pages back, discard them."""

from asyncio import wrap_future
from typing import Annotated
from uuid import UUID

from fastapi import Query, Request, Response
from sqlalchemy.orm import Session

from app.core.canonical_json import encode_canonical
from app.restores.api import resources
from app.restores.api.deps import AdmissionDep, IntakeDep, MessagesDep
from app.restores.schemas import (
    CancelBody,
    Outcome,
    ReadbackList,
    ReadbackResource,
    RestoreBody,
    RestoreList,
    RestoreResource,
    RestoreSummary,
    Semantic,
    State,
)
from app.restores.service import cancellation, lists, readback, request, residency, retry
from app.restores.service.admission import waiting_reasons
from app.restores.service.drills import InjectedFault, check_drill
from app.restores.service.intake import Placed
from app.restores.service.lists import RestoreFilters
from app.restores.service.request import Ordered, RestoreOrder, Wish
from app.web.deps import ReadSession, RestoresReader, RestoresWriter, SettingsDep, WriteSession
from app.web.etag import IfMatchOptional, conditional_json
from app.web.idempotency import Answer, Asked, IdempotencyKey, IdempotencyKeyOptional, answer_once
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import TotalResource

router = ApiRouter(prefix="/api/v1/restores", tags=["restores"])


@router.post(
    "",
    operation_id="request_restore",
    summary="Order a restore of a snapshot on all its ranks",
    description=(
        "Answers at once with the restore, which is its own long-running operation: follow `Location`. "
        "The same `Idempotency-Key` with the same body is the same restore."
    ),
    status_code=202,
    response_model=RestoreResource,
    responses=problem_responses(
        "idempotency-key-missing",
        "idempotency-in-flight",
        "idempotency-key-reused",
        "not-found",
        "snapshot-incomplete",
        "snapshot-ambiguous",
        "devices-missing",
        "image-not-deployable",
        "document-refused",
        "refused",
    ),
)
async def request_restore(
    body: RestoreBody,
    principal: RestoresWriter,
    key: IdempotencyKey,
    intake: IntakeDep,
    settings: SettingsDep,
) -> Response:
    order = RestoreOrder(
        context_digest=body.context_digest,
        layout_sha256=body.layout_sha256,
        rank_zero_storage_key=body.rank_zero_storage_key,
        resident_s=body.resident_s or settings.resident_s,
        purpose=body.purpose,
        image_config_id=body.image_config_id,
        oracle=body.oracle,
        fault=None if body.fault is None else InjectedFault(name=body.fault.name, rank=body.fault.rank),
    )
    check_drill(principal, fault=order.fault)
    fingerprint = b"POST /api/v1/restores\n" + encode_canonical(body.model_dump(mode="json"))
    placed = Placed(
        asked=Asked(principal=principal.name, key=key, request=fingerprint),
        wish=Wish(order=order, by=principal.name),
        answer=_accepted,
    )
    return await wrap_future(intake.place(placed))


def _accepted(ordered: Ordered) -> Answer:
    """The restore as it was just written: nobody else can have changed it yet."""
    shown = resources.ordered(ordered)
    location = f"/api/v1/restores/{ordered.restore.id}"
    return Answer(status=202, body=shown.model_dump_json().encode(), location=location)


@router.get(
    "",
    operation_id="list_restores",
    summary="List restores, newest first",
    response_model=RestoreList,
    responses=problem_responses("page-token-invalid"),
)
def list_restores(
    http: Request,
    _principal: RestoresReader,
    session: ReadSession,
    page: PageDep,
    state: Annotated[State | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    semantic: Annotated[
        Semantic | None, Query(description="what came of the question, once it is known")
    ] = None,
    drill: Annotated[
        bool | None, Query(description="true: with a fault put in on purpose only; false: without only")
    ] = None,
) -> Response:
    filters = RestoreFilters(state=state, outcome=outcome, semantic=semantic, drill=drill)
    rows = lists.list_restores(session, filters=filters, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    restores: list[RestoreSummary] = [resources.summary(row) for row in shown]
    total = TotalResource.model_validate(lists.count_restores(session, filters=filters))
    return conditional_json(http, RestoreList(restores=restores, next_page_token=token, total=total))


@router.get(
    "/{restore_id}",
    operation_id="get_restore",
    summary="One restore with its attempts, reports and history",
    response_model=RestoreResource,
    responses=problem_responses("not-found"),
)
def get_restore(
    restore_id: UUID, http: Request, _principal: RestoresReader, session: ReadSession
) -> Response:
    return conditional_json(http, _shown(session, restore_id=restore_id))


def _shown(session: Session, *, restore_id: UUID) -> RestoreResource:
    """The restore as a GET shows it now."""
    restore = request.get_restore(session, restore_id=restore_id)
    return resources.detail(
        restore,
        events=request.events(session, restore_id=restore_id),
        waiting_for=waiting_reasons(session, restore=restore),
        retried_by=request.retried_by(session, restore_id=restore_id),
        answer=request.answer_of(session, restore=restore),
    )


@router.post(
    "/{restore_id}/cancel",
    operation_id="cancel_restore",
    summary="Call a restore off: every rank gives its pages back",
    description=(
        "Answers with what has happened so far; follow `cancellation` of the restore: `requested`, "
        "`acknowledged` once every rank has been told, `stopped`. Once publish is decided it is too late "
        "(409, nothing is changed): discard instead. Asking again changes nothing."
    ),
    status_code=202,
    response_model=RestoreResource,
    responses=problem_responses("not-found", "cancel-too-late", "precondition-failed"),
)
def cancel_restore(
    restore_id: UUID,
    principal: RestoresWriter,
    session: WriteSession,
    if_match: IfMatchOptional,
    admission: AdmissionDep,
    body: CancelBody | None = None,
) -> RestoreResource:
    restore = cancellation.locked_restore(session, restore_id=restore_id)
    if if_match.sent:
        if_match.check(_shown(session, restore_id=restore_id))
    cancellation.request_cancel(
        session,
        restore=restore,
        by=principal.name,
        reason=body.reason if body else None,
        messages=admission.messages,
    )
    session.flush()
    admission.look_after(session)
    return _shown(session, restore_id=restore_id)


@router.post(
    "/{restore_id}/retry",
    operation_id="retry_restore",
    summary="Try a restore again that is over and not restored",
    description=(
        "Orders the same snapshot, layout and residency as a new restore with new attempts, planned on the "
        "nodes that are alive now. The old one stays as it ended; `retry_of` and `retried_by` link them. A "
        "restore is tried again once, and a chain of tries has an end (`SPARKGATE_TRY_LIMIT`)."
    ),
    status_code=202,
    response_model=RestoreResource,
    responses=problem_responses(
        "idempotency-key-missing",
        "idempotency-in-flight",
        "idempotency-key-reused",
        "not-found",
        "retry-refused",
        "already-retried",
        "tries-exhausted",
        "snapshot-incomplete",
        "devices-missing",
        "document-refused",
    ),
)
def retry_restore(
    restore_id: UUID,
    principal: RestoresWriter,
    key: IdempotencyKey,
    session: WriteSession,
    admission: AdmissionDep,
    settings: SettingsDep,
) -> Response:
    def produce() -> Answer:
        ordered = retry.retry_restore(session, restore_id=restore_id, by=principal.name, settings=settings)
        admission.look_after_order(session, ordered)
        return _accepted(ordered)

    fingerprint = f"POST /api/v1/restores/{restore_id}/retry\n".encode()
    return answer_once(session, principal=principal.name, key=key, request=fingerprint, produce=produce)


@router.post(
    "/{restore_id}/discard",
    operation_id="discard_restore",
    summary="Give the restored pages back on every rank",
    status_code=202,
    responses=problem_responses("not-found", "not-published"),
)
def discard_restore(
    restore_id: UUID,
    principal: RestoresWriter,
    session: WriteSession,
    if_match: IfMatchOptional,
    messages: MessagesDep,
    settings: SettingsDep,
) -> RestoreSummary:
    if if_match.sent:
        cancellation.locked_restore(session, restore_id=restore_id)
        if_match.check(_shown(session, restore_id=restore_id))
    restore = residency.discard(
        session, restore_id=restore_id, by=principal.name, messages=messages, settings=settings
    )
    return resources.summary(restore)


@router.post(
    "/{restore_id}/readbacks",
    operation_id="request_readback",
    summary="Read the published pages back on every rank and digest them by layer",
    status_code=202,
    response_model=ReadbackResource,
    responses=problem_responses(
        "not-found", "not-published", "gone", "idempotency-in-flight", "idempotency-key-reused"
    ),
)
def request_readback(
    restore_id: UUID,
    principal: RestoresWriter,
    key: IdempotencyKeyOptional,
    session: WriteSession,
    messages: MessagesDep,
    settings: SettingsDep,
) -> Response:
    def produce() -> Answer:
        row = readback.request_readback(
            session, restore_id=restore_id, by=principal.name, messages=messages, settings=settings
        )
        shown = resources.readback_resource(row)
        location = f"/api/v1/restores/{restore_id}/readbacks/{row.id}"
        return Answer(status=202, body=shown.model_dump_json().encode(), location=location)

    if key is None:
        return produce().response(replayed=False)
    fingerprint = f"POST /api/v1/restores/{restore_id}/readbacks\n".encode()
    return answer_once(session, principal=principal.name, key=key, request=fingerprint, produce=produce)


@router.get(
    "/{restore_id}/readbacks",
    operation_id="list_readbacks",
    summary="The readbacks of a restore, newest first",
    response_model=ReadbackList,
    responses=problem_responses("not-found"),
)
def list_readbacks(
    restore_id: UUID, http: Request, _principal: RestoresReader, session: ReadSession
) -> Response:
    rows = readback.list_readbacks(session, restore_id=restore_id)
    return conditional_json(http, ReadbackList(readbacks=[resources.readback_resource(row) for row in rows]))


@router.get(
    "/{restore_id}/readbacks/{readback_id}",
    operation_id="get_readback",
    summary="What the ranks have read back so far",
    response_model=ReadbackResource,
    responses=problem_responses("not-found"),
)
def get_readback(
    restore_id: UUID, readback_id: UUID, http: Request, _principal: RestoresReader, session: ReadSession
) -> Response:
    row = readback.get_readback(session, restore_id=restore_id, readback_id=readback_id)
    return conditional_json(http, resources.readback_resource(row))
