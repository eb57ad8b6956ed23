"""Routes for rank workers: claim, heartbeat, ready, failure, decision, publish, retracted, pages.

All but the claim carry the fencing token the claim gave out, in the header `Fencing-Token`.
"""

from functools import lru_cache
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Header
from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject, decode_canonical, expect_object
from app.restores.api import resources
from app.restores.api.deps import Admission, AdmissionDep, MessagesDep
from app.restores.schemas import (
    ClaimBody,
    ClaimResource,
    DecisionResource,
    HeartbeatBody,
    LayersBody,
    PublishBody,
    ReadbackResource,
)
from app.restores.service import attempts, claims, pace, readback, residency
from app.restores.service.attempts import Speaker
from app.restores.service.claims import ClaimAsked
from app.web.body import json_document, raw_body
from app.web.deps import DatabaseDep, NodeReporter, SettingsDep, WriteSession
from app.web.lanes import word
from app.web.members import ApiRouter
from app.web.problems import problem_responses
from app.web.schemas import EXACT

router = ApiRouter(prefix="/api/v1/attempts/{attempt_id}", tags=["rank workers"])

LARGEST_REPORT_BYTES: Final = 4 * 1024 * 1024
TOKEN_PROBLEMS: Final = ("other-node", "not-found", "fencing-token-stale", "lease-lost")
REPORT_PROBLEMS: Final = (
    *TOKEN_PROBLEMS,
    "report-differs",
    "runtime-differs",
    "document-refused",
    "content-too-large",
)


async def speaker(
    attempt_id: UUID,
    principal: NodeReporter,
    token: Annotated[int, Header(alias="Fencing-Token", ge=1, le=EXACT, description="from the claim")],
) -> Speaker:
    return Speaker(attempt_id=attempt_id, principal=principal, token=token)


SpeakerDep = Annotated[Speaker, Depends(speaker)]
RawReport = Annotated[bytes, Depends(raw_body(limit_bytes=LARGEST_REPORT_BYTES))]


@lru_cache(maxsize=256)
def _document(canonical: bytes) -> JsonObject:
    """A document that many ranks are told, decoded once; nobody changes it."""
    return expect_object(decode_canonical(canonical, subject="document"), subject="document")


def _decided(session: Session, told: resources.Decided, *, admission: Admission) -> DecisionResource:
    """The decision, and a look at the queue if this request has freed devices."""
    if told.outcome is not None:
        admission.look_after(session)
    return resources.decision(told)


@router.post(
    "/claim",
    operation_id="claim_attempt",
    summary="Claim an admitted rank attempt; a second claim is refused",
    responses=problem_responses("other-node", "not-found", "attempt-not-claimable"),
)
@word
def claim(
    attempt_id: UUID, body: ClaimBody, principal: NodeReporter, database: DatabaseDep, settings: SettingsDep
) -> ClaimResource:
    asked = ClaimAsked(generation=body.generation, token=body.token)
    with database.single() as session:
        claimed = claims.claim_at_once(
            session, attempt_id=attempt_id, principal=principal, asked=asked, lease_s=settings.lease_s
        )
    if claimed is None:
        with database.transaction() as session:
            claimed = claims.claim(
                session, attempt_id=attempt_id, principal=principal, asked=asked, lease_s=settings.lease_s
            )
    granted, question = claimed.granted, claimed.question
    return ClaimResource(
        attempt_id=attempt_id,
        restore_id=granted.restore_id,
        rank=granted.rank,
        token=granted.token,
        lease_s=settings.lease_s,
        root_path=granted.root_path,
        storage_key=granted.storage_key,
        context_digest=granted.context_digest,
        root_document_sha256=granted.root_document_sha256,
        stream_pinned=granted.is_pinned,
        span_tokens=granted.span_tokens,
        oracle=None if question is None else _document(question.to_bytes()),
        fault=granted.fault,
        layout=_document(claimed.layout.canonical),
        pace_s=pace.pace_s(granted.rank_count),
        turn_s=pace.turn_s(granted.rank, rank_count=granted.rank_count),
    )


@router.post(
    "/heartbeat",
    operation_id="heartbeat_attempt",
    summary="Renew the lease; hear whether to go on",
    responses=problem_responses(*TOKEN_PROBLEMS),
)
@word
def heartbeat(
    body: HeartbeatBody,
    speaker: SpeakerDep,
    database: DatabaseDep,
    settings: SettingsDep,
) -> DecisionResource:
    progress = body.progress.model_dump() if body.progress else None
    with database.single() as session:
        told = attempts.beat(session, speaker, progress=progress, lease_s=settings.lease_s)
    if told is not None:
        return resources.decision(told)
    with database.transaction() as session:
        restore = attempts.heartbeat(session, speaker, progress=progress, lease_s=settings.lease_s)
        return resources.decision(restore)


