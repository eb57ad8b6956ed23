"""JSON shapes of root documents, inventories and snapshots."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.web.schemas import Body, Hex64, NodeName, Resource, TotalResource

RootPath = Annotated[
    str,
    StringConstraints(pattern=r"^/[^\x00-\x1f\x7f]*$", max_length=4096),
    Field(examples=["/srv/sparkcache/rank0"]),
]


class SightingBody(Body):
    root_path: RootPath
    storage_key: Hex64
    context_digest: Hex64
    root_document_sha256: Hex64


class ScanProblemBody(Body):
    path: Annotated[str, StringConstraints(max_length=4096)]
    detail: Annotated[str, StringConstraints(max_length=2000)]


class InventoryBody(Body):
    """Everything one scan of a node's store roots found; it replaces what the scan before said."""

    manifests: Annotated[list[SightingBody], Field(max_length=100_000)]
    problems: Annotated[list[ScanProblemBody], Field(max_length=1000, default_factory=list)]


class InventoryResource(Resource):
    """What the control plane still wants from the node."""

    missing_documents: list[Hex64] = Field(description="root documents whose bytes are to be sent")
    unpinned_documents: list[Hex64] = Field(
        description="root documents with a stream digest that nobody has checked"
    )


class PinBody(Body):
    """A complete check was passed: every object authentic, the stream digest right."""

    root_path: RootPath
    stream_sha256: Hex64


class PinResource(Resource):
    sha256: Hex64
    pinned: bool


class DocumentResource(Resource):
    sha256: Hex64
    kind: Literal["page_snapshot", "page_delta", "manifest"] = Field(
        description="what it is; `manifest` is one of legacy chunks"
    )
    context_digest: str
    storage_key: str
    rank: int
    rank_count: int
    span_tokens: int
    encoded_bytes: int = Field(description="of all objects it needs, those of an embedded base included")
    object_count: int
    created_at: datetime


class DocumentList(Resource):
    manifests: list[DocumentResource]
    next_page_token: str = ""
    total: TotalResource


class PlaceResource(Resource):
    node: NodeName
    away: bool
    root_path: str
    root_document_sha256: str
    pinned: bool = Field(description="passed a complete check: every object and the stream digest")
    first_seen_at: datetime


class DocumentDetail(DocumentResource):
    places: list[PlaceResource] = Field(description="where it is now")


class RankResource(Resource):
    rank: int
    places: list[PlaceResource]


class SnapshotResource(Resource):
    """The stored cache state of one token prefix over all ranks."""

    context_digest: str
    rank_zero_storage_key: str
    rank_count: int
    span_tokens: int
    encoded_bytes: int = Field(description="of rank 0's part, or of the lowest rank that is there")
    object_count: int
    complete: bool = Field(description="every rank is there, on nodes that are alive")
    missing_ranks: list[int]
    ranks: list[RankResource]


class SnapshotList(Resource):
    snapshots: list[SnapshotResource]
    next_page_token: str = ""
    total: TotalResource
