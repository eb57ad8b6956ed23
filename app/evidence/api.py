"""Routes of evidence exports."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from fastapi import Request, Response
from fastapi.responses import FileResponse

from app.config import Settings
from app.core.canonical_json import encode_canonical
from app.evidence.schemas import (
    BundleResource,
    ExportBody,
    ExportList,
    ExportResource,
    ProblemOfExport,
    ProgressResource,
    TopologyResource,
)
from app.evidence.service import reading, request
from app.evidence.service.request import ExportOrder
from app.ledger.api import SignerDep
from app.models import EvidenceExport
from app.web.deps import EvidenceExporter, ReadSession, SettingsDep, WriteSession
from app.web.etag import IMMUTABLE, conditional_json, matches
from app.web.idempotency import Answer, IdempotencyKey, answer_once
from app.web.members import ApiRouter
from app.web.paging import PageDep, next_token
from app.web.problems import problem_responses
from app.web.schemas import TotalResource

router = ApiRouter(prefix="/api/v1/evidence", tags=["evidence"])

TAR: Final = "application/x-tar"
_SIGNING: Final = ("ledger-key-missing", "ledger-inconsistent")


@router.post(
    "",
    operation_id="request_evidence",
    summary="Have a bundle built of a period, of images or a topology, or of everything",
    description=(
        "Answers at once with the export, which is its own long-running operation: follow `Location`. The "
        "bundle covers the ledger up to `ledger_size`, the end of the period or its head, whichever is less; "
        "the answer says which. Asked again with that size, it is the same bundle byte for byte."
    ),
    status_code=202,
    response_model=ExportResource,
    responses=problem_responses("ledger-out-of-range", "evidence-empty", *_SIGNING),
)
def request_evidence(
    body: ExportBody,
    principal: EvidenceExporter,
    key: IdempotencyKey,
    session: WriteSession,
    signer: SignerDep,
    settings: SettingsDep,
) -> Response:
    order = ExportOrder(
        period_from=_utc(body.period_from),
        period_until=_utc(body.period_to),
        image_config_ids=tuple(body.images),
        topology=(body.topology.tp, body.topology.dcp) if body.topology else None,
        ledger_size=body.ledger_size,
    )

    def produce() -> Answer:
        export = request.request_export(session, order=order, signer=signer, by=principal.name)
        return Answer(
            status=202,
            body=shown(export, settings=settings).model_dump_json().encode(),
            location=f"{router.prefix}/{export.id}",
        )

    asked = encode_canonical(body.model_dump(mode="json"))
    return answer_once(
        session,
        principal=principal.name,
        key=key,
        request=b"POST /api/v1/evidence\n" + asked,
        produce=produce,
    )


@router.get(
    "",
    operation_id="list_evidence",
    summary="List exports, newest first",
    response_model=ExportList,
    responses=problem_responses("page-token-invalid", "page-size-invalid"),
)
def list_evidence(
    http: Request, _principal: EvidenceExporter, session: ReadSession, page: PageDep, settings: SettingsDep
) -> Response:
    rows = reading.list_exports(session, after=page.after, limit=page.size + 1)
    kept, token = next_token(page, rows)
    total = TotalResource.model_validate(reading.count_exports(session))
    exports = [shown(row, settings=settings) for row in kept]
    listed = ExportList(exports=exports, next_page_token=token, total=total)
    return conditional_json(http, listed)


@router.get(
    "/{export_id}",
    operation_id="get_evidence",
    summary="One export: how far it is, or what became of it",
    response_model=ExportResource,
    responses=problem_responses("not-found"),
)
def get_evidence(
    export_id: UUID,
    http: Request,
    _principal: EvidenceExporter,
    session: ReadSession,
    settings: SettingsDep,
) -> Response:
    export = reading.get_export(session, export_id=export_id)
    return conditional_json(http, shown(export, settings=settings))


@router.get(
    "/{export_id}/bundle",
    operation_id="get_evidence_bundle",
    summary="The bundle: one tar, to be verified offline with the verify.pyz in it",
    description="The ETag is the SHA-256 of the bytes. Parts can be asked for with `Range`.",
    response_class=Response,
    responses={
        200: {
            "description": "The bundle",
            "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
        },
        206: {
            "description": "A part of it",
            "content": {TAR: {"schema": {"type": "string", "format": "binary"}}},
        },
        **problem_responses("not-found", "evidence-not-ready", "evidence-gone"),
    },
)
def get_evidence_bundle(
    export_id: UUID,
    http: Request,
    _principal: EvidenceExporter,
    session: ReadSession,
    settings: SettingsDep,
) -> Response:
    return bundle_response(http, reading.get_export(session, export_id=export_id), settings=settings)


@router.post(
    "/{export_id}/cancel",
    operation_id="cancel_evidence",
    summary="Call an export off that is not built yet",
    responses=problem_responses("not-found", "conflict"),
)
def cancel_evidence(
    export_id: UUID, principal: EvidenceExporter, session: WriteSession, settings: SettingsDep
) -> ExportResource:
    export = request.cancel_export(session, export_id=export_id, by=principal.name)
    return shown(export, settings=settings)


@router.post(
    "/{export_id}/discard",
    operation_id="discard_evidence",
    summary="Give the file of a bundle up before its days are over; the record stays",
    responses=problem_responses("not-found", "conflict"),
)
def discard_evidence(
    export_id: UUID, principal: EvidenceExporter, session: WriteSession, settings: SettingsDep
) -> ExportResource:
    export = request.discard_export(session, export_id=export_id, by=principal.name)
    return shown(export, settings=settings)


def bundle_response(http: Request, export: EvidenceExport, *, settings: Settings) -> Response:
    """The file with its length and digest, whole or a part of it, or 304.

    Raises:
        Conflict, Gone: as `reading.bundle_file`.
    """
    path = reading.bundle_file(export, settings=settings)
    headers = {"ETag": f'"{export.bundle_sha256}"', "Cache-Control": IMMUTABLE}
    if matches(http.headers.get("if-none-match"), etag=headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return FileResponse(path, media_type=TAR, filename=file_name(export), headers=headers)


def file_name(export: EvidenceExport) -> str:
    """What a downloaded bundle is called: which part of the ledger, and which bundle of it."""
    covered = f"{export.first_index}-{export.ledger_size}"
    return f"sparkgate-evidence-{covered}-{(export.bundle_sha256 or '')[:12]}.tar"


def shown(export: EvidenceExport, *, settings: Settings) -> ExportResource:
    """An export as JSON shows it."""
    topology = TopologyResource(tp=export.tp, dcp=export.dcp) if export.tp and export.dcp else None
    return ExportResource(
        id=export.id,
        state=export.state,
        done=export.ended_at is not None,
        created_at=export.created_at,
        created_by=export.created_by,
        period_from=export.period_from,
        period_to=export.period_until,
        images=list(export.image_config_ids),
        topology=topology,
        first_index=export.first_index,
        ledger_size=export.ledger_size,
        progress=ProgressResource.model_validate(export.progress) if export.progress else None,
        problem=ProblemOfExport.model_validate(export.problem) if export.problem else None,
        bundle=_bundle(export),
        ended_at=export.ended_at,
        kept_until=reading.kept_until(export, settings=settings),
        expired_at=export.expired_at,
    )


def _bundle(export: EvidenceExport) -> BundleResource | None:
    if export.bundle_sha256 is None or export.bundle_bytes is None or export.manifest_sha256 is None:
        return None
    return BundleResource(
        sha256=export.bundle_sha256,
        bytes=export.bundle_bytes,
        manifest_sha256=export.manifest_sha256,
        contents=export.contents or {},
    )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
