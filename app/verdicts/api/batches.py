"""The route that takes several receipts at once: for imports."""

from datetime import datetime
from typing import Final, Self

from fastapi import APIRouter
from pydantic import Field, model_validator

from app.core.base64_text import decode_base64
from app.core.errors import FormatError
from app.core.qualify.document import MAX_RECEIPT_BYTES
from app.core.qualify.values import Basis
from app.errors import FieldProblem, Refused
from app.receipts.schemas import Commit, RepositoryName, RepositoryPath
from app.receipts.service import Origin, Submission
from app.verdicts.api.receipts import read_facts
from app.verdicts.schemas import OutcomeName
from app.verdicts.service.batches import Taken, take_in
from app.web.deps import DatabaseDep, ReceiptsAppender, SettingsDep
from app.web.problems import problem_responses
from app.web.schemas import Body, Resource

router = APIRouter(prefix="/api/v1/receipts", tags=["receipts"])

MOST_OF_A_BATCH: Final = 64
_EXAMPLE: Final = "eyJzY2hlbWEiOiAic3BhcmtnYXRlLXJlc3RvcmUtcmVjZWlwdC92MSJ9"


class BatchedDocument(Body):
    """A document, byte for byte, and where it stood."""

    document: str = Field(description="the bytes in base64", examples=[_EXAMPLE])
    repository: RepositoryName | None = None
    path: RepositoryPath | None = None
    commit: Commit | None = None
    committed_at: datetime | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _place_is_whole(self) -> Self:
        if (self.repository is None) != (self.path is None):
            raise ValueError("repository and path: expected both or neither")
        return self

    def origin(self) -> Origin | None:
        """Its place, if it has one."""
        if self.repository is None or self.path is None:
            return None
        return Origin(
            repository=self.repository,
            path=self.path,
            commit=self.commit or "",
            committed_at=self.committed_at,
        )


class ReceiptBatch(Body):
    """Documents in the order in which they count as versions of one path."""

    documents: list[BatchedDocument] = Field(min_length=1, max_length=MOST_OF_A_BATCH)


class ProblemPart(Resource):
    pointer: str
    detail: str


class BatchProblem(Resource):
    """Why a document is not in, with the code that it would have had alone."""

    code: str
    detail: str
    errors: list[ProblemPart] = Field(default_factory=list)


class BatchedReceipt(Resource):
    """What became of one document."""

    status: int = Field(description="as for it alone: 201 new, 200 already there, 422 refused, 500")
    sha256: str | None = Field(description="its name; null where it is not in")
    capability: str | None = Field(description="what its schema speaks about")
    outcome: OutcomeName | None = Field(description="the whole receipt's verdict for that")
    problem: BatchProblem | None


class BatchedReceipts(Resource):
    receipts: list[BatchedReceipt] = Field(description="in the order of the documents")


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
        return Submission(raw=raw, facts=read_facts(raw), origin=one.origin())
    except Refused as error:
        return _refused(422, code=error.code, detail=str(error), errors=error.errors)


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
