"""Snapshots by rank and node: which rank is where, checked or not, gone, or on a node that is silent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from app.dashboard import queries, queries_answers
from app.dashboard.access import NodesVisitor
from app.dashboard.templating import page
from app.db.session import database_time
from app.errors import NotFound
from app.manifests import service as manifests
from app.manifests.service import Snapshot
from app.models import ManifestLocation, SnapshotRow
from app.web.auth import Scope
from app.web.deps import ReadSession, SettingsDep
from app.web.paging import PageDep, next_token

router = APIRouter(prefix="/snapshots", include_in_schema=False)

# A snapshot is a table of its own, so a page holds fewer of them.
SHOWN: Final = 20
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A snapshot over ranks and nodes, with the places where a rank was and no longer is."""

    snapshot: Snapshot
    gone: tuple[ManifestLocation, ...]

    @property
    def key(self) -> str:
        """The snapshot's name in addresses and form fields."""
        return f"{self.snapshot.context_digest}.{self.snapshot.rank_zero_storage_key}"

    @property
    def nodes(self) -> list[str]:
        """Every node that holds or held a rank."""
        present = [place for places in self.snapshot.places.values() for place in places]
        return sorted({place.node.name for place in (*present, *self.gone)})

    @property
    def pinned(self) -> int:
        """Ranks that passed a complete check where they are now."""
        return sum(
            any(place.root_document.pin for place in places) for places in self.snapshot.places.values()
        )

    def here(self, rank: int, node: str) -> list[ManifestLocation]:
        """Where on a node a rank is now."""
        return [place for place in self.snapshot.places.get(rank, ()) if place.node.name == node]

    def lost(self, rank: int, node: str) -> list[ManifestLocation]:
        """Where on a node a rank was, the latest loss first."""
        found = [one for one in self.gone if one.root_document.rank == rank and one.node.name == node]
        return sorted(found, key=lambda one: one.gone_at or one.last_seen_at, reverse=True)

    def why_missing(self, rank: int) -> str:
        """What is known of a rank that no node which is alive holds."""
        away = sorted({place.node.name for place in self.snapshot.places.get(rank, ())})
        if away:
            return f"only on {', '.join(away)}, which {'is' if len(away) == 1 else 'are'} away"
        left = sorted({one.node.name for one in self.gone if one.root_document.rank == rank})
        return f"gone from {', '.join(left)}" if left else "found on no node"


@router.get("")
def list_snapshots(
    request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep, asked: PageDep
) -> Response:
    now = database_time(session)
    rows = manifests.list_snapshots(session, after=asked.after, limit=min(asked.size, SHOWN) + 1)
    shown, token = next_token(replace(asked, size=min(asked.size, SHOWN)), rows)
    return page(
        request,
        "snapshots.html",
        login=login,
        now=now,
        spreads=spreads_of(session, rows=shown, now=now, silence_s=settings.node_silence_s),
        total=manifests.count_snapshots(session),
        older=f"/snapshots?page_token={token}" if token else "",
        first_page=asked.after is None,
        nodes=queries.nodes(session),
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )


@router.get("/{key}")
def show_snapshot(
    key: str, request: Request, session: ReadSession, login: NodesVisitor, settings: SettingsDep
) -> Response:
    context, _, storage = key.partition(".")
    named = _DIGEST.fullmatch(context) and _DIGEST.fullmatch(storage)
    row = named and queries.snapshot(session, context_digest=context, rank_zero_storage_key=storage)
    now = database_time(session)
    rows = [row] if row else []
    spreads = spreads_of(session, rows=rows, now=now, silence_s=settings.node_silence_s)
    if not spreads:
        raise NotFound(f"snapshot {key}: expected CONTEXT_DIGEST.STORAGE_KEY of one that a node has reported")
    return page(
        request,
        "snapshot.html",
        login=login,
        now=now,
        spread=spreads[0],
        questions=queries_answers.questions(
            session, context_digest=context, rank_count=spreads[0].snapshot.rank_count
        ),
        may_write=login.principal.may(Scope.RESTORES_WRITE),
    )


def newest_spreads(session: Session, *, limit: int, now: datetime, silence_s: float) -> list[Spread]:
    """The newest snapshots of which a rank is somewhere now."""
    rows = manifests.list_snapshots(session, after=None, limit=limit)
    return spreads_of(session, rows=rows, now=now, silence_s=silence_s)


def spreads_of(
    session: Session, *, rows: Sequence[SnapshotRow], now: datetime, silence_s: float
) -> list[Spread]:
    """These snapshots over ranks and nodes, in the order of the rows."""
    found = queries.places(session, snapshots=rows)
    by_snapshot: dict[UUID, list[ManifestLocation]] = {}
    for snapshot_id, place in found:
        by_snapshot.setdefault(snapshot_id, []).append(place)
    return [
        Spread(
            snapshot=manifests.snapshot_of(places, now=now, silence_s=silence_s),
            gone=tuple(place for place in places if place.gone_at is not None),
        )
        for row in rows
        if (places := by_snapshot.get(row.id))
    ]
