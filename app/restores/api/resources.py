"""From rows to JSON shapes."""

from collections.abc import Sequence
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from app.core.canonical_json import JsonObject, decode_canonical, decode_strict, expect_object
from app.models import RankAttempt, RankReportRow, Readback, Restore, RestoreAnswer, RestoreEvent
from app.restores.schemas import (
    AnswerResource,
    AttemptResource,
    CancellationResource,
    DecisionResource,
    EventResource,
    LayerBody,
    ProblemOfRank,
    RankLayersResource,
    ReadbackResource,
    ReportResource,
    RestoreResource,
    RestoreSummary,
)
from app.restores.service.oracle_parts import OraclePart, part_of
from app.restores.service.request import FIRST_EVENT, NewAttempt, NewRestore, Ordered

# Restores by our own engine are evidence about sparkgate and the snapshot, never about an image.
TITLE = "engine self-test"
DRILL_TITLE = "engine self-test, drill"


def summary(restore: Restore) -> RestoreSummary:
    """A restore without its attempts."""
    values = {name: getattr(restore, name) for name in RestoreSummary.model_fields if hasattr(restore, name)}
    values["problem"] = ProblemOfRank(**restore.problem) if restore.problem else None
    values["retry_of"] = restore.retry_of_id
    values["oracle_sha256"] = restore.question_sha256
    values["fault"] = _fault(restore)
    title = TITLE if restore.fault_name is None else DRILL_TITLE
    return RestoreSummary(title=title, done=restore.outcome is not None, **values)


def _fault(restore: Restore | NewRestore) -> dict[str, Any] | None:
    return None if restore.fault_name is None else {"name": restore.fault_name, "rank": restore.fault_rank}


def detail(
    restore: Restore,
    *,
    events: Sequence[RestoreEvent],
    waiting_for: Sequence[str] = (),
    retried_by: UUID | None = None,
    answer: RestoreAnswer | None = None,
) -> RestoreResource:
    """A restore with its attempts, reports and history."""
    return RestoreResource(
        **dict(summary(restore)),
        waiting_for=list(waiting_for),
        retried_by=retried_by,
        answer=None if answer is None else _answer(answer),
        cancellation=cancellation(restore),
        attempts=[_attempt(attempt, restore=restore) for attempt in restore.attempts],
        events=[EventResource.model_validate(event) for event in events],
    )


def ordered(made: Ordered) -> RestoreResource:
    """A restore as it was just written down: waiting, and nothing has happened to it."""
    restore, at = made.restore, made.written
    stated = {name: getattr(restore, name) for name in _STATED}
    return RestoreResource.model_validate(
        {
            **_NOT_YET,
            **stated,
            "title": TITLE if restore.fault_name is None else DRILL_TITLE,
            "state": "waiting",
            "done": False,
            "epoch": 0,
            "created_at": at.created_at,
            "retry_of": restore.retry_of_id,
            "oracle_sha256": restore.question_sha256,
            "fault": _fault(restore),
            "waiting_for": [],
            "attempts": [_waiting(attempt, number=restore.try_number) for attempt in restore.attempts],
            "events": [{"at": at.event_at, "kind": FIRST_EVENT, "rank": None, "detail": restore.event}],
        }
    )


_STATED: Final = (
    *("id", "context_digest", "rank_zero_storage_key", "layout_sha256", "rank_count", "span_tokens"),
    *("created_by", "try_number", "purpose", "image_config_id", "allowed_by_verdict_id"),
    *("allowed_by_exception_id", "semantic"),
)
_NOT_YET: Final = dict.fromkeys(RestoreResource.model_fields)
_RANK_NOT_YET: Final = dict.fromkeys(AttemptResource.model_fields)


def _waiting(attempt: NewAttempt, *, number: int) -> dict[str, Any]:
    taken = ("id", "rank", "root_path", "root_document_sha256", "node", "device")
    stated = {name: getattr(attempt, name) for name in taken}
    return {**_RANK_NOT_YET, **stated, "number": number, "state": "waiting"}


def _answer(row: RestoreAnswer) -> AnswerResource:
    document = expect_object(decode_canonical(row.document, subject="answer"), subject="answer")
    named = {name: getattr(row, name) for name in ("semantic", "observed", "diagnosis", "sha256")}
    return AnswerResource.model_validate({**named, "document": document})


