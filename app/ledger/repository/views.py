"""The views: which columns of which table are fixed from which moment on. One table says it all.

The columns are listed and not derived: a column that comes later must not change the digests of earlier
leaves. It gets a view of its own, or a reason in `NOT_COVERED`; a test finds one that has neither.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, or_, select

from app.models import (
    Account,
    ApiKey,
    Base,
    DeclarationRow,
    Device,
    EvidenceExport,
    Image,
    ImageIdentity,
    Layout,
    ManifestPin,
    Node,
    OperationalException,
    OperationalExceptionEnd,
    OracleQuestionRow,
    ProfileDocument,
    ProfilePlace,
    RankAttempt,
    RankReadback,
    RankReportRow,
    Readback,
    ReceiptOrigin,
    ReceiptRow,
    Restore,
    RestoreAnswer,
    RestoreEvent,
    RootDocument,
    SnapshotRow,
    SourceIdentityRow,
    VerdictRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view.

    Attributes:
        columns: what a row's digest is over.
        due: which rows must have a leaf; all if None.
        of: the rows that belong to one restore or readback, where a leaf takes them all.
    """

    name: str
    model: type[Base]
    columns: tuple[str, ...]
    due: ColumnElement[bool] | None = None
    of: Callable[[UUID], ColumnElement[bool]] | None = None


def _view(name: str, model: type[Base], columns: str, **rest: Any) -> View:
    return View(name=name, model=model, columns=tuple(columns.split()), **rest)


def _attempts_of(restore_id: UUID) -> Any:
    return select(RankAttempt.id).where(RankAttempt.restore_id == restore_id)


# Said the other way round, so that a row that belongs to nothing must have a leaf too.
_open_restores = select(Restore.id).where(Restore.outcome.is_(None))
_open_attempts = select(RankAttempt.id).where(RankAttempt.restore_id.in_(_open_restores))
_unreleased_restores = select(Restore.id).where(Restore.released_at.is_(None))
_open_readbacks = select(Readback.id).where(Readback.ended_at.is_(None))

