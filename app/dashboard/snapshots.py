"""Snapshots by rank and node."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from fastapi import APIRouter, Request, Response

from app.dashboard import queries
from app.dashboard.access import NodesVisitor
from app.dashboard.templating import page
from app.db.session import database_time
from app.manifests.service import Snapshot
from app.models import ManifestLocation
from app.nodes import service as nodes
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep

router = APIRouter(prefix="/snapshots", include_in_schema=False)

SHOWN = 50


@router.get("")
def list_snapshots(
    request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    now = database_time(session)
    found = queries.places(session, snapshots=SHOWN)
    return page(
        request,
        "snapshots.html",
        login=login,
        now=now,
        snapshots=group_places(found, now=now, silence_s=settings.node_silence_s),
        nodes=queries.nodes(session),
        most=SHOWN,
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )


def group_places(places: Sequence[ManifestLocation], *, now: datetime, silence_s: float) -> list[Snapshot]:
    """Snapshots from the places of their ranks, which come snapshot by snapshot and rank by rank."""
    grouped = groupby(places, key=lambda place: _key(place))
    return [_snapshot(list(group), now=now, silence_s=silence_s) for _, group in grouped]


def _key(place: ManifestLocation) -> tuple[str, str]:
    document = place.root_document
    return document.context_digest, document.rank_zero_storage_key


def _snapshot(places: Sequence[ManifestLocation], *, now: datetime, silence_s: float) -> Snapshot:
    first = places[0].root_document
    by_rank = groupby(places, key=lambda place: place.root_document.rank)
    return Snapshot(
        context_digest=first.context_digest,
        rank_zero_storage_key=first.rank_zero_storage_key,
        rank_count=first.rank_count,
        span_tokens=first.span_tokens,
        encoded_bytes=first.encoded_bytes,
        object_count=first.object_count,
        places={rank: tuple(group) for rank, group in by_rank},
        away=frozenset(
            place.node.name for place in places if nodes.is_away(place.node, now=now, silence_s=silence_s)
        ),
    )
