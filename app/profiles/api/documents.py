"""Routes of documents: taken in, listed, given back."""

from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request, Response

from app.core.profiles.documents import MAX_DOCUMENT_BYTES, DocumentKind
from app.core.qualify.values import Basis
from app.profiles import service
from app.profiles.schemas import (
    AddedProfileDocument,
    ProfileDocumentList,
    ProfileDocumentResource,
    ProfileDocumentSummary,
)
from app.profiles.service import Place
from app.receipts.schemas import Commit, RepositoryName, RepositoryPath
from app.web.auth import Scope, check_scope
from app.web.body import raw_body
from app.web.deps import ProfilesReader, ProfilesWriter, ReadSession, SettingsDep, WriteSession
from app.web.etag import conditional_json
from app.web.kept_bytes import BYTES_ANSWER, kept_bytes
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/profiles/documents", tags=["profiles"])

EXAMPLE: Final = {"schema": "sparkgate-overlay-anchors/v1", "files": {"profiles/verify_profile.py": "0" * 64}}
TEMPLATE: Final = "TENSOR_PARALLEL_SIZE=4\nDECODE_CONTEXT_PARALLEL_SIZE=4\n"
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "The document, byte for byte: JSON, or the lines of a template",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": EXAMPLE},
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": TEMPLATE,
            },
        },
    }
}


def document_place(
    path: Annotated[
        RepositoryPath | None, Query(description="where it stands; a template is found by its last part")
    ] = None,
    repository: Annotated[RepositoryName | None, Query(description="the repository of `path`")] = None,
    commit: Annotated[Commit | None, Query(description="the commit it was read at")] = None,
) -> Place | None:
    """The place a document is submitted from; None where it has none."""
    return service.place(path=path, repository=repository, commit=commit)


@router.post(
    "",
    operation_id="add_profile_document",
    summary="Take a document in",
    description=(
        "The body is the document, byte for byte, at most 16 MiB. Its schema says of which kind it is; a "
        "template has none and needs `kind=template`. What is evidence too (activations, image receipts, "
        "publications, claims, drills) becomes a receipt and is judged at once, as if it had been sent to "
        "`/api/v1/receipts`, and needs `receipts:append` besides. The same bytes again are the same document "
        "(200)."
    ),
    status_code=201,
    responses={
        200: {"model": AddedProfileDocument, "description": "Already there"},
        **problem_responses("document-refused", "document-holds-secret", "content-too-large", "refused"),
    },
    openapi_extra=_BODY,
)
def add_profile_document(
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=MAX_DOCUMENT_BYTES))],
    place: Annotated[Place | None, Depends(document_place)],
    response: Response,
    principal: ProfilesWriter,
    session: WriteSession,
    settings: SettingsDep,
    kind: Annotated[DocumentKind | None, Query(description="the kind it must be of")] = None,
) -> AddedProfileDocument:
    document = service.read_bytes(raw, kind=kind, name="" if place is None else place.path)
    if service.is_evidence(document):
        check_scope(principal, scope=Scope.RECEIPTS_APPEND)
    made = service.add_document(
        session,
        raw=raw,
        document=document,
        place=place,
        by=principal.name,
        grade=Basis(settings.deployable_grade),
    )
    response.status_code = 201 if made.created else 200
    response.headers["Location"] = f"/api/v1/profiles/documents/{document.sha256}"
    shown = ProfileDocumentSummary.model_validate(made.document)
    return AddedProfileDocument(**shown.model_dump(), changed=made.changed)


@router.get(
    "",
    operation_id="list_profile_documents",
    summary="List documents, newest first",
    response_model=ProfileDocumentList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_profile_documents(
    request: Request,
    _principal: ProfilesReader,
    session: ReadSession,
    page: PageDep,
    kind: Annotated[DocumentKind | None, Query(description="kind of document")] = None,
    text: Annotated[
        str | None, Query(max_length=200, pattern=r"^[^\x00]+$", description="a part of its title")
    ] = None,
) -> Response:
    found = service.list_documents(session, kind=kind, text=text, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, found)
    listed = ProfileDocumentList(
        documents=[ProfileDocumentSummary.model_validate(one) for one in shown],
        next_page_token=token,
        total=TotalResource.model_validate(service.count_documents(session, kind=kind, text=text)),
    )
    return conditional_json(request, listed)


@router.get(
    "/{sha256}",
    operation_id="get_profile_document",
    summary="One document with what was read in it",
    response_model=ProfileDocumentResource,
    responses=problem_responses("not-found", "document-refused"),
)
def get_profile_document(
    sha256: Hex64, request: Request, _principal: ProfilesReader, session: ReadSession
) -> Response:
    stored = service.get_document(session, sha256=sha256)
    summary = ProfileDocumentSummary.model_validate(stored)
    value = service.shown_value(session, document=stored)
    return conditional_json(request, ProfileDocumentResource(**summary.model_dump(), value=value))


@router.get(
    "/{sha256}/document",
    operation_id="get_profile_document_bytes",
    summary="The bytes of a document as they were submitted",
    description="The ETag is the SHA-256 of the bytes; they never change.",
    response_class=Response,
    responses={
        200: BYTES_ANSWER,
        **problem_responses("not-found"),
    },
)
def get_profile_document_bytes(
    sha256: Hex64, request: Request, _principal: ProfilesReader, session: ReadSession
) -> Response:
    stored = service.get_document(session, sha256=sha256)
    raw = service.raw_bytes(session, sha256=sha256)
    return kept_bytes(request, raw, sha256=sha256, file_name=service.file_name(stored))
