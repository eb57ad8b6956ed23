"""Routes of receipts that judge: taking one in, and showing one with its facts and verdicts."""

from datetime import datetime
from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from app.core.errors import DocumentError
from app.core.qualify.document import MAX_RECEIPT_BYTES
from app.core.qualify.facts import DocumentFacts
from app.core.qualify.serialise import facts_document
from app.core.qualify.values import Basis
from app.errors import FieldProblem, Refused
from app.receipts import service as receipts
from app.receipts.schemas import Commit, ReceiptSummary, RepositoryName, RepositoryPath
from app.receipts.service import Origin
from app.receipts.service.stored import facts_of, facts_of_bytes
from app.verdicts.schemas import AppendedReceipt, ReceiptResource, VerdictSummary
from app.verdicts.service import current
from app.verdicts.service.submit import submit
from app.web.body import json_document, raw_body
from app.web.deps import ImagesReader, ReadSession, ReceiptsAppender, SettingsDep, WriteSession
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.problems import problem_responses
from app.web.schemas import Hex64

router = ApiRouter(prefix="/api/v1/receipts", tags=["receipts"])

EXAMPLE: Final = {"schema": "sparkgate-restore-receipt/v1", "restore_id": "7e1c0000", "ranks": []}


def receipt_origin(
    repository: Annotated[
        RepositoryName | None, Query(description="where the document stands, with `path`")
    ] = None,
    path: Annotated[RepositoryPath | None, Query(description="its path in the repository")] = None,
    commit: Annotated[Commit | None, Query(description="the commit it was read at")] = None,
    committed_at: Annotated[
        datetime | None, Query(description="orders the versions of one path; else the order they come in")
    ] = None,
) -> Origin | None:
    """The place a document is submitted from; None where it has none.

    Raises:
        Refused: a repository without a path, or the other way round.
    """
    if repository is None and path is None and commit is None and committed_at is None:
        return None
    if repository is None or path is None:
        missing = "repository" if repository is None else "path"
        detail = f"{missing}: expected beside the rest of the place, found none"
        raise Refused(detail, errors=(FieldProblem(pointer=f"/{missing}", detail=detail),))
    return Origin(repository=repository, path=path, commit=commit or "", committed_at=committed_at)


def read_facts(raw: bytes) -> DocumentFacts:
    """The facts of submitted bytes.

    Raises:
        Refused: they are no strict JSON document; pointer and byte are named.
    """
    try:
        return facts_of_bytes(raw)
    except DocumentError as error:
        part = FieldProblem(
            pointer=error.pointer,
            detail=f"byte {error.offset}: expected {error.expected}, found {error.found}",
        )
        raise Refused(str(error), code="document-refused", errors=(part,)) from None


@router.post(
    "",
    operation_id="append_receipt",
    summary="Take an evidence document in and judge it",
    description=(
        "The body is the document, byte for byte, at most 4 MiB of strict JSON. It is kept under its SHA-256 "
        "and judged at once, with everything it bears on. The same bytes again are the same receipt (200)."
    ),
    status_code=201,
    responses={
        200: {"model": AppendedReceipt, "description": "Already there"},
        **problem_responses("document-refused", "content-too-large", "refused"),
    },
    openapi_extra=json_document("An evidence document", example=EXAMPLE),
)
def append_receipt(
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=MAX_RECEIPT_BYTES))],
    origin: Annotated[Origin | None, Depends(receipt_origin)],
    response: Response,
    principal: ReceiptsAppender,
    session: WriteSession,
    settings: SettingsDep,
) -> AppendedReceipt:
    facts = read_facts(raw)
    made = submit(
        session,
        raw=raw,
        facts=facts,
        origin=origin,
        by=principal.name,
        grade=Basis(settings.deployable_grade),
    )
    response.status_code = 201 if made.created else 200
    response.headers["Location"] = f"/api/v1/receipts/{facts.sha256}"
    verdicts = current.verdicts_of_receipt(session, sha256=facts.sha256)
    receipt = receipts.get_receipt(session, sha256=facts.sha256)
    return AppendedReceipt(
        **ReceiptSummary.model_validate(receipt).model_dump(),
        verdicts=[VerdictSummary.model_validate(row) for row in verdicts],
        changed=len(made.changed),
    )


@router.get(
    "/{sha256}",
    operation_id="get_receipt",
    summary="One receipt with its facts and verdicts",
    response_model=ReceiptResource,
    responses=problem_responses("not-found"),
)
def get_receipt(sha256: Hex64, request: Request, _principal: ImagesReader, session: ReadSession) -> Response:
    receipt = receipts.get_receipt(session, sha256=sha256)
    verdicts = current.verdicts_of_receipt(session, sha256=sha256)
    facts = facts_of(session, digests=[sha256])[sha256]
    shown = ReceiptResource(
        **ReceiptSummary.model_validate(receipt).model_dump(),
        verdicts=[VerdictSummary.model_validate(row) for row in verdicts],
        facts=facts_document(facts),
    )
    return conditional_json(request, shown)
