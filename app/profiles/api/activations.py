"""Routes of activations: judged without being kept, and those that are stored."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from app.core.profiles.activation_terms import RuleSet
from app.core.profiles.documents import DocumentKind
from app.core.qualify.document import MAX_RECEIPT_BYTES
from app.profiles import service
from app.profiles.api.shown import activation_resource
from app.profiles.schemas import ActivationList, ActivationResource
from app.profiles.service.activations import judge_bytes, judge_stored
from app.web.body import json_document, raw_body
from app.web.deps import ProfilesReader, ReadSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import Page, PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/profiles/activations", tags=["profiles"])

EXAMPLE: Final = {"schema": "sparkring-r33-activation-receipt/v1", "profile": "tp4-dcp4-sparkcache"}
# A page of judged activations is work: fewer than of rows that are only read.
MOST_JUDGED: Final = 50


@router.post(
    "/judge",
    operation_id="judge_activation",
    summary="Judge an activation; nothing is kept",
    description=(
        "The body is the document, byte for byte, at most 4 MiB. It is judged against a stored contract: the "
        "one asked for, or the one it names. To keep it, send it to `/api/v1/profiles/documents`."
    ),
    responses=problem_responses("document-refused", "document-unknown", "not-found", "content-too-large"),
    openapi_extra=json_document("An activation", example=EXAMPLE),
)
def judge_activation(
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=MAX_RECEIPT_BYTES))],
    _principal: ProfilesReader,
    session: ReadSession,
    contract: Annotated[
        Hex64 | None, Query(description="SHA-256 of the contract; else the one named")
    ] = None,
    pinned: Annotated[
        bool | None, Query(description="whether a release pins it; else whether a stored selection does")
    ] = None,
    rules: Annotated[RuleSet, Query(description="the published rules, or those and ours")] = RuleSet.STRICT,
) -> ActivationResource:
    judged = judge_bytes(session, raw=raw, contract_sha256=contract, pinned=pinned, rules=rules)
    return activation_resource(judged)


@router.get(
    "",
    operation_id="list_activations",
    summary="List the stored activations with what the rules say of each, newest first",
    response_model=ActivationList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_activations(
    request: Request, _principal: ProfilesReader, session: ReadSession, page: PageDep
) -> Response:
    kind, size = DocumentKind.ACTIVATION, min(page.size, MOST_JUDGED)
    small = Page(size=size, after=page.after, secret=page.secret, scope=page.scope)
    found = service.list_documents(session, kind=kind, text=None, after=page.after, limit=size + 1)
    shown, token = next_token(small, found)
    judged = [judge_stored(session, sha256=one.sha256) for one in shown]
    listed = ActivationList(
        activations=[activation_resource(one) for one in judged],
        next_page_token=token,
        total=TotalResource.model_validate(service.count_documents(session, kind=kind, text=None)),
    )
    return conditional_json(request, listed)


@router.get(
    "/{sha256}",
    operation_id="get_activation",
    summary="One stored activation, judged by all rules",
    response_model=ActivationResource,
    responses=problem_responses("not-found", "document-refused", "document-unknown"),
)
def get_activation(
    sha256: Hex64,
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    contract: Annotated[
        Hex64 | None, Query(description="SHA-256 of the contract; else the one named")
    ] = None,
) -> Response:
    judged = judge_stored(session, sha256=sha256, contract_sha256=contract)
    return conditional_json(request, activation_resource(judged))