@router.put(
    "/ready",
    operation_id="report_ready",
    summary="Everything is placed: send the rank's report",
    responses=problem_responses(*REPORT_PROBLEMS),
    openapi_extra=json_document(
        "The rank report, the worker's runtime and, in ns, start of service and round trip"
    ),
)
@word
def ready(
    raw: RawReport,
    speaker: SpeakerDep,
    database: DatabaseDep,
    messages: MessagesDep,
) -> DecisionResource:
    with database.transaction() as session:
        return resources.decision(attempts.record_ready(session, speaker, raw=raw, messages=messages))


@router.put(
    "/failure",
    operation_id="report_failure",
    summary="The rank could not restore: send its report",
    responses=problem_responses(*REPORT_PROBLEMS),
    openapi_extra=json_document(
        "The rank report, the worker's runtime and, in ns, start of service and round trip"
    ),
)
@word
def failure(
    raw: RawReport,
    speaker: SpeakerDep,
    database: DatabaseDep,
    admission: AdmissionDep,
) -> DecisionResource:
    with database.transaction() as session:
        told = attempts.record_failure(session, speaker, raw=raw, messages=admission.messages)
        return _decided(session, told, admission=admission)


@router.get(
    "/decision",
    operation_id="poll_decision",
    summary="What is decided so far (a short poll)",
    responses=problem_responses("other-node", "not-found", "fencing-token-stale"),
)
@word
def decision(speaker: SpeakerDep, database: DatabaseDep) -> DecisionResource:
    with database.single() as session:
        told = attempts.ask(session, speaker)
    if told is not None:
        return resources.decision(told)
    with database.reading() as session:
        attempt = attempts.attempt_of(session, speaker)
        shown, first = resources.decision(attempt.restore), attempts.must_note_heard(attempt)
    if first:
        # Only now: a second connection for every poll at once would empty the pool.
        with database.transaction() as session:
            attempts.note_heard(session, speaker)
    return shown


@router.put(
    "/publish",
    operation_id="acknowledge_publish",
    summary="The pages are published under the decision's epoch",
    responses=problem_responses(*TOKEN_PROBLEMS, "epoch-stale"),
)
@word
def publish(
    body: PublishBody,
    speaker: SpeakerDep,
    database: DatabaseDep,
    admission: AdmissionDep,
) -> DecisionResource:
    with database.transaction() as session:
        told = attempts.acknowledge_publish(session, speaker, epoch=body.epoch, messages=admission.messages)
        return _decided(session, told, admission=admission)


@router.put(
    "/retracted",
    operation_id="report_retracted",
    summary="The pages were given back as decided",
    responses=problem_responses(*TOKEN_PROBLEMS, "epoch-stale"),
)
@word
def retracted(
    speaker: SpeakerDep,
    database: DatabaseDep,
    admission: AdmissionDep,
) -> DecisionResource:
    with database.transaction() as session:
        told = attempts.record_retracted(session, speaker, messages=admission.messages)
        return _decided(session, told, admission=admission)


@router.put(
    "/readbacks/{readback_id}",
    operation_id="report_layers",
    summary="The digests of the published pages, read back by layer",
    responses=problem_responses("other-node", "not-found", "fencing-token-stale", "gone", "report-differs"),
)
def report_layers(
    readback_id: UUID,
    body: LayersBody,
    speaker: SpeakerDep,
    session: WriteSession,
) -> ReadbackResource:
    attempt = attempts.locked_attempt(session, speaker)
    residency.check_resident(attempt.restore)
    row = readback.record_rank(
        session,
        readback_id=readback_id,
        attempt=attempt,
        layers=[layer.model_dump() for layer in body.layers],
    )
    return resources.readback_resource(row)


@router.put(
    "/released",
    operation_id="report_released",
    summary="The pages are no longer there",
    responses=problem_responses("other-node", "not-found", "fencing-token-stale"),
)
@word
def released(
    speaker: SpeakerDep,
    database: DatabaseDep,
    admission: AdmissionDep,
) -> DecisionResource:
    with database.transaction() as session:
        held = attempts.held_rank(session, speaker)
        told = residency.report_gone(session, held, messages=admission.messages, settings=admission.settings)
    if held.pages_released_at is None:
        # Asked after the commit: an order that came meanwhile has seen the pages there, or is seen here.
        with database.single() as session:
            is_wanted = residency.is_wanted(session, device_id=held.device_id)
        if is_wanted:
            admission.looks.look()
    return resources.decision(told)
