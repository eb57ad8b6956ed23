"""Machines that run ranks, and their devices."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.base import Base, CreatedAt, Id


class Node(Base):
    """A machine that runs ranks; it registers itself and says regularly that it is there."""

    __tablename__ = "node"

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[CreatedAt]
    last_seen_at: Mapped[datetime]
    scan_problems: Mapped[list[dict[str, Any]]] = mapped_column(
        JSONB, server_default="[]", doc="what the last inventory scan could not read, as reported"
    )
    scanned_at: Mapped[datetime | None]

    devices: Mapped[list["Device"]] = relationship(back_populates="node", order_by="Device.name")


class Device(Base):
    """One GPU, or the host, of a node: runs one rank at a time and owns one queue.

    `generation` counts the rank worker processes that have served the device: a new one means
    that the pages and the work of the earlier one are gone.
    """

    __tablename__ = "device"
    __table_args__ = (UniqueConstraint("node_id", "name"),)

    id: Mapped[Id]
    node_id: Mapped[UUID] = mapped_column(ForeignKey("node.id"))
    name: Mapped[str]
    kind: Mapped[str]
    queue: Mapped[str] = mapped_column(unique=True)
    pool_bytes: Mapped[int]
    generation: Mapped[int] = mapped_column(server_default="0")
    runtime: Mapped[dict[str, Any] | None] = mapped_column(JSONB, doc="what the worker measured of itself")
    worker_started_at: Mapped[datetime | None]
    last_task_at: Mapped[datetime | None]
    held_by: Mapped[UUID | None] = mapped_column(doc="the rank attempt that has the device now")
    created_at: Mapped[CreatedAt]

    node: Mapped[Node] = relationship(back_populates="devices")
