"""JSON shapes of receipts."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from app.web.schemas import Resource, TotalResource

# What a document says in a path of its repository; also a name with blanks.
RepositoryPath = Annotated[
    str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")
]
RepositoryName = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,40}$")]


class OriginResource(Resource):
    """Where a document stood when it was submitted."""

    repository: str
    path: str
    commit: str
    committed_at: datetime | None
    created_at: datetime
    created_by: str


class ReceiptSummary(Resource):
    """One line of a list."""

    sha256: str = Field(description="SHA-256 of the bytes: the name of the receipt")
    canonical_sha256: str = Field(description="SHA-256 of the canonical form")
    byte_count: int
    schema_name: str | None
    kind: str
    family: str
    capability: str
    image_config_id: str | None = Field(description="config id of the image it is about, 64 digits")
    release: str | None
    title: str
    origins: list[OriginResource]
    created_at: datetime
    created_by: str


class ReceiptList(Resource):
    receipts: list[ReceiptSummary]
    next_page_token: str = ""
    total: TotalResource
