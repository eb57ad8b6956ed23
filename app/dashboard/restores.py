"""The list of restores, filtered by state and outcome, paged by key."""

from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from app.dashboard import queries
from app.dashboard.access import Visitor
from app.dashboard.templating import page
from app.dashboard.wording import verdict_of
from app.db.session import database_time
from app.restores.schemas import Outcome, State
from app.web.auth import Scope
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/restores", include_in_schema=False)

STATE_NAMES = get_args(State)
OUTCOME_NAMES = get_args(Outcome)


@router.get("")
def list_restores(
    request: Request,
    session: ReadSession,
    login: Visitor,
    asked: PageDep,
    state: Annotated[str, Query()] = "",
    outcome: Annotated[str, Query()] = "",
) -> Response:
    """An unknown filter is no filter: an old link still shows something."""
    chosen = {
        "state": state if state in STATE_NAMES else None,
        "outcome": outcome if outcome in OUTCOME_NAMES else None,
    }
    found = queries.restores(session, limit=asked.size + 1, after=asked.after, **chosen)
    shown, token = next_token(asked, found)
    filters = {"state": state, "outcome": outcome}
    return page(
        request,
        "restores.html",
        login=login,
        now=database_time(session),
        rows=[(restore, verdict_of(restore)) for restore in shown],
        chosen=chosen,
        states=STATE_NAMES,
        outcomes=OUTCOME_NAMES,
        older=f"/restores?{urlencode({**_given(request, filters), 'page_token': token})}" if token else "",
        first_page=asked.after is None,
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )


def _given(request: Request, filters: dict[str, str]) -> dict[str, str]:
    """The filters as they stand in the address: a page token fits these and no others."""
    return {name: value for name, value in filters.items() if name in request.query_params}
