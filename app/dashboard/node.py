"""The page of one node: its devices, and what its last scan could not read."""

from fastapi import APIRouter, Request, Response

from app.dashboard.access import NodesVisitor
from app.dashboard.machines import machines_of
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import NotFound
from app.web.deps import ReadSession, SettingsDep

router = APIRouter(prefix="/nodes", include_in_schema=False)


@router.get("/{name}")
def show_node(
    name: str, request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    now = database_time(session)
    known = "\0" not in name
    found = machines_of(session, now=now, silence_s=settings.node_silence_s, name=name) if known else None
    if found is None or not found.nodes:
        raise NotFound(f"node {name!r}: not registered")
    return page(request, "node.html", login=login, now=now, machines=found, one=found.nodes[0])
