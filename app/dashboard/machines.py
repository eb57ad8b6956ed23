"""Nodes and devices as the overview shows them: in a table, and as a ring with the same facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.dashboard import queries
from app.dashboard.ring import Circle, Ring, Sector, draw_ring
from app.models import Device, Node, RankAttempt
from app.nodes import service as nodes

# A worker that consumed a task within this time is drawn as connected.
LATELY: Final = timedelta(minutes=15)
# Of larger installations the overview has one row per node; the devices are on the nodes' own pages.
MOST_LISTED: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLine:
    """One device: who has it, what its pool holds, whether its worker has consumed a task lately.

    Attributes:
        standing: `busy`, `free`, or `no worker yet`.
        holder: the attempt that has the device now.
        last: its attempt in the newest restore that ended on it, if it is among the newest ones.
    """

    device: Device
    taken_bytes: int
    taken_percent: float
    standing: str
    consumed_lately: bool
    holder: RankAttempt | None
    last: RankAttempt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLines:
    """One node and its devices."""

    node: Node
    away: bool
    devices: tuple[DeviceLine, ...]

    @property
    def busy(self) -> int:
        return sum(line.standing == "busy" for line in self.devices)

    @property
    def last_task_at(self) -> datetime | None:
        return max(
            (line.device.last_task_at for line in self.devices if line.device.last_task_at), default=None
        )

    @property
    def pool_bytes(self) -> int:
        return sum(line.device.pool_bytes for line in self.devices)

    @property
    def taken_bytes(self) -> int:
        return sum(line.taken_bytes for line in self.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """All nodes, their ring, and how many of what there are."""

    nodes: tuple[NodeLines, ...]
    ring: Ring

    @property
    def listed(self) -> bool:
        """Whether a table of all devices is short enough to be sent again and again."""
        return len(self.lines) <= MOST_LISTED

    @property
    def lines(self) -> list[DeviceLine]:
        return [line for node in self.nodes for line in node.devices]

    @property
    def busy(self) -> int:
        return sum(line.standing == "busy" for line in self.lines)

    @property
    def away(self) -> list[str]:
        return [one.node.name for one in self.nodes if one.away]

    @property
    def drawn(self) -> list[tuple[Sector, NodeLines, list[tuple[Circle, DeviceLine]]]]:
        """Every sector with its node, every circle with its device."""
        return [
            (sector, node, list(zip(sector.circles, node.devices, strict=True)))
            for sector, node in zip(self.ring.sectors, self.nodes, strict=True)
        ]


def machines_of(session: Session, *, now: datetime, silence_s: float, name: str | None = None) -> Machines:
    """Every node by name, or the one that is asked for, with its devices as they stand `now`."""
    rows = queries.nodes(session, name=name)
    taken = queries.pool_bytes_taken(session)
    holders = queries.holders(session)
    newest = queries.newest_attempts_by_device(session)
    found = tuple(
        NodeLines(
            node=node,
            away=nodes.is_away(node, now=now, silence_s=silence_s),
            devices=tuple(
                _line(device, now=now, taken=taken, holders=holders, newest=newest) for device in node.devices
            ),
        )
        for node in rows
    )
    return Machines(nodes=found, ring=draw_ring(_sizes(rows)))


def _sizes(rows: Sequence[Node]) -> list[tuple[str, int]]:
    return [(node.name, len(node.devices)) for node in rows]


def _line(
    device: Device,
    *,
    now: datetime,
    taken: dict[UUID, int],
    holders: dict[UUID, RankAttempt],
    newest: dict[UUID, RankAttempt],
) -> DeviceLine:
    taken_bytes = taken.get(device.id, 0)
    share = 100 * taken_bytes / device.pool_bytes if device.pool_bytes else 0.0
    standing = "busy" if device.held_by else "free"
    return DeviceLine(
        device=device,
        taken_bytes=taken_bytes,
        taken_percent=round(min(share, 100.0), 1),
        standing="no worker yet" if device.worker_started_at is None else standing,
        consumed_lately=device.last_task_at is not None and now - device.last_task_at <= LATELY,
        holder=holders.get(device.id),
        last=newest.get(device.id),
    )
