"""Routes of layouts."""

from typing import Annotated, Final

from fastapi import Depends, Request, Response

from app.core.canonical_json import decode_canonical
from app.layouts import service
from app.layouts.schemas import LayoutDetail, LayoutList, LayoutSummary
from app.models import Layout
from app.web.body import json_document, raw_body
from app.web.deps import ReadSession, RestoresReader, RestoresWriter, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/layouts", tags=["layouts"])

LARGEST_BYTES: Final = 4 * 1024 * 1024
EXAMPLE: Final = {
    "groups": [
        {
            "block_size": 64,
            "layers": [
                {
                    "name": "model.layers.0.self_attn.attn",
                    "dtype": "torch.uint8",
                    "page_shape": [1, 1536],
                    "bytes_per_page": 1536,
                }
            ],
            "reuse_policy": "full",
            "reuse_window_tokens": None,
        }
    ]
}


def _detail(row: Layout) -> LayoutDetail:
    document = decode_canonical(row.document, subject=f"layout {row.sha256}")
    return LayoutDetail.model_validate(
        {**LayoutSummary.model_validate(row).model_dump(), "document": document}
    )


@router.post(
    "",
    operation_id="register_layout",
    summary="Register a page layout",
    status_code=201,
    responses={
        200: {"model": LayoutDetail, "description": "Already there"},
        **problem_responses("document-refused", "content-too-large"),
    },
    openapi_extra=json_document("A page layout (docs/FORMAT.md)", example=EXAMPLE),
)
def register_layout(
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=LARGEST_BYTES))],
    response: Response,
    principal: RestoresWriter,
    session: WriteSession,
) -> LayoutDetail:
    row, created = service.register_layout(session, raw=raw, by=principal.name)
    response.status_code = 201 if created else 200
    response.headers["Location"] = f"/api/v1/layouts/{row.sha256}"
    return _detail(row)


@router.get(
    "",
    operation_id="list_layouts",
    summary="List layouts, newest first",
    response_model=LayoutList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_layouts(
    request: Request, _principal: RestoresReader, session: ReadSession, page: PageDep
) -> Response:
    rows = service.list_layouts(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    layouts = [LayoutSummary.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_layouts(session))
    return conditional_json(request, LayoutList(layouts=layouts, next_page_token=token, total=total))


@router.get(
    "/{sha256}",
    operation_id="get_layout",
    summary="One layout",
    response_model=LayoutDetail,
    responses=problem_responses("not-found"),
)
def get_layout(sha256: Hex64, request: Request, _principal: RestoresReader, session: ReadSession) -> Response:
    return conditional_json(request, _detail(service.get_layout(session, sha256=sha256)))
