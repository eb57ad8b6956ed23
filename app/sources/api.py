"""Routes of source identities."""

from uuid import UUID

from fastapi import Request, Response

from app.core.errors import FormatError
from app.core.source_identity import SourceIdentity, WrongKindError
from app.errors import FieldProblem, Refused
from app.sources import service
from app.sources.schemas import SourceBody, SourceList, SourceResource
from app.web.deps import ImagesReader, ImagesWriter, ReadSession, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import TotalResource

router = ApiRouter(prefix="/api/v1/sources", tags=["sources"])


def _identity(body: SourceBody) -> SourceIdentity:
    try:
        return SourceIdentity.of(
            repository=body.repository,
            commit=body.commit,
            tree=body.tree,
            source_sha256=body.source_sha256,
        )
    except FormatError as error:
        code = "digests-mixed" if isinstance(error, WrongKindError) else "validation-failed"
        pointer = f"/{error.subject}" if error.subject in SourceBody.model_fields else ""
        part = FieldProblem(pointer=pointer, detail=f"expected {error.expected}, found {error.found}")
        raise Refused(str(error), code=code, errors=(part,)) from None


@router.post(
    "",
    operation_id="register_source",
    summary="Register a source identity",
    status_code=201,
    responses={
        200: {"model": SourceResource, "description": "Already there"},
        **problem_responses("digests-mixed", "source-dirty"),
    },
)
def register_source(
    body: SourceBody, response: Response, principal: ImagesWriter, session: WriteSession
) -> SourceResource:
    row, created = service.register_source(
        session, identity=_identity(body), dirty=body.dirty, by=principal.name
    )
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/api/v1/sources/{row.id}"
    return SourceResource.model_validate(row)


@router.get(
    "",
    operation_id="list_sources",
    summary="List source identities, newest first",
    response_model=SourceList,
    responses=problem_responses("page-token-invalid"),
)
def list_sources(request: Request, _principal: ImagesReader, session: ReadSession, page: PageDep) -> Response:
    rows = service.list_sources(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    sources = [SourceResource.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_sources(session))
    return conditional_json(request, SourceList(sources=sources, next_page_token=token, total=total))


@router.get(
    "/{source_id}",
    operation_id="get_source",
    summary="One source identity",
    response_model=SourceResource,
    responses=problem_responses("not-found"),
)
def get_source(source_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession) -> Response:
    row = service.get_source(session, source_id=source_id)
    return conditional_json(request, SourceResource.model_validate(row))
