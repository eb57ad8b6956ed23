"""Two contracts, or what two profiles come to, line by line."""

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.core.profiles.diff import Diff
from app.dashboard.access import ProfilesVisitor
from app.dashboard.profiles import contracts_offered
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import AppError
from app.profiles.service.contracts import read_contracts
from app.profiles.service.differences import Side, difference
from app.web.deps import ReadSession

router = APIRouter(prefix="/profiles/compare", include_in_schema=False)

MOST_LINES: Final = 500
Text = Annotated[str, Query(max_length=160)]


@router.get("")
def compare(
    request: Request,
    session: ReadSession,
    login: ProfilesVisitor,
    left: Text = "",
    right: Text = "",
    left_profile: Text = "",
    right_profile: Text = "",
) -> Response:
    """A side is a contract, or a contract and a profile; the form sends both fields of each."""
    asked = {"left": left, "left_profile": left_profile, "right": right, "right_profile": right_profile}
    asked = {name: text.replace("\0", "").strip() for name, text in asked.items()}
    if "" in request.query_params.values():
        given = urlencode({name: text for name, text in asked.items() if text})
        address = f"/profiles/compare?{given}" if given else "/profiles/compare"
        return RedirectResponse(address, status_code=303)
    offered = contracts_offered(session)
    diff, problem = _diff(session, asked)
    contracts = read_contracts(session, digests=[one.sha256 for one in offered])
    names = {name for contract in contracts for name in contract.profiles}
    return page(
        request,
        "profile_compare.html",
        login=login,
        now=database_time(session),
        offered=offered,
        names=sorted(names),
        asked=asked,
        diff=diff,
        lines=() if diff is None else diff.lines[:MOST_LINES],
        more=0 if diff is None else max(0, len(diff.lines) - MOST_LINES),
        problem=problem,
    )


def _diff(session: Session, asked: dict[str, str]) -> tuple[Diff | None, str]:
    """The differences, or why there are none to show."""
    if not asked["left"] or not asked["right"]:
        return None, ""
    sides = [Side(contract=asked[one], profile=asked[f"{one}_profile"] or None) for one in ("left", "right")]
    try:
        return difference(session, *sides), ""
    except AppError as error:
        return None, error.detail
