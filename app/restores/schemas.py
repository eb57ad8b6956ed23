"""JSON shapes of restores, for clients and for rank workers."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.web.schemas import EXACT, Body, Hex64, Line, NodeName, Resource, TotalResource

State = Literal["waiting", "running", "publishing", "retracting", "resident", "releasing", "finished"]
Purpose = Literal["qualification", "operational"]
Outcome = Literal["restored", "corrupt", "incomplete", "failed"]
RankOutcome = Literal["restored", "corrupt", "absent", "incompatible", "failed", "cancelled"]
AttemptState = Literal["waiting", "claimed", "running", "ready", "reported", "lost", "cancelled"]


# The words of app/core/oracle/partials.py; a test holds them against it.
FaultName = Literal[
    "swap-pages", "slots-off-by-one", "foreign-slots", "skipped-fence", "stale-batch", "stale-generation"
]
Semantic = Literal["right", "wrong", "unanswered", "not asked"]


class FaultBody(Body):
    """A fault to put in on purpose: every hash stays right, the pages of one rank are wrong."""

    name: FaultName
    rank: Annotated[int, Field(ge=0, le=EXACT, description="the rank that misplaces")]


class RestoreBody(Body):
    """An order to restore one snapshot on all its ranks."""

    context_digest: Hex64
    layout_sha256: Hex64
    rank_zero_storage_key: Hex64 | None = Field(
        default=None, description="needed only where several identities share the context digest"
    )
    resident_s: Annotated[int, Field(ge=1, le=7 * 24 * 3600)] | None = Field(
        default=None, description="seconds the restored pages stay; the server has a default"
    )
    purpose: Purpose = Field(
        default="qualification",
        description="operational: only an image that is deployable for exactly this, or an exception",
    )
    image_config_id: Hex64 | None = Field(
        default=None,
        description="the image this is for; needed in operation, and never evidence: ranks are measured",
    )
    oracle: Hex64 | Literal["none"] | None = Field(
        default=None,
        description=(
            "the question the placed pages are asked before they are published; without one the newest that "
            "is registered for this snapshot and layout, if any; none: do not ask"
        ),
        examples=["none"],
    )
    fault: FaultBody | None = Field(
        default=None,
        description=(
            "makes the restore a drill: needs the scope drills:write, the purpose qualification and a "
            "question; nothing of a drill is ever published, and it is no evidence about an image"
        ),
        # Whoever tries the example must not start a drill.
        examples=[None],
    )


class CancelBody(Body):
    """Why a restore is called off."""

    reason: Line | None = Field(default=None, examples=["wrong snapshot"])


class CancellationResource(Resource):
    """What became of a cancellation.

    `requested`: retract is decided. `acknowledged`: every rank's worker that had begun has been told.
    `stopped`: every rank has given its pages back or is lost; the restore is over.
    """

    state: Literal["requested", "acknowledged", "stopped"]
    requested_at: datetime
    requested_by: str
    reason: str | None
    acknowledged_at: datetime | None = Field(description="when the last rank that had to be told was told")
    stopped_at: datetime | None
    ranks_open: list[int] = Field(description="ranks that have not stopped yet")
    ranks_not_told: list[int] = Field(description="of these, the ones whose worker has not been told yet")


class ProblemOfRank(Resource):
    """Why a restore or one of its ranks did not succeed."""

    code: str
    detail: str
    rank: int | None = None
    subject: str | None = None
    stage: str | None = None
    expected: str | None = None
    found: str | None = None


class ReportResource(Resource):
    """What one rank measured; every interval in ns from the start of its service."""

    service_start_ns: int = Field(description="from the admission of the restore to the start of service")
    clock_error_ns: int = Field(description="bound on the error of that start: the claim's round trip")
    pool_commit_ns: int = Field(description="just before service: committing the pool's pages")
    outcome: RankOutcome
    objects: int
    bytes: int
    service_ns: int
    unattributed_ns: int
    phases_ns: dict[str, int]
    intervals_ns: list[dict[str, Any]]
    readers: int
    stream_digest: str
    oracle_start_ns: int | None = Field(description="when the rank was asked the question, after its service")
    oracle_ns: int | None = Field(description="how long its part of the answer took")


class AttemptResource(Resource):
    id: UUID
    rank: int
    number: int
    node: NodeName
    device: str
    root_path: str
    root_document_sha256: str
    state: AttemptState
    outcome: RankOutcome | None
    problem: ProblemOfRank | None
    progress: dict[str, Any] | None
    runtime: dict[str, Any] | None = Field(description="what the rank's worker measured of itself")
    claimed_at: datetime | None
    ready_at: datetime | None
    retract_heard_at: datetime | None = Field(description="when its worker was told to retract")
    acknowledged_at: datetime | None
    ended_at: datetime | None
    report: ReportResource | None
    partials: dict[str, Any] | None = Field(description="the rank's part of the answer")


class FaultResource(Resource):
    """A fault put in on purpose."""

    name: FaultName
    rank: int


class AnswerResource(Resource):
    """What all ranks' parts add up to; how and from what stands in the document."""

    semantic: Literal["right", "wrong", "unanswered"]
    observed: str | None = Field(description="the word that was answered")
    diagnosis: str | None = Field(description="the name of what the pages look like, where they are wrong")
    document: dict[str, Any]
    sha256: str = Field(description="of the document's canonical bytes")


