"""JSON shapes of source identities."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field, StringConstraints, WithJsonSchema

from app.web.schemas import Body, Resource, TotalResource

# The core says what is wrong with a part, and knows a digest of the other kind when it sees one; here is
# only what bounds the work, and the form that clients are shown.
_Part = Annotated[str, StringConstraints(max_length=1000)]
_OBJECT_ID: Final = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
_SHA256: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_REPOSITORY: Final = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": r"^[^\x00-\x1f\x7f]+$"}

Repository = Annotated[_Part, WithJsonSchema(_REPOSITORY)]
ObjectId = Annotated[_Part, WithJsonSchema(_OBJECT_ID)]
SourceSha256 = Annotated[_Part, WithJsonSchema(_SHA256)]


class SourceBody(Body):
    repository: Repository = Field(
        description="name or address, without credentials", examples=["example/sparkcache"]
    )
    commit: ObjectId = Field(description="full git commit id", examples=["eabe7fd" + "0" * 33])
    tree: ObjectId | None = Field(
        default=None, description="git tree id of that commit", examples=["1c9f0a2" + "0" * 33]
    )
    source_sha256: SourceSha256 | None = Field(
        default=None,
        description="digest over the files: sparkcache-source-tree/v1",
        examples=["5284f484" + "0" * 56],
    )
    dirty: bool = Field(
        default=False, description="the checkout has changes; such a source is refused, with the reason"
    )


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
