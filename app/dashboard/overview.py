"""The first page: the ring of nodes and devices, what ran lately, which snapshots can be restored."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.dashboard import queries, queries_evidence
from app.dashboard.access import NodesVisitor
from app.dashboard.htmx import SLOW_MS, Live, fragment, is_fragment_request
from app.dashboard.ledger import head_line
from app.dashboard.machines import machines_of
from app.dashboard.snapshots import newest_spreads
from app.dashboard.templating import page, render
from app.dashboard.verdict_words import TABS
from app.dashboard.wording import OUTCOMES, STATES, verdict_of
from app.db.session import database_time
from app.models import Restore
from app.restores.service import lists
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep
from app.web.paging import COUNTED, Total

router = APIRouter(include_in_schema=False)

NEWEST = 7
SNAPSHOTS = 6
POLL_MS = 1500


@router.get("/")
def show_overview(
    request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    live = _live(request, session=session, login=login, settings=settings)
    return page(request, "overview.html", login=login, live=live)


@router.get("/overview/live")
def live_overview(
    request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    if not is_fragment_request(request):
        return RedirectResponse("/", status_code=303)
    return fragment(request, _live(request, session=session, login=login, settings=settings))


def _live(request: Request, *, session: Session, login: Login, settings: Settings) -> Live:
    now = database_time(session)
    silence_s = settings.node_silence_s
    counts = queries.recent_counts(session, now=now)
    counted = sum(counts.values())
    newest = lists.list_restores(session, limit=NEWEST)
    judged = queries_evidence.outcome_counts(session)
    poll_ms = _poll_ms(session, newest=newest)
    inner = render(
        request,
        "overview_live.html",
        now=now,
        outcomes=_tally(counts, position=1, names=OUTCOMES),
        states=_tally(counts, position=0, names=STATES),
        total=Total(count=min(counted, COUNTED), is_exact=counted <= COUNTED),
        judged=judged if any(total.count for total in judged.values()) else {},
        tab_of={outcome: tab for tab, outcomes in TABS.items() for outcome in outcomes},
        newest=[(restore, verdict_of(restore)) for restore in newest],
        ledger=head_line(session),
        may_audit=login.principal.may(Scope.EVIDENCE_EXPORT),
        machines=machines_of(session, now=now, silence_s=silence_s),
        spreads=newest_spreads(session, limit=SNAPSHOTS, now=now, silence_s=silence_s),
        live_follows=poll_ms is not None,
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )
    return Live(url="/overview/live", inner=inner, poll_ms=poll_ms)


def _poll_ms(session: Session, *, newest: Sequence[Restore]) -> int | None:
    """Often while something happens, slowly while pages only stay, not at all where nothing can change."""
    if queries.something_is_open(session):
        return POLL_MS
    return SLOW_MS if any(restore.state == "resident" for restore in newest) else None


def _tally(
    counts: dict[tuple[str, str | None], int], *, position: int, names: dict[str, str]
) -> dict[str, int]:
    """How many restores per outcome or per state, in the order of `names`, zeros included."""
    return {name: sum(count for key, count in counts.items() if key[position] == name) for name in names}
