"""JSON shapes of evidence exports."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, Field, StringConstraints

from app.web.schemas import EXACT, Body, Hex64, Resource, TotalResource

State = Literal["waiting", "running", "finished", "failed", "expired"]
MOST_IMAGES = 1000
Degree = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,3}$"), Field(examples=["4"])]

# Beyond the log is a 400 that says so, however large; a document's reader still wants a bound.
LedgerSize = Annotated[int, Field(ge=1, json_schema_extra={"maximum": EXACT})]


class TopologyBody(Body):
    """Tensor-parallel and decode-context-parallel size."""

    tp: Degree
    dcp: Degree


class ExportBody(Body):
    """What to take away; an empty object is everything."""

    period_from: AwareDatetime | None = Field(
        default=None, strict=False, description="first instant of the period; open if not given"
    )
    period_to: AwareDatetime | None = Field(
        default=None, strict=False, description="first instant after it; open if not given"
    )
    images: list[Hex64] = Field(
        default=[], max_length=MOST_IMAGES, description="config ids; empty: whatever it is about"
    )
    topology: TopologyBody | None = None
    ledger_size: LedgerSize | None = Field(
        default=None,
        description="entries of the ledger to cover; all there are, if not given. The same size again is the "
        "same bundle, byte for byte",
    )


class TopologyResource(Resource):
    tp: str
    dcp: str


class ProgressResource(Resource):
    """How far it is; what has not begun is 0."""

    entries: int = Field(default=0, description="entries of the ledger read")
    receipts: int = Field(default=0, description="receipts written")
    bytes: int = Field(default=0, description="bytes of the archive written")


class ProblemOfExport(Resource):
    code: str = Field(examples=["disk-full"])
    detail: str


class BundleResource(Resource):
    """The file as it was written."""

    sha256: Hex64
    bytes: int
    manifest_sha256: Hex64 = Field(description="of MANIFEST.json, which REPORT.html repeats")
    contents: dict[str, int] = Field(description="what is in it, counted", examples=[{"receipts": 37}])


class ExportResource(Resource):
    """One export: what was asked for, what became of it."""

    id: UUID
    state: State
    done: bool
    created_at: datetime
    created_by: str
    period_from: datetime | None
    period_to: datetime | None
    images: list[str]
    topology: TopologyResource | None
    first_index: int = Field(description="the first entry of the range")
    ledger_size: int = Field(description="entries its checkpoint covers; the range ends there")
    progress: ProgressResource | None
    problem: ProblemOfExport | None = Field(description="why there is no bundle; only of `failed`")
    bundle: BundleResource | None = Field(description="of `finished`, and of `expired` whose file is gone")
    ended_at: datetime | None
    kept_until: datetime | None = Field(description="when the file goes; the record stays")
    expired_at: datetime | None


class ExportList(Resource):
    exports: list[ExportResource]
    next_page_token: str = ""
    total: TotalResource
