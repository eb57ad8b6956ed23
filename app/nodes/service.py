"""Nodes register themselves and their devices; a rank worker that starts opens a new generation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.db.session import database_time
from app.errors import Conflict, NotFound
from app.ledger import service as ledger
from app.models import Device, Node, RankAttempt
from app.nodes import repository
from app.queue import device_queue
from app.web.paging import Cursor, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatement:
    """What a node says of one of its devices."""

    name: str
    kind: str
    pool_bytes: int


def register_node(session: Session, *, name: str, devices: Sequence[DeviceStatement], by: str) -> Node:
    """Note that a node is there and which devices it has; devices it no longer names stay, idle."""
    is_new = repository.node_by_name(session, name=name) is None
    node_id = repository.upsert_node(session, name=name, now=database_time(session))
    # Read with the node's row held: another registration of it would change what comes after.
    before = repository.device_registrations(session, node_id=node_id)
    # In the order of ids, as everybody does, not in that of names.
    repository.lock_devices(session, ids=before)
    for device in sorted(devices, key=lambda statement: statement.name):
        repository.upsert_device(
            session,
            values={
                "node_id": node_id,
                "name": device.name,
                "kind": device.kind,
                "pool_bytes": device.pool_bytes,
                "queue": device_queue(name, device.name),
            },
        )
    session.expire_all()
    node = get_node(session, name=name)
    _record_registration(session, node=node, is_new=is_new, before=before, by=by)
    return node


def _record_registration(
    session: Session, *, node: Node, is_new: bool, before: Mapping[UUID, tuple[object, ...]], by: str
) -> None:
    """Nodes register at every start of their agent: only what is new or other than before is a fact."""
    now = repository.device_registrations(session, node_id=node.id)
    devices = [device for device in node.devices if before.get(device.id) != now[device.id]]
    if is_new or devices:
        ledger.record(
            session,
            kind="node-registered",
            by=by,
            rows={"node.registration": [node] if is_new else [], "device.registration": devices},
            facts={"node": node.name, "devices": [device.name for device in devices]},
        )


def start_worker(session: Session, *, node_name: str, device_name: str, runtime: dict[str, Any]) -> Device:
    """Open the next generation of a device: a new rank worker process serves it.

    Pages and work of earlier generations are gone with their process; whoever depends on them compares
    generations.

    Raises:
        NotFound: the node has no such device.
    """
    device = repository.device_for_update(session, node_name=node_name, name=device_name)
    if device is None:
        raise NotFound(f"device {node_name}/{device_name}: not registered")
    device.generation += 1
    device.runtime = runtime
    device.worker_started_at = database_time(session)
    session.flush()
    return device


def declare_gone(session: Session, *, name: str, reason: str, silence_s: float, by: str) -> Node:
    """A person says that a machine will not come back: what its workers had and held is gone.

    Each device opens a generation that no worker serves, so that the timetable ends its attempts and counts
    its pages as given back. Its places of root documents stay as they are: an away node is not used.

    Raises:
        NotFound: no node has this name.
        Conflict: the node was heard a moment ago.
    """
    node = get_node(session, name=name)
    now = database_time(session)
    if not is_away(node, now=now, silence_s=silence_s):
        raise Conflict(
            f"node {name}: expected one not heard for {silence_s:.0f} s, found one heard at "
            f"{node.last_seen_at:%Y-%m-%dT%H:%M:%SZ}; stop its agent first"
        )
    devices = repository.lock_devices(session, ids=[device.id for device in node.devices])
    for device in devices:
        device.generation += 1
        device.worker_started_at = None
    ledger.record(
        session,
        kind="node-gone",
        by=by,
        rows={"node.registration": [node]},
        facts={
            "node": name,
            "reason": reason,
            "generations": {device.name: device.generation for device in devices},
        },
    )
    return node


def get_node(session: Session, *, name: str) -> Node:
    """A node by name.

    Raises:
        NotFound: none has it.
    """
    node = repository.node_by_name(session, name=name)
    if node is None:
        raise NotFound(f"node {name}: not registered")
    return node


def list_nodes(session: Session, *, after: Cursor | None, limit: int) -> list[Node]:
    """Nodes, newest first, with their devices."""
    return repository.list_nodes(session, after=after, limit=limit)


def count_nodes(session: Session) -> Total:
    """How many there are, counted up to a bound."""
    return repository.count_nodes(session)


def get_device(session: Session, *, node_name: str, device_name: str) -> Device:
    """A device by its node's name and its own.

    Raises:
        NotFound: the node has no such device.
    """
    device = repository.device_by_name(session, node_name=node_name, name=device_name)
    if device is None:
        raise NotFound(f"device {node_name}/{device_name}: not registered")
    return device


def holders(session: Session, *, devices: Sequence[Device]) -> dict[UUID, RankAttempt]:
    """The rank attempts that have these devices now, by id."""
    held = [device.held_by for device in devices if device.held_by is not None]
    return repository.attempts(session, ids=held) if held else {}


def is_away(node: Node, *, now: datetime, silence_s: float) -> bool:
    """Whether a node has been silent for too long to count on it."""
    return now - node.last_seen_at > timedelta(seconds=silence_s)
