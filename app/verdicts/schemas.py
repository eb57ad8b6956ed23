"""JSON shapes of verdicts, declarations and exceptions."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from app.core.qualify.facts import Capability
from app.receipts.schemas import Commit, ReceiptSummary, RepositoryName, RepositoryPath
from app.web.schemas import Body, Hex64, Resource, TotalResource

OutcomeName = Literal[
    "qualified", "rejected", "research-only", "implemented", "unsupported", "incomplete", "none"
]
VerdictKind = Literal["scope", "receipt", "case"]
Grade = Literal["attested", "self-consistent", "demonstrated"]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")]


class VerdictSummary(Resource):
    """One judgement. Texts of documents are cut at 200 characters; `GET` of one has them whole."""

    id: UUID
    kind: VerdictKind = Field(
        description="scope: all receipts of one scope; receipt: one; case: a part of one"
    )
    capability: str
    receipt_sha256: str | None
    case_name: str
    image_config_id: str | None
    source: str
    target: str
    draft: str
    tp: str
    dcp: str
    publication_schema: str
    manifest_schema: str
    scope_digest: str = Field(description="SHA-256 over all axes: the name of the scope")
    outcome: OutcomeName
    reason: str
    deployable: bool
    deployable_reason: str = Field(description="code of the first thing against it; empty where deployable")
    evidence_grade: Grade | None = Field(description="how far the answer can be checked again")
    deployable_grade: Grade = Field(description="the weakest grade deploying needed when it was judged")
    codes: list[str] = Field(description="what decided")
    gates: dict[str, Any] = Field(description="gate to its state, basis, and whether it was needed")
    receipts: list[str] = Field(description="SHA-256 of the receipts that decided, the first 100")
    superseded_by: str | None
    ruleset: str
    previous_id: UUID | None
    cause: str
    cause_detail: str
    cause_receipt: str | None
    created_at: datetime
    created_by: str


class VerdictResource(VerdictSummary):
    """One judgement with everything it says."""

    is_current: bool
    document: dict[str, Any] = Field(description="the verdict document: findings with pointer and value")
    document_sha256: str


class VerdictList(Resource):
    verdicts: list[VerdictSummary]
    next_page_token: str = ""
    total: TotalResource


class ReceiptResource(ReceiptSummary):
    """A receipt with what the rules read in it and what they say."""

    verdicts: list[VerdictSummary] = Field(description="the newest, the whole receipt's before its cases'")
    facts: dict[str, Any] = Field(description="what the rules may read: each value with pointer and basis")


class AppendedReceipt(ReceiptSummary):
    """A receipt as it was taken in."""

    verdicts: list[VerdictSummary] = Field(description="the newest about it, the whole receipt's first")
    changed: int = Field(description="verdicts that are new, those of other receipts and scopes included")


MOST_OF_A_BATCH: Final = 64
_EXAMPLE: Final = "eyJzY2hlbWEiOiAic3BhcmtnYXRlLXJlc3RvcmUtcmVjZWlwdC92MSJ9"


class BatchedDocument(Body):
    """A document, byte for byte, and where it stood."""

    document: str = Field(description="the bytes in base64", examples=[_EXAMPLE])
    repository: RepositoryName | None = None
    path: RepositoryPath | None = None
    commit: Commit | None = Field(default=None, examples=["5f5f5f5"])
    committed_at: datetime | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _place_is_whole(self) -> Self:
        if (self.repository is None) != (self.path is None):
            raise ValueError("repository and path: expected both or neither")
        return self


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


class PairResource(Resource):
    """The same question asked of two images; nothing of one holds for the other."""

    left: VerdictSummary | None
    right: VerdictSummary | None


class ComparisonResource(Resource):
    left: str = Field(description="config id")
    right: str = Field(description="config id")
    pairs: list[PairResource]


class DeclarationBody(Body):
    reason: Reason = Field(examples=["four runs on the ring, answers compared by hand"])
    receipts: list[Hex64] = Field(min_length=1, max_length=100, description="SHA-256 of the receipts meant")
    capability: Capability = Field(default=Capability.RESTORE, strict=False)


class DeclarationResource(Resource):
    id: UUID
    reason: str
    receipts: list[str]
    capability: str
    created_at: datetime
    created_by: str


class DeclaredResource(DeclarationResource):
    changed: list[VerdictSummary] = Field(description="verdicts that changed; the rules still decide")


class DeclarationList(Resource):
    declarations: list[DeclarationResource]
    next_page_token: str = ""
    total: TotalResource


class ExceptionScope(Body):
    """What a restore knows of itself before it runs."""

    target: str = Field(max_length=200, description="target checkpoint, as the snapshot's identity has it")
    draft: str = Field(default="", max_length=200)
    tp: int = Field(ge=1, le=1024)
    dcp: int = Field(ge=1, le=1024)
    publication_schema: str = Field(max_length=100)
    manifest_schema: str = Field(max_length=100)


class ExceptionBody(Body):
    image_config_id: Hex64
    scope: ExceptionScope
    reason: Reason = Field(examples=["the old image cannot be pulled any more; ticket 4711"])
    expires_at: datetime = Field(strict=False, description="at most 30 days ahead")


class ExceptionEndBody(Body):
    reason: Reason = Field(examples=["the old image can be pulled again"])


class ExceptionEndResource(Resource):
    """Who ended it before its time, when and why."""

    reason: str
    created_at: datetime
    created_by: str


class ExceptionResource(Resource):
    id: UUID
    image_config_id: str
    scope: dict[str, Any]
    reason: str
    expires_at: datetime
    created_at: datetime
    created_by: str
    end: ExceptionEndResource | None = Field(default=None, description="ended early, by whom and why")


class ExceptionList(Resource):
    exceptions: list[ExceptionResource]
    next_page_token: str = ""
    total: TotalResource
