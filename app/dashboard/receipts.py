"""The list of receipts: documents as they were submitted, newest first."""

import re
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.core.qualify.facts import Capability, Kind
from app.dashboard.access import ImagesVisitor
from app.dashboard.templating import page
from app.dashboard.wording import typed
from app.receipts import service as receipts
from app.receipts.service import ReceiptFilter
from app.web.auth import Scope
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/receipts", include_in_schema=False)

KINDS: Final = [kind.value for kind in Kind]
CAPABILITIES: Final = [capability.value for capability in Capability]
_DIGITS: Final = re.compile(r"(sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The filters as they stand in the address, empty where nothing is asked."""

    kind: str
    capability: str
    schema: str
    image: str

    @property
    def given(self) -> dict[str, str]:
        """What limits the list, by name."""
        names = ("kind", "capability", "schema", "image")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def address(self, **more: str) -> str:
        """The list with these filters; this is the address to share."""
        values = self.given | {name: value for name, value in more.items() if value}
        return f"/receipts?{urlencode(values)}" if values else "/receipts"


def asked_filters(
    kind: Annotated[str, Query(max_length=40)] = "",
    capability: Annotated[str, Query(max_length=40)] = "",
    schema: Annotated[str, Query(max_length=200)] = "",
    image: Annotated[str, Query(max_length=80)] = "",
) -> Asked:
    values = {"kind": kind, "capability": capability, "schema": schema, "image": image.lower()}
    return Asked(**{name: typed(value) for name, value in values.items()})


@router.get("")
def list_receipts(
    request: Request,
    session: ReadSession,
    login: ImagesVisitor,
    asked: PageDep,
    filters: Annotated[Asked, Depends(asked_filters)],
) -> Response:
    """An unknown filter is no filter, and said to be none."""
    if "" in request.query_params.values():
        return RedirectResponse(filters.address(), status_code=303)
    wanted, ignored = read_filters(filters)
    found = receipts.list_receipts(session, wanted=wanted, after=asked.after, limit=asked.size + 1)
    shown, token = next_token(asked.under("/receipts", filters.given), found)
    size = request.query_params.get("page_size", "")
    return page(
        request,
        "receipts.html",
        login=login,
        now=login.now,
        receipts=shown,
        total=receipts.count_receipts(session, wanted=wanted),
        asked=filters,
        ignored=ignored,
        kinds=KINDS,
        capabilities=CAPABILITIES,
        newest=filters.address(page_size=size),
        older=filters.address(page_size=size, page_token=token) if token else "",
        first_page=asked.after is None,
        may_declare=login.principal.may(Scope.IMAGES_WRITE),
    )


def read_filters(asked: Asked) -> tuple[ReceiptFilter, list[str]]:
    """The filters, and a sentence for each one that says nothing."""
    digits = _DIGITS.fullmatch(asked.image)
    unknown = {
        "kind": asked.kind not in KINDS and f"expected one of {', '.join(KINDS)}",
        "capability": asked.capability not in CAPABILITIES and f"expected one of {', '.join(CAPABILITIES)}",
        "image": not digits and "expected the 64 digits of a config id",
    }
    sentences = [
        f"{name}: {expected}, found {asked.given[name]}"
        for name, expected in unknown.items()
        if expected and name in asked.given
    ]
    wanted = ReceiptFilter(
        kind=None if unknown["kind"] else asked.kind,
        capability=None if unknown["capability"] else asked.capability,
        schema_name=asked.schema or None,
        image_config_id=digits[2] if digits else None,
    )
    return wanted, sentences
