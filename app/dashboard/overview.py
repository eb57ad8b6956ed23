"""The first page: what ran lately, which nodes and devices are there, which snapshots can be restored."""

from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.orm import Session

from app.accounts.service import Login
from app.config import Settings
from app.dashboard import queries
from app.dashboard.access import NodesVisitor
from app.dashboard.htmx import SLOW_MS, Live, fragment, is_fragment_request
from app.dashboard.snapshots import group_places
from app.dashboard.templating import page, render
from app.dashboard.wording import OUTCOMES, STATES, verdict_of
from app.db.session import database_time
from app.models import Device, Node
from app.nodes import service as nodes
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep

router = APIRouter(include_in_schema=False)

NEWEST = 8
SNAPSHOTS = 6
POLL_MS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLine:
    """One device: what its pool holds and whether its worker has been heard of lately."""

    device: Device
    taken_bytes: int
    taken_percent: float
    standing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLines:
    """One node and its devices."""

    node: Node
    away: bool
    devices: tuple[DeviceLine, ...]


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
    counts = queries.recent_counts(session, now=now)
    newest = queries.restores(session, limit=NEWEST, after=None, state=None, outcome=None)
    places = queries.places(session, snapshots=SNAPSHOTS)
    inner = render(
        request,
        "overview_live.html",
        now=now,
        outcomes=_tally(counts, position=1, names=OUTCOMES),
        states=_tally(counts, position=0, names=STATES),
        total=sum(counts.values()),
        newest=[(restore, verdict_of(restore)) for restore in newest],
        nodes=_node_lines(session, now=now, silence_s=settings.node_silence_s),
        snapshots=group_places(places, now=now, silence_s=settings.node_silence_s),
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )
    holding = any(restore.state == "resident" for restore in newest)
    idle_ms = SLOW_MS if holding else None
    return Live(
        url="/overview/live", inner=inner, poll_ms=POLL_MS if queries.open_restores(session) else idle_ms
    )


def _tally(
    counts: dict[tuple[str, str | None], int], *, position: int, names: dict[str, str]
) -> dict[str, int]:
    """How many restores per outcome or per state, in the order of `names`, zeros included."""
    return {name: sum(count for key, count in counts.items() if key[position] == name) for name in names}


def _node_lines(session: Session, *, now: datetime, silence_s: float) -> list[NodeLines]:
    taken = queries.pool_bytes_taken(session)
    return [
        NodeLines(
            node=node,
            away=nodes.is_away(node, now=now, silence_s=silence_s),
            devices=tuple(_device_line(device, taken=taken.get(device.id, 0)) for device in node.devices),
        )
        for node in queries.nodes(session)
    ]


def _device_line(device: Device, *, taken: int) -> DeviceLine:
    share = 100 * taken / device.pool_bytes if device.pool_bytes else 0.0
    standing = "busy" if device.held_by else "free"
    if device.worker_started_at is None:
        standing = "no worker yet"
    return DeviceLine(
        device=device, taken_bytes=taken, taken_percent=round(min(share, 100.0), 1), standing=standing
    )
