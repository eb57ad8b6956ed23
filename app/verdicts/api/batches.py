"""The route that takes several receipts at once: for imports."""

from app.core.base64_text import decode_base64
from app.core.errors import FormatError
from app.core.qualify.document import MAX_RECEIPT_BYTES
from app.core.qualify.values import Basis
from app.errors import FieldProblem, Refused
from app.receipts.service import Origin, Submission
from app.verdicts.api.receipts import read_facts
from app.verdicts.schemas import (
    BatchedDocument,
    BatchedReceipt,
    BatchedReceipts,
    BatchProblem,
    ProblemPart,
    ReceiptBatch,
)
from app.verdicts.service.batches import Taken, take_in
from app.web.deps import DatabaseDep, ReceiptsAppender, SettingsDep
from app.web.members import ApiRouter
from app.web.problems import problem_responses

router = ApiRouter(prefix="/api/v1/receipts", tags=["receipts"])


@router.post(
    "/batch",
    operation_id="append_receipts",
    summary="Take several evidence documents in and judge them together",
    description=(
        "As `POST /api/v1/receipts` for each, in one transaction: what is refused is named in its place and "
        "keeps none of the others out. A receipt gets the one verdict that all of them together make."
    ),
    responses=problem_responses("validation-failed", "content-too-large"),
)
def append_receipts(
    body: ReceiptBatch, database: DatabaseDep, principal: ReceiptsAppender, settings: SettingsDep
) -> BatchedReceipts:
    answers: list[BatchedReceipt | None] = []
    submissions: list[Submission] = []
    for one in body.documents:
        read = _read(one)
        answers.append(None if isinstance(read, Submission) else read)
        if isinstance(read, Submission):
            submissions.append(read)
    grade = Basis(settings.deployable_grade)
    taken = iter(take_in(database, submissions=submissions, by=principal.name, grade=grade))
    return BatchedReceipts(receipts=[one or _answer(next(taken)) for one in answers])


def _read(one: BatchedDocument) -> Submission | BatchedReceipt:
    try:
        raw = decode_base64(one.document, subject="document")
    except FormatError as error:
        return _refused(422, code="document-refused", detail=str(error))
    if len(raw) > MAX_RECEIPT_BYTES:
        detail = f"document: expected at most {MAX_RECEIPT_BYTES} bytes, found {len(raw)}"
        return _refused(413, code="content-too-large", detail=detail)
    try:
        return Submission(raw=raw, facts=read_facts(raw), origin=_origin(one))
    except Refused as error:
        return _refused(422, code=error.code, detail=str(error), errors=error.errors)


def _origin(one: BatchedDocument) -> Origin | None:
    if one.repository is None or one.path is None:
        return None
    return Origin(
        repository=one.repository,
        path=one.path,
        commit=one.commit or "",
        committed_at=one.committed_at,
    )


def _answer(taken: Taken | None) -> BatchedReceipt:
    if taken is None:
        return _refused(500, code="internal-error", detail="the document could not be kept or judged")
    return BatchedReceipt.model_validate(
        {
            "status": 201 if taken.created else 200,
            "sha256": taken.sha256,
            "capability": taken.capability,
            "outcome": taken.outcome,
            "problem": None,
        }
    )


def _refused(status: int, *, code: str, detail: str, errors: tuple[FieldProblem, ...] = ()) -> BatchedReceipt:
    parts = [ProblemPart(pointer=one.pointer, detail=one.detail) for one in errors]
    problem = BatchProblem(code=code, detail=detail, errors=parts)
    return BatchedReceipt(status=status, sha256=None, capability=None, outcome=None, problem=problem)
