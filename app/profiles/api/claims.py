"""Routes of claims: who says what about a document, and what it changes."""

from typing import Annotated

from fastapi import Query, Request, Response

from app.core.profiles.documents import DocumentKind
from app.profiles import service
from app.profiles.api.shown import claim_resource
from app.profiles.schemas import ClaimList
from app.profiles.service.claims import claims_about, list_claims
from app.web.deps import ProfilesReader, ReadSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, Total, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/profiles/claims", tags=["profiles"])


@router.get(
    "",
    operation_id="list_claims",
    summary="List claims, newest first, with what each changes",
    description=(
        "A claim is a document of its own, sent to `/api/v1/profiles/documents` or `/api/v1/receipts`. The "
        "document it speaks of stays as it is. With `subject`, all claims about one document."
    ),
    response_model=ClaimList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_all_claims(
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    page: PageDep,
    subject: Annotated[Hex64 | None, Query(description="SHA-256 of the document spoken of")] = None,
) -> Response:
    if subject is not None:
        shown, token = claims_about(session, subject_sha256=subject), ""
        total = Total(count=len(shown), is_exact=True)
    else:
        found = list_claims(session, after=page.after, limit=page.size + 1)
        listed, token = next_token(page, found)
        shown = list(listed)
        total = service.count_documents(session, kind=DocumentKind.CLAIM, text=None)
    claims = ClaimList(
        claims=[claim_resource(one) for one in shown],
        next_page_token=token,
        total=TotalResource.model_validate(total),
    )
    return conditional_json(request, claims)