_ALL: Final = (
    _view("layout", Layout, "sha256 document group_count layer_count created_at created_by"),
    _view(
        "root_document",
        RootDocument,
        "sha256 document kind stream_sha256 storage_key rank_zero_storage_key context_digest rank rank_count "
        "span_tokens encoded_bytes object_count created_at",
    ),
    _view("snapshot", SnapshotRow, "id context_digest rank_zero_storage_key created_at"),
    _view("manifest_pin", ManifestPin, "root_document_sha256 stream_sha256 node_name root_path checked_at"),
    _view(
        "image",
        Image,
        "id config_id manifest_digest index_digest title origin record source_id created_at created_by",
    ),
    _view(
        "source_identity",
        SourceIdentityRow,
        "id repository commit tree source_sha256 created_at created_by",
    ),
    _view("node.registration", Node, "id name created_at"),
    _view("device.registration", Device, "id node_id name kind queue pool_bytes created_at"),
    _view(
        "account",
        Account,
        "id name password_hash scopes created_at created_by disabled_at disabled_by",
    ),
    _view(
        "api_key",
        ApiKey,
        "id account_id label prefix secret_sha256 scopes node_name created_at created_by "
        "expires_at revoked_at revoked_by",
    ),
    _view(
        "restore.order",
        Restore,
        "id created_at created_by context_digest rank_zero_storage_key layout_sha256 rank_count span_tokens "
        "resident_s retry_of_id try_number",
    ),
    _view(
        "restore.result",
        Restore,
        "id outcome problem decision epoch decided_at admitted_at ready_deadline_at ended_at resident_until "
        "cancel_requested_at cancel_requested_by cancel_reason",
        due=Restore.outcome.is_not(None),
    ),
    _view(
        "restore.release",
        Restore,
        "id state release_reason released_at",
        due=Restore.released_at.is_not(None),
    ),
    _view(
        "rank_attempt.order",
        RankAttempt,
        "id restore_id rank number device_id root_document_sha256 root_path pages_bytes created_at",
        of=lambda restore_id: RankAttempt.restore_id == restore_id,
    ),
    _view(
        "rank_attempt.result",
        RankAttempt,
        "id state outcome problem runtime token device_generation claimed_at ready_at "
        "acknowledged_epoch acknowledged_at ended_at",
        due=RankAttempt.restore_id.not_in(_open_restores),
        of=lambda restore_id: RankAttempt.restore_id == restore_id,
    ),
    _view(
        "rank_attempt.release",
        RankAttempt,
        "id pages_released_at",
        due=RankAttempt.restore_id.not_in(_unreleased_restores),
        of=lambda restore_id: RankAttempt.restore_id == restore_id,
    ),
    _view(
        "rank_report",
        RankReportRow,
        "attempt_id document sha256 service_start_ns claim_round_trip_ns pool_commit_ns received_at",
        due=RankReportRow.attempt_id.not_in(_open_attempts),
        of=lambda restore_id: RankReportRow.attempt_id.in_(_attempts_of(restore_id)),
    ),
    _view(
        "restore_event",
        RestoreEvent,
        "id restore_id at kind rank detail",
        due=RestoreEvent.restore_id.not_in(_open_restores),
        of=lambda restore_id: RestoreEvent.restore_id == restore_id,
    ),
    _view(
        "readback",
        Readback,
        "id restore_id created_at created_by ended_at problem",
        due=Readback.ended_at.is_not(None),
    ),
    _view(
        "rank_readback",
        RankReadback,
        "readback_id rank layers received_at",
        due=RankReadback.readback_id.not_in(_open_readbacks),
        of=lambda readback_id: RankReadback.readback_id == readback_id,
    ),
    _view(
        "restore.purpose",
        Restore,
        "id purpose image_config_id allowed_by_verdict_id allowed_by_exception_id",
        due=or_(Restore.purpose != "qualification", Restore.image_config_id.is_not(None)),
    ),
    _view(
        "restore.receipt",
        Restore,
        "id receipt_sha256 receipt_problem",
        due=or_(Restore.receipt_sha256.is_not(None), Restore.receipt_problem.is_not(None)),
    ),
    _view(
        "restore.question",
        Restore,
        "id question_sha256 fault_name fault_rank",
        due=Restore.question_sha256.is_not(None),
    ),
    _view(
        "restore.semantic",
        Restore,
        "id semantic",
        due=Restore.question_sha256.is_not(None) & Restore.outcome.is_not(None),
    ),
    _view(
        "restore_answer",
        RestoreAnswer,
        "restore_id question_sha256 semantic observed diagnosis document sha256 created_at",
        due=RestoreAnswer.restore_id.not_in(_open_restores),
        of=lambda restore_id: RestoreAnswer.restore_id == restore_id,
    ),
    _view(
        "oracle_question",
        OracleQuestionRow,
        "sha256 document context_digest layout_sha256 rank_count span_tokens expected created_at created_by",
    ),
    _view(
        "receipt",
        ReceiptRow,
        "sha256 document canonical_sha256 byte_count schema_name kind family capability image_config_id "
        "release title keys created_at created_by",
    ),
    _view(
        "receipt_origin",
        ReceiptOrigin,
        "id receipt_sha256 repository path commit committed_at keys created_at created_by",
    ),
    _view(
        "image_identity",
        ImageIdentity,
        "id image_config_id axis value value_sha256 receipt_sha256 created_at",
    ),
    _view(
        "verdict",
        VerdictRow,
        "id kind subject_key receipt_sha256 case_name capability scope_digest image_config_id source target "
        "draft tp dcp publication_schema manifest_schema outcome decided_row reason deployable "
        "deployable_reason evidence_grade deployable_grade codes finding_codes gates document "
        "document_sha256 ruleset receipts superseded_by previous_id cause cause_detail cause_receipt "
        "created_at created_by",
    ),
    _view("declaration", DeclarationRow, "id reason receipts capability created_at created_by"),
    _view(
        "operational_exception",
        OperationalException,
        "id image_config_id scope_digest scope reason expires_at created_at created_by",
    ),
    _view("operational_exception_end", OperationalExceptionEnd, "exception_id reason created_at created_by"),
    _view(
        "profile_document",
        ProfileDocument,
        "sha256 document byte_count kind schema_name title keys created_at created_by",
    ),
    _view(
        "profile_place",
        ProfilePlace,
        "id document_sha256 repository path name commit created_at created_by",
    ),
    _view(
        "evidence_export.order",
        EvidenceExport,
        "id created_at created_by period_from period_until image_config_ids tp dcp first_index ledger_size",
    ),
    _view(
        "evidence_export.result",
        EvidenceExport,
        "id ended_at problem bundle_sha256 bundle_bytes manifest_sha256 contents",
        due=EvidenceExport.ended_at.is_not(None),
    ),
    _view(
        "evidence_export.end",
        EvidenceExport,
        "id expired_at expired_by",
        due=EvidenceExport.expired_at.is_not(None),
    ),
)
VIEWS: Final = {view.name: view for view in _ALL}

# Columns that go on changing, and why no leaf holds them.
NOT_COVERED: Final[dict[str, str]] = {
    "api_key.last_used_at": "a trace of use, to the minute",
    "node.last_seen_at": "a sign of life",
    "node.scan_problems": "what the last scan said",
    "node.scanned_at": "when the last scan was",
    "device.generation": "which worker serves it now",
    "device.runtime": "what that worker measured; an attempt keeps its own copy",
    "device.worker_started_at": "when that worker started",
    "device.last_task_at": "a sign of life",
    "device.held_by": "who has it now",
    "restore.version": "counts the writes of the row",
    "rank_report.part": "a part of the document beside it",
    "rank_attempt.progress": "how far it is",
    "rank_attempt.send_count": "how often its worker was called, for whatever",
    "rank_attempt.sent_at": "when it was called last",
    "rank_attempt.next_send_at": "when its message is due again",
    "rank_attempt.lease_expires_at": "how long its worker may be silent",
    "rank_attempt.retract_heard_at": "an answer that may come after the end",
    "evidence_export.state": "follows from what is covered, once it has ended",
    "evidence_export.progress": "how far it is",
    "evidence_export.try_count": "how many workers took it",
    "evidence_export.token": "which worker builds it now",
    "evidence_export.lease_expires_at": "how long that worker may be silent",
    "evidence_export.started_at": "when that worker took it",
    "manifest_location.*": "where the last scan found a document",
    "verdict_current.*": "which verdict is newest: the verdicts say it themselves",
    "ledger_leaf.*": "the log itself",
    "ledger_node.*": "the log itself",
    "ledger_checkpoint.*": "the log itself",
}
