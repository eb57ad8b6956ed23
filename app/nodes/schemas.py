"""JSON shapes of nodes and devices."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from app.web.schemas import EXACT, Body, NodeName, Resource, TotalResource

DeviceName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$"), Field(examples=["host0"])
]
PoolBytes = Annotated[int, Field(ge=0, le=2**50, examples=[2147483648])]


class DeviceBody(Body):
    name: DeviceName
    kind: Literal["host", "cuda"]
    pool_bytes: PoolBytes


class NodeBody(Body):
    devices: Annotated[list[DeviceBody], Field(min_length=1, max_length=64)]


class WorkerBody(Body):
    runtime: Annotated[
        dict[str, str | Annotated[int, Field(ge=0, le=EXACT)]],
        Field(
            max_length=32,
            description="what the worker measured of itself: exactly the facts of sparkgate-runtime/v1",
            examples=[
                {
                    "schema": "sparkgate-runtime/v1",
                    "engine": "sparkgate",
                    "engine_sha256": "a" * 64,
                    "engine_files": 103,
                    "source_sha256": "b" * 64,
                    "source_files": 277,
                    "image_config_id": "none",
                    "python": "CPython 3.13.1",
                    "numpy": "2.4.6",
                    "cupy": "none",
                    "machine": "aarch64",
                    "system": "Linux 6.11.0",
                }
            ],
        ),
    ]


class GoneBody(Body):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")] = Field(
        examples=["its board failed; ticket 4711"]
    )


class HolderResource(Resource):
    """The rank attempt that has a device now."""

    attempt_id: UUID
    restore_id: UUID
    rank: int
    lease_expires_at: datetime | None = Field(description="none before its worker has claimed it")


class DeviceResource(Resource):
    name: DeviceName
    kind: Literal["host", "cuda"]
    queue: str
    pool_bytes: int
    generation: int = Field(description="counts the rank workers that have served it")
    runtime: dict[str, Any] | None = Field(description="what its rank worker measured of itself")
    worker_started_at: datetime | None
    last_task_at: datetime | None = Field(description="when its rank worker last consumed a task")
    busy: bool
    held_by: HolderResource | None


class DeviceList(Resource):
    devices: list[DeviceResource]


class NodeResource(Resource):
    name: NodeName
    created_at: datetime
    last_seen_at: datetime
    scanned_at: datetime | None
    away: bool
    devices: list[DeviceResource]


class NodeList(Resource):
    nodes: list[NodeResource]
    next_page_token: str = ""
    total: TotalResource


class WorkerResource(Resource):
    """The generation a new rank worker works under."""

    node: NodeName
    device: DeviceName
    generation: int
    queue: str
    lease_s: float
