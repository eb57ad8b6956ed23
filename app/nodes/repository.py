"""SQL of nodes and devices."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, joinedload, selectinload

from app.models import Device, Node, RankAttempt
from app.web.paging import Cursor, Total, count_rows


def node_by_name(session: Session, *, name: str) -> Node | None:
    query = select(Node).options(selectinload(Node.devices)).where(Node.name == name)
    return session.scalars(query).one_or_none()


def list_nodes(session: Session, *, after: Cursor | None, limit: int) -> list[Node]:
    query = _NEWEST.options(selectinload(Node.devices))
    if after is not None:
        query = query.where(tuple_(Node.created_at, Node.id) < (after.created_at, after.id))
    return list(session.scalars(query.limit(limit)))


def count_nodes(session: Session) -> Total:
    return count_rows(session, _NEWEST)


_NEWEST: Final = select(Node).order_by(Node.created_at.desc(), Node.id.desc())


def device_by_name(session: Session, *, node_name: str, name: str) -> Device | None:
    query = select(Device).join(Device.node).where(Node.name == node_name, Device.name == name)
    return session.scalars(query).one_or_none()


def attempts(session: Session, *, ids: Collection[UUID]) -> dict[UUID, RankAttempt]:
    return {row.id: row for row in session.scalars(select(RankAttempt).where(RankAttempt.id.in_(ids)))}


def device_registrations(session: Session, *, node_id: UUID) -> dict[UUID, tuple[object, ...]]:
    """Of each device of a node, the columns that its registration sets."""
    query = select(Device.id, Device.name, Device.kind, Device.queue, Device.pool_bytes)
    found = session.execute(query.where(Device.node_id == node_id))
    return {row.id: tuple(row[1:]) for row in found}


def upsert_node(session: Session, *, name: str, now: datetime) -> UUID:
    statement = (
        insert(Node)
        .values(id=uuid4(), name=name, last_seen_at=now)
        .on_conflict_do_update(index_elements=["name"], set_={"last_seen_at": now})
        .returning(Node.id)
    )
    return session.execute(statement).scalar_one()


def upsert_device(session: Session, *, values: dict[str, object]) -> None:
    statement = insert(Device).values(id=uuid4(), **values)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["node_id", "name"],
            set_={"kind": statement.excluded.kind, "pool_bytes": statement.excluded.pool_bytes},
        )
    )


def device_for_update(session: Session, *, node_name: str, name: str) -> Device | None:
    query = (
        select(Device)
        .join(Device.node)
        .where(Node.name == node_name, Device.name == name)
        .with_for_update(of=Device, key_share=True)
    )
    return session.scalars(query).one_or_none()


def lock_devices(session: Session, *, ids: Collection[UUID]) -> list[Device]:
    """Lock devices in the order of their ids: whoever needs several takes them in the same order.

    Their keys stay readable: an order that refers to them, in the order of its ranks, must not wait.
    """
    query = select(Device).options(joinedload(Device.node)).where(Device.id.in_(ids)).order_by(Device.id)
    query = query.with_for_update(of=Device, key_share=True)
    return list(session.scalars(query.execution_options(populate_existing=True)))
