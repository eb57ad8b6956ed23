"""JSON shapes of layouts."""

from datetime import datetime
from typing import Any

from app.web.schemas import Hex64, Resource, TotalResource


class LayoutSummary(Resource):
    sha256: Hex64
    group_count: int
    layer_count: int
    created_at: datetime
    created_by: str


class LayoutDetail(LayoutSummary):
    document: dict[str, Any]


class LayoutList(Resource):
    layouts: list[LayoutSummary]
    next_page_token: str = ""
    total: TotalResource