def cancellation(restore: Restore) -> CancellationResource | None:
    """What became of the wish to call a restore off, if anybody had it."""
    if restore.cancel_requested_at is None or restore.cancel_requested_by is None:
        return None
    still_open = [attempt for attempt in restore.attempts if attempt.ended_at is None]
    not_told = [attempt.rank for attempt in still_open if attempt.retract_heard_at is None]
    state: Literal["requested", "acknowledged", "stopped"] = "requested" if not_told else "acknowledged"
    if restore.outcome is not None:
        state = "stopped"
    # A rank that was never claimed, or was lost, ended without being told.
    told = [attempt.retract_heard_at or attempt.ended_at for attempt in restore.attempts]
    return CancellationResource(
        state=state,
        requested_at=restore.cancel_requested_at,
        requested_by=restore.cancel_requested_by,
        reason=restore.cancel_reason,
        acknowledged_at=None if not_told else max((one for one in told if one is not None), default=None),
        stopped_at=restore.ended_at,
        ranks_open=[attempt.rank for attempt in still_open],
        ranks_not_told=not_told,
    )


def _attempt(attempt: RankAttempt, *, restore: Restore) -> AttemptResource:
    taken = (
        "id",
        "rank",
        "number",
        "root_path",
        "root_document_sha256",
        "state",
        "outcome",
        "progress",
        "runtime",
    )
    times = ("claimed_at", "ready_at", "retract_heard_at", "acknowledged_at", "ended_at")
    return AttemptResource(
        **{name: getattr(attempt, name) for name in taken + times},
        node=attempt.device.node.name,
        device=attempt.device.name,
        problem=ProblemOfRank(**attempt.problem) if attempt.problem else None,
        **_reported(attempt.report, attempt=attempt, restore=restore),
    )


def _reported(row: RankReportRow | None, *, attempt: RankAttempt, restore: Restore) -> dict[str, Any]:
    """The report and the part of the answer that came with it."""
    if row is None:
        return {"report": None, "partials": None}
    document = expect_object(decode_strict(row.document, subject="rank report"), subject="rank report")
    part = part_of(document)
    partials = None if part is None or part.partials is None else part.partials.to_document()
    return {
        "report": _report(row, document=document, part=part, attempt=attempt, restore=restore),
        "partials": partials,
    }


def _report(
    row: RankReportRow,
    *,
    document: JsonObject,
    part: OraclePart | None,
    attempt: RankAttempt,
    restore: Restore,
) -> ReportResource:
    report = expect_object(document["report"], subject="rank report.report")
    values = {name: report[name] for name in ReportResource.model_fields if name in report}
    start_ns = service_start_ns(row, attempt=attempt, restore=restore)
    return ReportResource.model_validate(
        {
            **values,
            "service_start_ns": start_ns,
            "clock_error_ns": row.claim_round_trip_ns,
            "pool_commit_ns": row.pool_commit_ns,
            "oracle_start_ns": None if part is None else start_ns + part.start_ns,
            "oracle_ns": None if part is None else part.duration_ns,
        }
    )


def service_start_ns(row: RankReportRow, *, attempt: RankAttempt, restore: Restore) -> int:
    """When a rank's service began, in ns from the restore's admission, on the database's clock.

    The worker's own clock is used for the stretch after its claim only, so that clocks of different
    machines are never compared; the claim's round trip bounds the error.
    """
    if attempt.claimed_at is None or restore.admitted_at is None:
        return row.service_start_ns
    since_admission = attempt.claimed_at - restore.admitted_at
    return since_admission.days * 86_400 * 10**9 + (
        since_admission.seconds * 10**9 + since_admission.microseconds * 1000 + row.service_start_ns
    )


class Decided(Protocol):
    """What is decided of a restore: the restore itself, or what one statement said of it."""

    @property
    def decision(self) -> str | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def outcome(self) -> str | None: ...


def decision(restore: Decided) -> DecisionResource:
    """What a rank worker is told."""
    return DecisionResource.model_validate(
        {"decision": restore.decision, "epoch": restore.epoch, "outcome": restore.outcome}
    )


def readback_resource(readback: Readback) -> ReadbackResource:
    """A readback with what the ranks answered so far."""
    return ReadbackResource(
        id=readback.id,
        restore_id=readback.restore_id,
        created_at=readback.created_at,
        created_by=readback.created_by,
        done=readback.ended_at is not None,
        problem=ProblemOfRank(**readback.problem) if readback.problem else None,
        ranks=[
            RankLayersResource(
                rank=one.rank,
                layers=[LayerBody.model_validate(layer) for layer in one.layers],
                received_at=one.received_at,
            )
            for one in readback.ranks
        ],
    )
