"""Routes of what people declare."""

from uuid import UUID

from fastapi import Request, Response

from app.core.qualify.values import Basis
from app.verdicts.schemas import (
    DeclarationBody,
    DeclarationList,
    DeclarationResource,
    DeclaredResource,
    VerdictSummary,
)
from app.verdicts.service import declarations
from app.verdicts.service.declare import declare
from app.web.deps import ImagesReader, ImagesWriter, ReadSession, SettingsDep, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import TotalResource

router = ApiRouter(prefix="/api/v1/declarations", tags=["verdicts"])


@router.post(
    "",
    operation_id="declare_receipts",
    summary="Declare that receipts are meant for qualification",
    description=(
        "Written down with your name, the time and the reason. It stands in where a document claims nothing; "
        "it raises no claim, and the rules still decide: `changed` says what they made of it."
    ),
    status_code=201,
    responses=problem_responses("not-found"),
)
def declare_receipts(
    body: DeclarationBody,
    response: Response,
    principal: ImagesWriter,
    session: WriteSession,
    settings: SettingsDep,
) -> DeclaredResource:
    row, changed = declare(
        session,
        reason=body.reason,
        digests=body.receipts,
        capability=body.capability,
        by=principal.name,
        grade=Basis(settings.deployable_grade),
    )
    response.headers["Location"] = f"/api/v1/declarations/{row.id}"
    return DeclaredResource(
        **DeclarationResource.model_validate(row).model_dump(),
        changed=[VerdictSummary.model_validate(one) for one in changed],
    )


@router.get(
    "",
    operation_id="list_declarations",
    summary="List declarations, newest first",
    response_model=DeclarationList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_declarations(
    request: Request, _principal: ImagesReader, session: ReadSession, page: PageDep
) -> Response:
    rows = declarations.list_declarations(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    listed = [DeclarationResource.model_validate(row) for row in shown]
    total = TotalResource.model_validate(declarations.count_declarations(session))
    return conditional_json(request, DeclarationList(declarations=listed, next_page_token=token, total=total))


@router.get(
    "/{declaration_id}",
    operation_id="get_declaration",
    summary="One declaration",
    response_model=DeclarationResource,
    responses=problem_responses("not-found"),
)
def get_declaration(
    declaration_id: UUID, request: Request, _principal: ImagesReader, session: ReadSession
) -> Response:
    row = declarations.get_declaration(session, declaration_id=declaration_id)
    return conditional_json(request, DeclarationResource.model_validate(row))
