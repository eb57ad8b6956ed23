"""What a finished restore measured becomes a receipt, once, and is judged like any other.

By the timetable and not by the rank that spoke last: judging must neither delay nor undo the end of a
restore. The restore's row is held meanwhile and names the receipt, so there is exactly one.
"""

import logging
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.config import Settings
from app.core.canonical_json import decode_strict, expect_object
from app.core.digest import Digest
from app.core.errors import CoreError
from app.core.oracle.judgement import OracleJudgement
from app.core.oracle.partials import RankPartials
from app.core.qualify.own_receipt import (
    Asked,
    ControlAnswer,
    FinishedRank,
    FinishedRestore,
    InjectedFault,
    RestoredAnswer,
    RestoredSnapshot,
    restore_receipt,
)
from app.core.qualify.values import Basis
from app.core.restore.report import RankReport, parse_report
from app.core.runtime import Runtime
from app.db.session import Database
from app.errors import NotFound
from app.ledger import service as ledger
from app.manifests import service as manifests
from app.models import RankAttempt, Restore
from app.receipts.service.stored import facts_of_bytes
from app.restores.repository.receipts import lock_with_reports, without_receipt
from app.restores.service.answers import judged_again, partials_of_reports
from app.verdicts.service.allowed import scope_of_snapshot
from app.verdicts.service.submit import submit

log = logging.getLogger(__name__)

AT_A_TIME: Final = 20
_NS: Final = 10**9


def write_receipts(database: Database, *, settings: Settings) -> None:
    """Write the receipts of restores that have ended, oldest first, each in a transaction of its own."""
    with database.reading() as session:
        due = without_receipt(session, limit=AT_A_TIME)
    for restore_id in due:
        try:
            with database.transaction() as session:
                write_receipt(session, restore_id=restore_id, grade=Basis(settings.deployable_grade))
        except SQLAlchemyError:
            log.exception("restore %s: its receipt is left to the next tick", restore_id)


def write_receipt(session: Session, *, restore_id: UUID, grade: Basis) -> None:
    """Write the receipt of one restore, unless there is one, or none can be."""
    restore = lock_with_reports(session, restore_id=restore_id)
    if restore is None or restore.outcome is None or restore.receipt_sha256 or restore.receipt_problem:
        return
    restore.receipt_problem = _nothing_measured(restore)
    if restore.receipt_problem is None:
        try:
            raw = restore_receipt(_finished(session, restore))
        except (CoreError, NotFound) as error:
            restore.receipt_problem = str(error)[:500]
        else:
            facts = facts_of_bytes(raw)
            submit(session, raw=raw, facts=facts, origin=None, by=ledger.CONTROL_PLANE, grade=grade)
            restore.receipt_sha256 = facts.sha256
    ledger.record(
        session,
        kind="restore-receipt",
        by=ledger.CONTROL_PLANE,
        rows={"restore.receipt": [restore]},
        facts={"restore": str(restore.id), "receipt": restore.receipt_sha256 or "none"},
    )


def _nothing_measured(restore: Restore) -> str | None:
    """Why a restore is no evidence at all."""
    if restore.cancel_requested_at is not None and restore.outcome == "incomplete":
        return "it was called off: that says nothing about what was to run it"
    if not any(attempt.runtime for attempt in restore.attempts):
        return "no rank was claimed: nothing was measured"
    return None


def _finished(session: Session, restore: Restore) -> FinishedRestore:
    first = min(restore.attempts, key=lambda attempt: attempt.rank)
    document = manifests.get_document(session, sha256=first.root_document_sha256)
    scope = scope_of_snapshot(document)
    judgement, partials = judged_again(session, restore=restore), partials_of_reports(restore)
    return FinishedRestore(
        restore_id=str(restore.id),
        decision_epoch=restore.epoch,
        decided_at_ns=_instant_ns(restore.decided_at or restore.ended_at),
        purpose=restore.purpose,
        snapshot=RestoredSnapshot(
            root=first.root_path,
            identity=manifests.parsed(document).identity,
            context_digest=Digest(restore.context_digest),
            span_tokens=restore.span_tokens,
            publication_schema=scope.publication_schema,
            manifest_schema=scope.manifest_schema,
        ),
        ranks=[
            _rank(attempt, restore=restore, partials=partials.get(attempt.rank))
            for attempt in restore.attempts
            if attempt.runtime
        ],
        answer=None if judgement is None else _answer(judgement),
        control=None if judgement is None else _control(judgement),
        asked=None if judgement is None else _asked(judgement),
        injected_fault=_injected(restore),
    )


def _answer(judgement: OracleJudgement) -> RestoredAnswer:
    return RestoredAnswer(
        prompt_sha256=judgement.prompt_sha256,
        prompt_tokens=judgement.prompt_tokens,
        expected=judgement.expected,
        observed=judgement.answer.word.encode(),
        finish_reason="stop",
    )


def _control(judgement: OracleJudgement) -> ControlAnswer:
    return ControlAnswer(
        prompt_sha256=judgement.control_prompt_sha256,
        prompt_tokens=judgement.prompt_tokens,
        expected=judgement.expected_control,
        observed=judgement.control.word.encode(),
    )


def _asked(judgement: OracleJudgement) -> Asked:
    found = judgement.diagnosis
    if found is None:
        return Asked(question_sha256=judgement.question_sha256)
    return Asked(
        question_sha256=judgement.question_sha256,
        fault=found.fault.value,
        ranks=found.ranks,
        detail=found.detail,
    )


def _injected(restore: Restore) -> InjectedFault | None:
    if restore.fault_name is None or restore.fault_rank is None:
        return None
    return InjectedFault(name=restore.fault_name, rank=restore.fault_rank)


def _rank(attempt: RankAttempt, *, restore: Restore, partials: RankPartials | None) -> FinishedRank:
    report = _report(attempt)
    read = report is not None and report.manifest_sha256 == attempt.root_document_sha256
    return FinishedRank(
        rank=attempt.rank,
        runtime=Runtime.parse(attempt.runtime or {}),
        report=report,
        context_digest=Digest(restore.context_digest) if read else None,
        end_to_end_ns=_end_to_end_ns(attempt, report=report),
        partials=partials,
    )


def _report(attempt: RankAttempt) -> RankReport | None:
    if attempt.report is None:
        return None
    subject = f"rank report of attempt {attempt.id}"
    document = expect_object(decode_strict(attempt.report.document, subject=subject), subject=subject)
    return parse_report(document["report"])


def _end_to_end_ns(attempt: RankAttempt, *, report: RankReport | None) -> int:
    """From the claim's answer to the end of service; of a rank that never reported, to its end."""
    if attempt.report is not None and report is not None:
        return attempt.report.service_start_ns + report.service_ns
    if attempt.claimed_at is None or attempt.ended_at is None:
        return 0
    return _instant_ns(attempt.ended_at) - _instant_ns(attempt.claimed_at)


def _instant_ns(at: datetime | None) -> int:
    """Microseconds are what the database has."""
    return 0 if at is None else int(at.timestamp()) * _NS + at.microsecond * 1000
