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


class EventResource(Resource):
    at: datetime
    kind: str
    rank: int | None
    detail: str


class RestoreResource(RestoreSummary):
    waiting_for: list[str] = Field(description="why a waiting restore has not been admitted")
    retried_by: UUID | None = Field(description="the restore that tries this one again")
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
