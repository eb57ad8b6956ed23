"""Routes of receipts that need no verdict: the list, and the bytes. Taking them in judges: `app/verdicts`."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from app.core.qualify.facts import Capability, Kind
from app.ledger.api import EXACT_TO_READ, SIGNED_EXAMPLE, TEXT, SignerDep
from app.ledger.service import proofs
from app.receipts import service
from app.receipts.schemas import ReceiptList, ReceiptSummary
from app.receipts.service import ReceiptFilter
from app.web.deps import EvidenceExporter, ImagesReader, ReadSession, WriteSession
from app.web.etag import conditional, conditional_json
from app.web.kept_bytes import BYTES_ANSWER, kept_bytes
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, TotalResource

router = ApiRouter(prefix="/api/v1/receipts", tags=["receipts"])


def receipt_filter(
    image: Annotated[Hex64 | None, Query(description="config id of the image it is about")] = None,
    kind: Annotated[Kind | None, Query(description="kind of document")] = None,
    schema_name: Annotated[str | None, Query(max_length=200, description="the schema as written")] = None,
    capability: Annotated[Capability | None, Query(description="what its schema speaks about")] = None,
) -> ReceiptFilter:
    return ReceiptFilter(image_config_id=image, kind=kind, schema_name=schema_name, capability=capability)


@router.get(
    "",
    operation_id="list_receipts",
    summary="List receipts, newest first",
    response_model=ReceiptList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_receipts(
    request: Request,
    _principal: ImagesReader,
    session: ReadSession,
    page: PageDep,
    wanted: Annotated[ReceiptFilter, Depends(receipt_filter)],
) -> Response:
    rows = service.list_receipts(session, wanted=wanted, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    receipts = [ReceiptSummary.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_receipts(session, wanted=wanted))
    return conditional_json(request, ReceiptList(receipts=receipts, next_page_token=token, total=total))


@router.get(
    "/{sha256}/document",
    operation_id="get_receipt_document",
    summary="The bytes of a receipt as they were submitted",
    description="The ETag is the SHA-256 of the bytes; they never change.",
    response_class=Response,
    responses={
        200: BYTES_ANSWER,
        **problem_responses("not-found"),
    },
)
def get_receipt_document(
    sha256: Hex64, request: Request, _principal: ImagesReader, session: ReadSession
) -> Response:
    raw = service.raw_bytes(session, sha256=sha256)
    return kept_bytes(request, raw, sha256=sha256, file_name=f"{sha256}.json")


@router.get(
    "/{sha256}/proof",
    operation_id="prove_receipt",
    summary="Proof that a receipt is in the ledger (C2SP tlog-proof), verifiable offline",
    description="The entry it proves names the receipt and its digest: `GET /api/v1/ledger/entries/{index}`.",
    response_class=Response,
    responses={
        200: {
            "description": "A .tlog-proof file",
            "content": {
                "text/plain": {
                    "schema": {"type": "string"},
                    "example": f"c2sp.org/tlog-proof@v1\nindex 0\n\n{SIGNED_EXAMPLE}",
                }
            },
        },
        **problem_responses("not-found", "ledger-out-of-range", "ledger-key-missing", "ledger-inconsistent"),
    },
)
def prove_receipt(
    sha256: Hex64,
    request: Request,
    _principal: EvidenceExporter,
    session: WriteSession,
    signer: SignerDep,
    size: Annotated[
        int | None,
        Query(ge=0, json_schema_extra=EXACT_TO_READ, description="tree size; the log's size if not given"),
    ] = None,
) -> Response:
    index = service.leaf_of_receipt(session, sha256=sha256)
    text = proofs.inclusion(session, index=index, size=size, signer=signer)
    return conditional(request, text, media_type=TEXT, fixed=size is not None)
