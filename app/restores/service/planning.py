"""Which device takes which rank of an order: planned on plain rows, before anything is written."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.restore.page_plan import plan_restore
from app.core.store.snapshot import PageLayout
from app.errors import Conflict
from app.manifests import service as manifests
from app.restores.repository.plans import Place, Seatable, ask_plan

# Plans are pure in the two digests, so what was planned stays true; the bound only keeps the memory small.
_MOST_PLANNED: Final = 16_384
_planned: dict[tuple[str, str], int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSnapshot:
    """A complete snapshot: each rank's places on nodes that are alive, and the devices there by name."""

    context_digest: str
    rank_zero_storage_key: str
    rank_count: int
    span_tokens: int
    places: Mapping[int, Sequence[Place]]
    devices: Mapping[UUID, Sequence[Seatable]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAssignment:
    """One rank: where its part is, which device takes it, and what that takes from the device's pool."""

    rank: int
    place: Place
    device: Seatable
    pages_bytes: int


def find_snapshot(
    session: Session, *, context_digest: str, rank_zero_storage_key: str | None, silence_s: float
) -> PlannedSnapshot:
    """The one snapshot with this context digest.

    Raises:
        NotFound: no node holds any rank of it.
        Conflict: a rank is on no node that is alive, or several identities share the digest and none was
            chosen.
    """
    places, devices = ask_plan(
        session,
        context_digest=context_digest,
        rank_zero_storage_key=rank_zero_storage_key,
        silence_s=silence_s,
    )
    keys = {place.rank_zero_storage_key for place in places}
    manifests.require_one_identity(context_digest, keys=keys)
    by_rank: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        if not place.is_away:
            by_rank[place.rank].append(place)
    first = places[0]
    missing = [rank for rank in range(first.rank_count) if rank not in by_rank]
    if missing:
        raise Conflict(
            f"snapshot {context_digest}: expected ranks 0 to {first.rank_count - 1} on nodes that "
            f"are alive, found none for rank {', '.join(map(str, missing))}",
            code="snapshot-incomplete",
        )
    by_node: dict[UUID, list[Seatable]] = defaultdict(list)
    for device in devices:
        by_node[device.node_id].append(device)
    return PlannedSnapshot(
        context_digest=context_digest,
        rank_zero_storage_key=first.rank_zero_storage_key,
        rank_count=first.rank_count,
        span_tokens=first.span_tokens,
        places=by_rank,
        devices=by_node,
    )


def assign(session: Session, *, snapshot: PlannedSnapshot, layout: PageLayout) -> list[RankAssignment]:
    """Give every rank a device of a node that holds its part, in the order of ranks and device names.

    Raises:
        Conflict: a node has too few devices, or a device too small a pool.
        CoreError: a rank's root document and the layout do not make a plan.
    """
    left = {node_id: list(devices) for node_id, devices in snapshot.devices.items()}
    assignments = []
    for rank in range(snapshot.rank_count):
        places = snapshot.places[rank]
        chosen = next((place for place in places if left.get(place.node_id)), None)
        if chosen is None:
            raise _too_few_devices(rank, places=places, rank_count=snapshot.rank_count)
        device = left[chosen.node_id].pop(0)
        assignments.append(_checked(session, chosen, device=device, layout=layout))
    return assignments


def _too_few_devices(rank: int, *, places: Sequence[Place], rank_count: int) -> Conflict:
    names = ", ".join(sorted({place.node for place in places}))
    return Conflict(
        f"node {names}: expected a device for each of the {rank_count} ranks that are there, found none left "
        f"for rank {rank}",
        code="devices-missing",
    )


def _checked(session: Session, place: Place, *, device: Seatable, layout: PageLayout) -> RankAssignment:
    """Plan the rank as its worker will, so that a wrong layout is refused now and not on four devices."""
    pages_bytes = _planned_bytes(session, place.root_document_sha256, layout=layout)
    if pages_bytes > device.pool_bytes:
        raise Conflict(
            f"device {place.node}/{device.name}: rank {place.rank} needs {pages_bytes} bytes of pages, its "
            f"pool has {device.pool_bytes}",
            code="devices-missing",
        )
    return RankAssignment(rank=place.rank, place=place, device=device, pages_bytes=pages_bytes)


def _planned_bytes(session: Session, document: str, *, layout: PageLayout) -> int:
    """What the rank's pages take, planned once per document and layout: both are named by their digests."""
    key = document, str(layout.sha256)
    known = _planned.get(key)
    if known is None:
        row = manifests.get_document(session, sha256=document)
        plan = plan_restore(manifests.parsed(row), layout=layout)
        known = layout.payload_bytes(block_counts=plan.block_counts)
        if len(_planned) >= _MOST_PLANNED:
            _planned.clear()
        _planned[key] = known
    return known
