"""Routes of exceptions: operational restores of an image that is not deployable, until a time."""

from uuid import UUID

from fastapi import Request, Response

from app.verdicts.schemas import ExceptionBody, ExceptionEndBody, ExceptionList, ExceptionResource
from app.verdicts.service import allowed
from app.verdicts.service.allowed import SnapshotScope
from app.web.deps import ImagesReader, ReadSession, RestoresWriter, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import TotalResource

router = ApiRouter(prefix="/api/v1/exceptions", tags=["verdicts"])


@router.post(
    "",
    operation_id="grant_exception",
    summary="Allow operational restores of an image that is not deployable",
    description="For exactly one image and scope, with your name and a reason, for 30 days at most.",
    status_code=201,
    responses=problem_responses("refused"),
)
def grant_exception(
    body: ExceptionBody, response: Response, principal: RestoresWriter, session: WriteSession
) -> ExceptionResource:
    row = allowed.grant_exception(
        session,
        image_config_id=body.image_config_id,
        scope=SnapshotScope(**body.scope.model_dump()),
        reason=body.reason,
        expires_at=body.expires_at,
        by=principal.name,
    )
    response.headers["Location"] = f"/api/v1/exceptions/{row.id}"
    return ExceptionResource.model_validate(row)


@router.get(
    "",
    operation_id="list_exceptions",
    summary="List exceptions, newest first, expired ones too",
    response_model=ExceptionList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_exceptions(
    request: Request, _principal: ImagesReader, session: ReadSession, page: PageDep
) -> Response:
    rows = allowed.list_exceptions(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    listed = [ExceptionResource.model_validate(row) for row in shown]
    total = TotalResource.model_validate(allowed.count_exceptions(session))
    return conditional_json(request, ExceptionList(exceptions=listed, next_page_token=token, total=total))


@router.get(
    "/{exception_id}",
    operation_id="get_exception",
    summary="One exception",
    response_model=ExceptionResource,
    responses=problem_responses("not-found"),
)
def get_exception(
    exception_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession
) -> Response:
    row = allowed.get_exception(session, exception_id=exception_id)
    return conditional_json(request, ExceptionResource.model_validate(row))


@router.post(
    "/{exception_id}/end",
    operation_id="end_exception",
    summary="End an exception before its time",
    description="Restores it has allowed already go on; the next one is refused. It cannot be taken back.",
    responses=problem_responses("not-found", "conflict"),
)
def end_exception(
    exception_id: UUID, body: ExceptionEndBody, principal: RestoresWriter, session: WriteSession
) -> ExceptionResource:
    row = allowed.end_exception(session, exception_id=exception_id, reason=body.reason, by=principal.name)
    return ExceptionResource.model_validate(row)
