"""Routes of nodes: what a node's agent and rank workers say, and what clients read."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from fastapi import Request, Response
from sqlalchemy.orm import Session

from app.core.runtime import Runtime
from app.db.session import database_time
from app.models import Device, Node, RankAttempt
from app.nodes import service
from app.nodes.schemas import (
    DeviceList,
    DeviceName,
    DeviceResource,
    GoneBody,
    HolderResource,
    NodeBody,
    NodeList,
    NodeResource,
    WorkerBody,
    WorkerResource,
)
from app.web.auth import check_node
from app.web.deps import (
    NodeReporter,
    NodesReader,
    ReadSession,
    RestoresWriter,
    SettingsDep,
    WriteSession,
)
from app.web.etag import conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import NodeName, TotalResource

router = ApiRouter(prefix="/api/v1/nodes", tags=["nodes"])


def _device(device: Device, *, holders: Mapping[UUID, RankAttempt]) -> DeviceResource:
    taken = ("name", "kind", "queue", "pool_bytes", "generation", "runtime", "worker_started_at")
    holder = holders.get(device.held_by) if device.held_by else None
    return DeviceResource.model_validate(
        {name: getattr(device, name) for name in (*taken, "last_task_at")}
        | {"busy": device.held_by is not None, "held_by": _holder(holder) if holder else None}
    )


def _holder(attempt: RankAttempt) -> HolderResource:
    return HolderResource(
        attempt_id=attempt.id,
        restore_id=attempt.restore_id,
        rank=attempt.rank,
        lease_expires_at=attempt.lease_expires_at,
    )


def _resources(session: Session, nodes: Sequence[Node], *, silence_s: float) -> list[NodeResource]:
    now = database_time(session)
    holders = service.holders(session, devices=[device for node in nodes for device in node.devices])
    return [
        NodeResource(
            name=node.name,
            created_at=node.created_at,
            last_seen_at=node.last_seen_at,
            scanned_at=node.scanned_at,
            away=service.is_away(node, now=now, silence_s=silence_s),
            devices=[_device(device, holders=holders) for device in node.devices],
        )
        for node in nodes
    ]


@router.put(
    "/{name}",
    operation_id="register_node",
    summary="Say that a node is there, and its devices",
    responses=problem_responses("other-node"),
)
def register_node(
    name: NodeName, body: NodeBody, principal: NodeReporter, session: WriteSession, settings: SettingsDep
) -> NodeResource:
    check_node(principal, node_name=name)
    statements = [
        service.DeviceStatement(name=device.name, kind=device.kind, pool_bytes=device.pool_bytes)
        for device in body.devices
    ]
    node = service.register_node(session, name=name, devices=statements, by=principal.name)
    return _resources(session, [node], silence_s=settings.node_silence_s)[0]


@router.post(
    "/{name}/devices/{device}/workers",
    operation_id="start_rank_worker",
    summary="Open a new generation of a device for a rank worker that starts",
    status_code=201,
    responses=problem_responses("other-node", "not-found", "document-refused"),
)
def start_worker(
    name: NodeName,
    device: DeviceName,
    body: WorkerBody,
    principal: NodeReporter,
    session: WriteSession,
    settings: SettingsDep,
) -> WorkerResource:
    check_node(principal, node_name=name)
    runtime = Runtime.parse(body.runtime).to_document()
    row = service.start_worker(session, node_name=name, device_name=device, runtime=runtime)
    return WorkerResource(
        node=name, device=device, generation=row.generation, queue=row.queue, lease_s=settings.lease_s
    )


@router.post(
    "/{name}/gone",
    operation_id="declare_node_gone",
    summary="Say that a silent machine will not come back",
    description=(
        "Restores that wait for its ranks, or for its pages to be given back, end without it. Refused while "
        "the node is heard. Should it come back, start its agent anew."
    ),
    responses=problem_responses("not-found", "conflict"),
)
def declare_gone(
    name: NodeName, body: GoneBody, principal: RestoresWriter, session: WriteSession, settings: SettingsDep
) -> NodeResource:
    silence_s = settings.node_silence_s
    node = service.declare_gone(
        session, name=name, reason=body.reason, silence_s=silence_s, by=principal.name
    )
    return _resources(session, [node], silence_s=silence_s)[0]


@router.get(
    "",
    operation_id="list_nodes",
    summary="List nodes with their devices, newest first",
    response_model=NodeList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_nodes(
    request: Request, _principal: NodesReader, session: ReadSession, settings: SettingsDep, page: PageDep
) -> Response:
    rows = service.list_nodes(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    nodes = _resources(session, shown, silence_s=settings.node_silence_s)
    total = TotalResource.model_validate(service.count_nodes(session))
    return conditional_json(request, NodeList(nodes=nodes, next_page_token=token, total=total))


@router.get(
    "/{name}",
    operation_id="get_node",
    summary="One node",
    response_model=NodeResource,
    responses=problem_responses("not-found"),
)
def get_node(
    name: NodeName, request: Request, _principal: NodesReader, session: ReadSession, settings: SettingsDep
) -> Response:
    node = service.get_node(session, name=name)
    return conditional_json(request, _resources(session, [node], silence_s=settings.node_silence_s)[0])


@router.get(
    "/{name}/devices",
    operation_id="list_devices",
    summary="All devices of a node by name, with what each does now",
    response_model=DeviceList,
    responses=problem_responses("not-found"),
)
def list_devices(name: NodeName, request: Request, _principal: NodesReader, session: ReadSession) -> Response:
    devices = service.get_node(session, name=name).devices
    holders = service.holders(session, devices=devices)
    return conditional_json(
        request, DeviceList(devices=[_device(device, holders=holders) for device in devices])
    )


@router.get(
    "/{name}/devices/{device}",
    operation_id="get_device",
    summary="One device: its worker's generation, its last task, who holds it until when",
    response_model=DeviceResource,
    responses=problem_responses("not-found"),
)
def get_device(
    name: NodeName, device: DeviceName, request: Request, _principal: NodesReader, session: ReadSession
) -> Response:
    found = service.get_device(session, node_name=name, device_name=device)
    return conditional_json(request, _device(found, holders=service.holders(session, devices=[found])))
