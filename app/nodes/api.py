"""Routes of nodes: what a node's agent and rank workers say, and what clients read."""

from datetime import datetime

from fastapi import APIRouter, Request, Response

from app.core.runtime import Runtime
from app.db.session import database_time
from app.models import Node
from app.nodes import service
from app.nodes.schemas import (
    DeviceName,
    DeviceResource,
    NodeBody,
    NodeList,
    NodeResource,
    WorkerBody,
    WorkerResource,
)
from app.web.auth import check_node
from app.web.deps import NodeReporter, NodesReader, ReadSession, SettingsDep, WriteSession
from app.web.etag import conditional_json
from app.web.problems import problem_responses
from app.web.schemas import NodeName

router = APIRouter(prefix="/api/v1/nodes", tags=["nodes"])


def _resource(node: Node, *, now: datetime, silence_s: float) -> NodeResource:
    devices = [
        DeviceResource(
            name=device.name,
            kind=device.kind,
            queue=device.queue,
            pool_bytes=device.pool_bytes,
            generation=device.generation,
            runtime=device.runtime,
            worker_started_at=device.worker_started_at,
            last_task_at=device.last_task_at,
            busy=device.held_by is not None,
        )
        for device in node.devices
    ]
    return NodeResource(
        name=node.name,
        created_at=node.created_at,
        last_seen_at=node.last_seen_at,
        scanned_at=node.scanned_at,
        away=service.is_away(node, now=now, silence_s=silence_s),
        devices=devices,
    )


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
    return _resource(node, now=database_time(session), silence_s=settings.node_silence_s)


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


@router.get(
    "",
    operation_id="list_nodes",
    summary="All nodes with their devices",
    response_model=NodeList,
    responses=problem_responses(),
)
def list_nodes(
    request: Request, _principal: NodesReader, session: ReadSession, settings: SettingsDep
) -> Response:
    now = database_time(session)
    nodes = [
        _resource(node, now=now, silence_s=settings.node_silence_s) for node in service.list_nodes(session)
    ]
    return conditional_json(request, NodeList(nodes=nodes))


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
    now = database_time(session)
    return conditional_json(request, _resource(node, now=now, silence_s=settings.node_silence_s))