class RestoreSummary(Resource):
    id: UUID
    title: str = Field(description="what the restore is evidence about", examples=["engine self-test"])
    context_digest: str
    rank_zero_storage_key: str
    layout_sha256: str
    rank_count: int
    span_tokens: int
    state: State
    outcome: Outcome | None
    done: bool
    problem: ProblemOfRank | None
    decision: Literal["publish", "retract"] | None
    epoch: int
    created_at: datetime
    created_by: str
    admitted_at: datetime | None
    decided_at: datetime | None
    ended_at: datetime | None
    resident_until: datetime | None
    released_at: datetime | None
    release_reason: str | None
    try_number: int = Field(description="1 for an order of its own; one more with every retry")
    retry_of: UUID | None = Field(description="the restore that this one tries again")
    cancel_requested_at: datetime | None
    purpose: Purpose
    image_config_id: str | None = Field(description="the image named in the order, never evidence")
    allowed_by_verdict_id: UUID | None
    allowed_by_exception_id: UUID | None
    receipt_sha256: str | None = Field(description="the receipt written of what was measured, once it is")
    receipt_problem: str | None = Field(description="why no receipt can be written of it")
    oracle_sha256: str | None = Field(description="the question it is asked")
    semantic: Semantic | None = Field(
        description=(
            "what came of the question, apart from the outcome; null until it is known. Only what is right "
            "or not asked is ever published"
        )
    )
    fault: FaultResource | None = Field(description="the fault put in on purpose, if the restore is a drill")


class EventResource(Resource):
    at: datetime
    kind: str
    rank: int | None
    detail: str


class RestoreResource(RestoreSummary):
    waiting_for: list[str] = Field(description="why a waiting restore has not been admitted")
    retried_by: UUID | None = Field(description="the restore that tries this one again")
    answer: AnswerResource | None = Field(description="of a question that was asked, once it is answered")
    cancellation: CancellationResource | None
    attempts: list[AttemptResource]
    events: list[EventResource]


class RestoreList(Resource):
    restores: list[RestoreSummary]
    next_page_token: str = ""
    total: TotalResource


class LayerBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=500)]
    pages: Annotated[int, Field(ge=1, le=EXACT)]
    bytes: Annotated[int, Field(ge=1, le=EXACT)]
    sha256: Hex64


class RankLayersResource(Resource):
    rank: int
    layers: list[LayerBody]
    received_at: datetime


class ReadbackResource(Resource):
    """Per-layer digests of the published pages, read back on every rank."""

    id: UUID
    restore_id: UUID
    created_at: datetime
    created_by: str
    done: bool
    problem: ProblemOfRank | None
    ranks: list[RankLayersResource]


class ReadbackList(Resource):
    """All readbacks of one restore, newest first: they end with its residency, so there are few."""

    readbacks: list[ReadbackResource]


# What rank workers say and hear.


class ClaimBody(Body):
    generation: Annotated[int, Field(ge=1, le=EXACT)]
    token: Annotated[int, Field(ge=1, le=EXACT)] | None = Field(
        default=None,
        description=(
            "a fencing token of the worker's choice, at random: a claim whose answer was lost can then be "
            "said again and is the same claim; without one the answer brings one"
        ),
    )


class ClaimResource(Resource):
    """Everything a worker needs for its rank."""

    attempt_id: UUID
    restore_id: UUID
    rank: int
    token: int
    lease_s: float
    root_path: str
    storage_key: str
    context_digest: str
    root_document_sha256: str
    stream_pinned: bool = Field(description="the serial stream digest need not be recomputed")
    oracle: dict[str, Any] | None = Field(
        description="the question to be answered in part from the placed pages, before saying ready"
    )
    fault: FaultName | None = Field(description="a fault to put in on purpose")
    span_tokens: int
    layout: dict[str, Any]
    pace_s: float = Field(
        description=(
            "over so many seconds the ranks of a large restore spread what all could say at once, and so "
            "much lies between two polls of one; 0 where ranks are few"
        )
    )
    turn_s: float = Field(description="so long after a call the rank asks what is decided")


class ProgressBody(Body):
    objects: Annotated[int, Field(ge=0, le=EXACT)]
    bytes: Annotated[int, Field(ge=0, le=EXACT)]
    total_bytes: Annotated[int, Field(ge=0, le=EXACT)]


class HeartbeatBody(Body):
    progress: ProgressBody | None = None


class DecisionResource(Resource):
    """What is decided for the restore; `outcome` is set once it is final."""

    decision: Literal["publish", "retract"] | None
    epoch: int
    outcome: Outcome | None


class PublishBody(Body):
    epoch: Annotated[int, Field(ge=1, le=EXACT)]


class LayersBody(Body):
    layers: Annotated[list[LayerBody], Field(min_length=1, max_length=100_000)]
