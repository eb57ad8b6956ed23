"""Routes of inventories (for nodes), of snapshots and their root documents (for clients)."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from app.db.session import database_time
from app.manifests import service
from app.manifests.schemas import (
    DocumentDetail,
    DocumentList,
    DocumentResource,
    InventoryBody,
    InventoryResource,
    PinBody,
    PinResource,
    PlaceResource,
    RankResource,
    SnapshotList,
    SnapshotResource,
)
from app.manifests.service import RankPlace, Whereabouts
from app.nodes import service as nodes
from app.web.auth import check_node
from app.web.body import json_document, raw_body
from app.web.deps import NodeReporter, ReadSession, RestoresReader, SettingsDep, WriteSession
from app.web.etag import conditional, conditional_json
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import Hex64, NodeName, TotalResource

node_router = ApiRouter(prefix="/api/v1/nodes/{name}", tags=["nodes"])
router = ApiRouter(prefix="/api/v1/snapshots", tags=["snapshots"])
manifest_router = ApiRouter(prefix="/api/v1/manifests", tags=["snapshots"])

# Store format §19: a root document is at most 16 MiB.
LARGEST_DOCUMENT_BYTES: Final = 16 * 1024 * 1024


@node_router.put(
    "/inventory",
    operation_id="record_inventory",
    summary="Report the root documents found in the node's store roots",
    responses=problem_responses("other-node", "not-found"),
)
def record_inventory(
    name: NodeName, body: InventoryBody, principal: NodeReporter, session: WriteSession
) -> InventoryResource:
    check_node(principal, node_name=name)
    sightings = [service.Sighting(**one.model_dump()) for one in body.manifests]
    problems = [one.model_dump() for one in body.problems]
    wanted = service.record_inventory(session, node_name=name, sightings=sightings, problems=problems)
    return InventoryResource(missing_documents=list(wanted.missing), unpinned_documents=list(wanted.unpinned))


@node_router.put(
    "/documents/{sha256}",
    operation_id="record_root_document",
    summary="Send the bytes of a root document",
    status_code=201,
    responses={
        200: {"model": DocumentResource, "description": "Already there"},
        **problem_responses("other-node", "document-refused", "content-too-large"),
    },
    openapi_extra=json_document("The root document, byte for byte"),
)
def record_document(
    name: NodeName,
    sha256: Hex64,
    context_digest: Annotated[Hex64, Query(description="the digest the document is filed under")],
    raw: Annotated[bytes, Depends(raw_body(limit_bytes=LARGEST_DOCUMENT_BYTES))],
    response: Response,
    principal: NodeReporter,
    session: WriteSession,
) -> DocumentResource:
    check_node(principal, node_name=name)
    created = service.record_document(
        session, raw=raw, expected_sha256=sha256, context_digest=context_digest, by=principal.name
    )
    response.status_code = 201 if created else 200
    return DocumentResource.model_validate(service.get_document(session, sha256=sha256))


@node_router.put(
    "/documents/{sha256}/pin",
    operation_id="pin_root_document",
    summary="Say that everything the document names was checked, stream digest included",
    responses=problem_responses("other-node", "not-found", "refused"),
)
def pin_document(
    name: NodeName, sha256: Hex64, body: PinBody, principal: NodeReporter, session: WriteSession
) -> PinResource:
    check_node(principal, node_name=name)
    service.pin_document(
        session,
        sha256=sha256,
        stream_sha256=body.stream_sha256,
        node_name=name,
        root_path=body.root_path,
        by=principal.name,
    )
    return PinResource(sha256=sha256, pinned=True)


def _place(place: RankPlace) -> PlaceResource:
    return PlaceResource(
        node=place.node,
        away=place.is_away,
        root_path=place.root_path,
        root_document_sha256=place.root_document_sha256,
        pinned=place.is_pinned,
        first_seen_at=place.first_seen_at,
    )


def _resource(found: Whereabouts) -> SnapshotResource:
    first, missing = found.first, found.missing
    ranks = [
        RankResource(rank=rank, places=[_place(place) for place in found.places.get(rank, ())])
        for rank in range(first.rank_count)
    ]
    return SnapshotResource(
        context_digest=first.context_digest,
        rank_zero_storage_key=first.rank_zero_storage_key,
        rank_count=first.rank_count,
        span_tokens=first.span_tokens,
        encoded_bytes=first.encoded_bytes,
        object_count=first.object_count,
        complete=not missing,
        missing_ranks=list(missing),
        ranks=ranks,
    )


@router.get(
    "",
    operation_id="list_snapshots",
    summary="Snapshots of which some rank is there, newest first",
    response_model=SnapshotList,
    responses=problem_responses("page-token-invalid"),
)
def list_snapshots(
    request: Request, _principal: RestoresReader, session: ReadSession, settings: SettingsDep, page: PageDep
) -> Response:
    rows = service.list_snapshots(session, after=page.after, limit=page.size + 1)
    shown, token = next_token(page, rows)
    found = service.whereabouts(session, rows=shown, silence_s=settings.node_silence_s)
    snapshots = [_resource(one) for one in found]
    total = TotalResource.model_validate(service.count_snapshots(session))
    return conditional_json(request, SnapshotList(snapshots=snapshots, next_page_token=token, total=total))


@router.get(
    "/{context_digest}",
    operation_id="get_snapshot",
    summary="One snapshot and where its ranks are",
    response_model=SnapshotResource,
    responses=problem_responses("not-found", "snapshot-ambiguous"),
)
def get_snapshot(
    context_digest: Hex64,
    request: Request,
    _principal: RestoresReader,
    session: ReadSession,
    settings: SettingsDep,
    rank_zero_storage_key: Annotated[
        Hex64 | None, Query(description="where several share the digest")
    ] = None,
) -> Response:
    snapshot = service.whereabouts_of(
        session,
        context_digest=context_digest,
        rank_zero_storage_key=rank_zero_storage_key,
        silence_s=settings.node_silence_s,
    )
    return conditional_json(request, _resource(snapshot))


@manifest_router.get(
    "",
    operation_id="list_manifests",
    summary="List root documents, newest first",
    response_model=DocumentList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_manifests(
    request: Request,
    _principal: RestoresReader,
    session: ReadSession,
    page: PageDep,
    context_digest: Annotated[Hex64 | None, Query(description="only those of this token prefix")] = None,
) -> Response:
    rows = service.list_documents(
        session, context_digest=context_digest, after=page.after, limit=page.size + 1
    )
    shown, token = next_token(page, rows)
    manifests = [DocumentResource.model_validate(row) for row in shown]
    total = TotalResource.model_validate(service.count_documents(session, context_digest=context_digest))
    return conditional_json(request, DocumentList(manifests=manifests, next_page_token=token, total=total))


@manifest_router.get(
    "/{sha256}",
    operation_id="get_manifest",
    summary="One root document and where it is now",
    response_model=DocumentDetail,
    responses=problem_responses("not-found"),
)
def get_manifest(
    sha256: Hex64, request: Request, _principal: RestoresReader, session: ReadSession, settings: SettingsDep
) -> Response:
    document = DocumentResource.model_validate(service.get_document(session, sha256=sha256))
    now = database_time(session)
    places = [
        PlaceResource(
            node=place.node.name,
            away=nodes.is_away(place.node, now=now, silence_s=settings.node_silence_s),
            root_path=place.root_path,
            root_document_sha256=place.root_document_sha256,
            pinned=place.root_document.pin is not None,
            first_seen_at=place.first_seen_at,
        )
        for place in service.places_of(session, sha256=sha256)
    ]
    return conditional_json(request, DocumentDetail(**dict(document), places=places))


@manifest_router.get(
    "/{sha256}/document",
    operation_id="get_manifest_document",
    summary="The root document itself, byte for byte",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **problem_responses("not-found"),
    },
)
def get_manifest_document(
    sha256: Hex64, request: Request, _principal: RestoresReader, session: ReadSession
) -> Response:
    row = service.get_document(session, sha256=sha256)
    return conditional(request, row.document, media_type="application/json", fixed=True)
