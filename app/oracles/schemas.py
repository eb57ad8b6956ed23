"""JSON shapes of oracle questions."""

from datetime import datetime
from typing import Any

from pydantic import Field

from app.web.schemas import Hex64, Resource, TotalResource


class OracleSummary(Resource):
    sha256: Hex64 = Field(description="of the question's bytes")
    context_digest: Hex64 = Field(description="the token prefix that is asked about")
    layout_sha256: Hex64
    rank_count: int
    span_tokens: int
    expected: str = Field(description="the one right answer", examples=["red"])
    created_at: datetime
    created_by: str


class OracleDetail(OracleSummary):
    document: dict[str, Any]


class OracleList(Resource):
    oracles: list[OracleSummary]
    next_page_token: str = ""
    total: TotalResource
