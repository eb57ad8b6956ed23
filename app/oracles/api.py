"""Routes of oracle questions."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from app.core.canonical_json import decode_canonical, expect_object
from app.models import OracleQuestionRow
from app.oracles import service
from app.oracles.schemas import OracleDetail, OracleList, OracleSummary
from app.web.body import json_document, raw_body
from app.web.deps import ReadSession, RestoresReader, RestoresWriter, WriteSession
from app.web.etag import conditional, conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/oracles", tags=["oracles"])

LARGEST_BYTES: Final = 64 * 1024
EXAMPLE: Final = {
    "block_tokens": 64,
    "context_digest": "5284f484" + "0" * 56,
    "control": "blue",
    "dtype": "float16",
    "expected": "red",
    "fallback": "spark",
    "generation": 1,
    "head_dim": 64,
    "heads": 8,
    "key_layer": "model.layers.000.oracle_attn.k_cache",
    "layout_sha256": "18ca72f5" + "0" * 56,
    "mark_offset": 26,
    "needle_line": 1104,
    "ranks": 4,
    "rope_base": 10000,
    "schema": "sparkgate-oracle/v1",
    "seed": 0,
    "sharpness": 6,
    "span_tokens": 131072,
    "value_layer": "model.layers.000.oracle_attn.v_cache",
    "window_tokens": 1024,
    "words": ["red", "blue", "green", "black", "white", "spark"],
}


def _detail(row: OracleQuestionRow) -> OracleDetail:
    subject = f"oracle {row.sha256}"
    document = expect_object(decode_canonical(row.document, subject=subject), subject=subject)
    return OracleDetail(**OracleSummary.model_validate(row).model_dump(), document=document)


@router.post(
    "",
    operation_id="register_oracle",
    summary="Register a question that restores of a snapshot are asked",
    description=(
        "From now on every restore of this token prefix with this layout and as many ranks is asked the "
        "question before its pages are published, unless its order says otherwise. The same bytes again are "
        "the same question."
    ),
    status_code=201,
    responses={
        200: {"model": OracleDetail, "description": "Already there"},
        **problem_responses("document-refused", "content-too-large"),
    },
    openapi_extra=json_document("An oracle question (docs/FORMAT.md), spelled canonically", example=EXAMPLE),
)
def register_oracle(
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=LARGEST_BYTES))],
    response: Response,
    principal: RestoresWriter,
    session: WriteSession,
) -> OracleDetail:
    row, created = service.register_question(session, raw=raw, by=principal.name)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/api/v1/oracles/{row.sha256}"
    return _detail(row)


@router.get(
    "",
    operation_id="list_oracles",
    summary="List questions, newest first",
    response_model=OracleList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_oracles(
    request: Request,
    _principal: RestoresReader,
    session: ReadSession,
    page: PageDep,
    context_digest: Annotated[Hex64 | None, Query(description="only those about this token prefix")] = None,
) -> Response:
    rows = service.list_questions(
        session, context_digest=context_digest, after=page.after, limit=page.size + 1
    )
    shown, token = next_token(page, rows)
    oracles = [OracleSummary.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_questions(session, context_digest=context_digest))
    return conditional_json(request, OracleList(oracles=oracles, next_page_token=token, total=total))


@router.get(
    "/{sha256}",
    operation_id="get_oracle",
    summary="One question",
    response_model=OracleDetail,
    responses=problem_responses("not-found"),
)
def get_oracle(sha256: Hex64, request: Request, _principal: RestoresReader, session: ReadSession) -> Response:
    return conditional_json(request, _detail(service.get_question(session, sha256=sha256)))


@router.get(
    "/{sha256}/document",
    operation_id="get_oracle_document",
    summary="The question itself, byte for byte",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **problem_responses("not-found"),
    },
)
def get_oracle_document(
    sha256: Hex64, request: Request, _principal: RestoresReader, session: ReadSession
) -> Response:
    row = service.get_question(session, sha256=sha256)
    return conditional(request, row.document, media_type="application/json", fixed=True)
