"""JSON shapes of source identities."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from app.web.schemas import Body, Hex40, Hex64, Line, Resource, TotalResource


class SourceBody(Body):
    repository: Line = Field(examples=["example/sparkcache"])
    commit: Hex40
    tree: Hex40 | None = None
    source_sha256: Hex64 | None = None


class SourceResource(Resource):
    id: UUID
    repository: str
    commit: str
    tree: str | None
    source_sha256: str | None
    created_at: datetime
    created_by: str


class SourceList(Resource):
    sources: list[SourceResource]
    next_page_token: str = ""
    total: TotalResource
