"""The list of restores: filters that stand in the address, pages by key, a count that stays honest."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.dashboard import queries
from app.dashboard.access import Visitor
from app.dashboard.templating import page
from app.dashboard.wording import typed, verdict_of
from app.db.session import database_time
from app.restores.schemas import Outcome, Semantic, State
from app.restores.service import lists
from app.restores.service.lists import RestoreFilters
from app.web.auth import Scope
from app.web.deps import ReadSession
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/restores", include_in_schema=False)

STATE_NAMES: Final = get_args(State)
OUTCOME_NAMES: Final = get_args(Outcome)
# Each answer as it is marked in the list.
SEMANTICS: Final[dict[str, str]] = {name: name for name in get_args(Semantic)} | {"unanswered": "no answer"}
DRILLS: Final = {"true": ("only drills", True), "false": ("no drills", False)}
SPANS: Final = {
    "1h": ("last hour", timedelta(hours=1)),
    "24h": ("last 24 hours", timedelta(hours=24)),
    "7d": ("last 7 days", timedelta(days=7)),
    "30d": ("last 30 days", timedelta(days=30)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The filters as they stand in the address, empty where nothing is asked."""

    state: str
    outcome: str
    semantic: str
    drill: str
    node: str
    text: str
    since: str

    @property
    def given(self) -> dict[str, str]:
        """What limits the list, by name."""
        names = ("state", "outcome", "semantic", "drill", "node", "text", "since")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def address(self, **more: str) -> str:
        """The list with these filters; this is the address to share."""
        values = self.given | {name: value for name, value in more.items() if value}
        return f"/restores?{urlencode(values)}" if values else "/restores"


def asked_filters(
    state: Annotated[str, Query(max_length=40)] = "",
    outcome: Annotated[str, Query(max_length=40)] = "",
    semantic: Annotated[str, Query(max_length=40)] = "",
    drill: Annotated[str, Query(max_length=40)] = "",
    node: Annotated[str, Query(max_length=200)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
) -> Asked:
    return Asked(
        state=state,
        outcome=outcome,
        semantic=semantic,
        drill=drill,
        node=node,
        text=typed(text),
        since=since,
    )


@router.get("")
def list_restores(
    request: Request,
    session: ReadSession,
    login: Visitor,
    asked: PageDep,
    filters: Annotated[Asked, Depends(asked_filters)],
) -> Response:
    """An unknown filter is no filter, and said to be none: an old link still shows something."""
    if "" in request.query_params.values():
        return RedirectResponse(filters.address(), status_code=303)
    now = database_time(session)
    chosen, ignored = read_filters(filters, now=now)
    found = lists.list_restores(session, limit=asked.size + 1, after=asked.after, filters=chosen)
    shown, token = next_token(asked, found)
    size = request.query_params.get("page_size", "")
    return page(
        request,
        "restores.html",
        login=login,
        now=now,
        rows=[(restore, verdict_of(restore)) for restore in shown],
        total=lists.count_restores(session, filters=chosen),
        asked=filters,
        ignored=ignored,
        states=STATE_NAMES,
        outcomes=OUTCOME_NAMES,
        semantics=SEMANTICS,
        drills={name: words for name, (words, _) in DRILLS.items()},
        nodes=queries.node_names(session),
        spans={name: words for name, (words, _) in SPANS.items()},
        newest=filters.address(page_size=size),
        older=filters.address(page_size=size, page_token=token) if token else "",
        first_page=asked.after is None,
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )


def read_filters(asked: Asked, *, now: datetime) -> tuple[RestoreFilters, list[str]]:
    """The filters, and a sentence for each one that says nothing."""
    since = _since(asked.since, now=now)
    known = {
        "state": ", ".join(STATE_NAMES),
        "outcome": ", ".join(OUTCOME_NAMES),
        "semantic": ", ".join(SEMANTICS),
        "drill": ", ".join(DRILLS),
        "since": "1h, 24h, 7d, 30d or a date as 2026-11-30",
    }
    unknown = {
        "state": asked.state not in STATE_NAMES,
        "outcome": asked.outcome not in OUTCOME_NAMES,
        "semantic": asked.semantic not in SEMANTICS,
        "drill": asked.drill not in DRILLS,
        "since": since is None,
    }
    filters = RestoreFilters(
        state=None if unknown["state"] else asked.state,
        outcome=None if unknown["outcome"] else asked.outcome,
        semantic=None if unknown["semantic"] else asked.semantic,
        drill=None if unknown["drill"] else DRILLS[asked.drill][1],
        node=asked.node or None,
        text=asked.text or None,
        since=since,
    )
    sentences = [
        f"{name}: expected {known[name]}, found {asked.given[name]}"
        for name in known
        if unknown[name] and name in asked.given
    ]
    return filters, sentences


def _since(text: str, *, now: datetime) -> datetime | None:
    """A known span before now, or a day or instant, in UTC unless it says otherwise."""
    if text in SPANS:
        return now - SPANS[text][1]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
