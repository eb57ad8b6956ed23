"""JSON shapes of images."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, StringConstraints, model_validator

from app.sources.schemas import SourceResource
from app.web.schemas import Body, Hex64, Line, Resource, TotalResource

Record = Annotated[str, StringConstraints(min_length=1, max_length=4000)]


class ImageBody(Body):
    title: Line = Field(examples=["four readers with event fence"])
    config_id: Hex64 | None = Field(default=None, description="SHA-256 of the image configuration")
    manifest_digest: Hex64 | None = Field(default=None, description="SHA-256 of one platform's manifest")
    index_digest: Hex64 | None = Field(default=None, description="SHA-256 of a multi-platform index")
    origin: Literal["registered", "imported-record"] = "registered"
    record: Record | None = Field(
        default=None, description="what an imported record says, and where it stands"
    )
    source_id: UUID | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _record_with_origin(self) -> Self:
        if (self.origin == "imported-record") != (self.record is not None):
            raise ValueError("record: expected exactly with origin imported-record")
        return self


class ImageResource(Resource):
    id: UUID
    title: str
    config_id: str | None
    manifest_digest: str | None
    index_digest: str | None
    origin: Literal["registered", "imported-record"]
    record: str | None
    source: SourceResource | None
    created_at: datetime
    created_by: str


class ImageList(Resource):
    images: list[ImageResource]
    next_page_token: str = ""
    total: TotalResource
