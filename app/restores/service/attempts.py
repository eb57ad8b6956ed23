"""What a rank worker says of its attempt. Every word but the claim must show the fencing token.

A worker may say anything twice (its network may lose our answer): the same word again gets the same answer.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.oracle.question import OracleQuestion
from app.core.restore.report import RankOutcome
from app.errors import AppError, Conflict, NotFound, Refused
from app.manifests import service as manifests
from app.manifests.service import PlanInputs
from app.models import RankAttempt, RankReportRow, Restore
from app.nodes import service as nodes
from app.oracles import service as oracles
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.repository import Told
from app.restores.service.completion import advance, end_attempt, hold_devices
from app.restores.service.oracle_parts import check_part
from app.restores.service.reports import Reported, check_runtime, problem_of, read_report
from app.web.auth import Principal, check_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The worker that speaks for an attempt: its node's key, and the fencing token its claim got."""

    attempt_id: UUID
    principal: Principal
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAsked:
    """What a worker says with its claim: its device's generation, and the token it chose, if it did."""

    generation: int
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a worker gets for its claim: the token, the lease and the inputs of the plan."""

    attempt: RankAttempt
    restore: Restore
    token: int
    inputs: PlanInputs
    question: OracleQuestion | None = None

    @property
    def fault(self) -> str | None:
        """The fault that this rank puts in on purpose."""
        return self.restore.fault_name if self.restore.fault_rank == self.attempt.rank else None


def claim(
    session: Session, *, attempt_id: UUID, principal: Principal, asked: ClaimAsked, lease_s: float
) -> Claim:
    """Give an admitted attempt to the one worker that asks first; a second delivery ends here.

    A worker that has not heard the answer asks again with the same token of its own and gets the same answer.

    Raises:
        NotFound: no such attempt.
        Forbidden: the attempt is another node's.
        Conflict: claimed before, not admitted, already decided, or asked by an earlier generation.
    """
    restore, attempt, now = _locked(session, attempt_id=attempt_id, principal=principal, exclusive=False)
    nodes.note_task(attempt.device, now=now)
    if _is_repeated(attempt, asked=asked, now=now):
        attempt.lease_expires_at = now + timedelta(seconds=lease_s)
        return _claim(session, attempt=attempt, restore=restore, token=asked.token or 0)
    obstacle = _claim_obstacle(restore, attempt=attempt, generation=asked.generation)
    if obstacle is not None:
        raise Conflict(f"attempt {attempt_id}: {obstacle}", code="attempt-not-claimable")
    attempt.token = asked.token or repository.next_token(session)
    attempt.device_generation = asked.generation
    attempt.runtime = attempt.device.runtime
    attempt.state = "claimed"
    attempt.claimed_at = now
    attempt.next_send_at = None
    attempt.lease_expires_at = now + timedelta(seconds=lease_s)
    device = f"{attempt.device.node.name}/{attempt.device.name}"
    repository.add_event(
        session, restore_id=restore.id, kind="claimed", detail=f"by {device}", rank=attempt.rank
    )
    session.flush()
    return _claim(session, attempt=attempt, restore=restore, token=attempt.token)


def _claim(session: Session, *, attempt: RankAttempt, restore: Restore, token: int) -> Claim:
    inputs = manifests.plan_inputs(
        session, sha256=attempt.root_document_sha256, layout_sha256=restore.layout_sha256
    )
    asked = restore.question_sha256
    question = None if asked is None else oracles.known_question(session, sha256=asked)
    return Claim(attempt=attempt, restore=restore, token=token, inputs=inputs, question=question)


def _is_repeated(attempt: RankAttempt, *, asked: ClaimAsked, now: datetime) -> bool:
    """Whether this very claim was granted before and its worker has said nothing else since."""
    granted = (attempt.token, attempt.device_generation)
    if asked.token is None or granted != (asked.token, asked.generation) or attempt.state != "claimed":
        return False
    return attempt.lease_expires_at is not None and attempt.lease_expires_at >= now


def _claim_obstacle(restore: Restore, *, attempt: RankAttempt, generation: int) -> str | None:
    if attempt.state != "waiting" or restore.decision is not None:
        return f"expected waiting in a running restore, found {attempt.state} in a {restore.state} one"
    if restore.state != "running" or attempt.device.held_by != attempt.id:
        return "expected an admitted attempt, found one that waits for its device"
    if generation != attempt.device.generation:
        return f"expected generation {attempt.device.generation} of the device, found {generation}"
    return None


def beat(
    session: Session, speaker: Speaker, *, progress: dict[str, Any] | None, lease_s: float
) -> Told | None:
    """Renew the lease with one statement; None where there is more to it, and `heartbeat` has to say what."""
    return repository.beat(
        session,
        attempt_id=speaker.attempt_id,
        token=speaker.token,
        node=speaker.principal.node_name,
        progress=progress,
        lease_s=lease_s,
    )


def ask(session: Session, speaker: Speaker) -> Told | None:
    """What is decided, with one statement; None where there is more to it, see `attempt_of`."""
    return repository.ask(
        session, attempt_id=speaker.attempt_id, token=speaker.token, node=speaker.principal.node_name
    )


def heartbeat(
    session: Session, speaker: Speaker, *, progress: dict[str, Any] | None, lease_s: float
) -> Restore:
    """Renew the lease; returns the restore, whose decision tells the worker whether to go on.

    Raises:
        NotFound: no such attempt.
        Conflict: the token is not the current one, or the lease had run out.
    """
    held = repository.lock_attempt(session, attempt_id=speaker.attempt_id)
    if held is None:
        raise NotFound(f"attempt {speaker.attempt_id}: not found")
    attempt, now = held
    check_node(speaker.principal, node_name=attempt.device.node.name)
    if attempt.ended_at is None:
        _check_token(attempt, token=speaker.token, now=now)
        attempt.lease_expires_at = now + timedelta(seconds=lease_s)
        if attempt.state == "claimed":
            attempt.state = "running"
        if progress is not None:
            attempt.progress = progress
    elif attempt.token != speaker.token:
        raise _stale(attempt, token=speaker.token)
    _note_heard(attempt, restore=attempt.restore, now=now)
    return attempt.restore


def record_ready(session: Session, speaker: Speaker, *, raw: bytes, messages: RankMessages) -> Restore:
    """A rank has placed everything: keep its report, and decide if it was the last.

    Raises:
        FormatError: the report is not one.
        Refused: the report does not say restored.
        Conflict: stale token, lost lease, another report was received before, or a runtime that is not the
            one the worker registered.
    """
    said = _read(session, speaker, raw=raw, restored=True)
    report, row = said.report, said.row
    restore, attempt, now = _locked(session, attempt_id=speaker.attempt_id, principal=speaker.principal)
    if _already_reported(attempt, row=row, token=speaker.token):
        return restore
    _check_token(attempt, token=speaker.token, now=now)
    check_runtime(attempt, found=said.runtime)
    check_part(said.part, restore=restore, attempt=attempt)
    session.add(row)
    attempt.state = "ready"
    attempt.ready_at = now
    repository.add_event(
        session, restore_id=restore.id, kind="ready", detail=f"{report.bytes} bytes", rank=attempt.rank
    )
    advance(session, restore=restore, now=now, messages=messages)
    _note_heard(attempt, restore=restore, now=now)
    return restore


def record_failure(session: Session, speaker: Speaker, *, raw: bytes, messages: RankMessages) -> Restore:
    """A rank could not restore, or stopped as it was told: keep its report and have every other rank retract.

    Raises: as `record_ready`.
    """
    said = _read(session, speaker, raw=raw, restored=False)
    report, row = said.report, said.row
    restore, attempt, now = _locked(session, attempt_id=speaker.attempt_id, principal=speaker.principal)
    if _already_reported(attempt, row=row, token=speaker.token):
        return restore
    _check_token(attempt, token=speaker.token, now=now)
    check_runtime(attempt, found=said.runtime)
    session.add(row)
    hold_devices(session, restore=restore)
    state, problem = "reported", problem_of(report)
    if report.outcome is RankOutcome.CANCELLED:
        state, problem = _stopped(restore, attempt=attempt)
    end_attempt(
        session,
        attempt=attempt,
        state=state,
        outcome=str(report.outcome) if state == "reported" else None,
        problem=problem,
        now=now,
        pages="released",
    )
    advance(session, restore=restore, now=now, messages=messages)
    return restore


def _read(session: Session, speaker: Speaker, *, raw: bytes, restored: bool) -> Reported:
    """The report, read before any lock is taken; what is wrong with it is told to whose attempt it is."""
    try:
        said = read_report(raw, attempt_id=speaker.attempt_id)
        if (said.report.outcome is RankOutcome.RESTORED) is not restored:
            wanted = "restored" if restored else "other than restored"
            raise Refused(f"report: expected an outcome {wanted}, found {said.report.outcome}")
    except (CoreError, AppError):
        attempt_of(session, speaker)
        raise
    return said


def _stopped(restore: Restore, *, attempt: RankAttempt) -> tuple[str, dict[str, Any] | None]:
    """A rank that stopped is cancelled if it was to retract; by itself it has no right to, and is lost."""
    if restore.decision == "retract":
        return "cancelled", None
    device = f"{attempt.device.node.name}/{attempt.device.name}"
    return "lost", {"code": "rank-lost", "detail": f"the rank worker of {device} stopped without being told"}


def acknowledge_publish(session: Session, speaker: Speaker, *, epoch: int, messages: RankMessages) -> Restore:
    """A rank has published under the decision's epoch; with the last one the restore is restored.

    Raises:
        Conflict: stale token, lost lease, or an epoch that is not the one decided.
    """
    restore, attempt, now = _locked(session, attempt_id=speaker.attempt_id, principal=speaker.principal)
    if attempt.token == speaker.token and attempt.acknowledged_epoch == epoch:
        return restore
    _check_token(attempt, token=speaker.token, now=now)
    if restore.decision != "publish" or restore.epoch != epoch:
        raise Conflict(
            f"epoch: expected {restore.decision or 'no decision'} {restore.epoch}, found publish {epoch}",
            code="epoch-stale",
        )
    attempt.acknowledged_epoch = epoch
    attempt.acknowledged_at = now
    repository.add_event(
        session, restore_id=restore.id, kind="published", detail=f"epoch {epoch}", rank=attempt.rank
    )
    advance(session, restore=restore, now=now, messages=messages)
    return restore


def record_retracted(session: Session, speaker: Speaker, *, messages: RankMessages) -> Restore:
    """A rank has given its pages back because the decision said so.

    Raises:
        Conflict: stale token, or the decision does not say retract.
    """
    restore, attempt, now = _locked(session, attempt_id=speaker.attempt_id, principal=speaker.principal)
    if attempt.ended_at is not None and attempt.token == speaker.token:
        return restore
    _check_token(attempt, token=speaker.token, now=now)
    if restore.decision != "retract":
        raise Conflict(
            f"attempt {speaker.attempt_id}: expected decision retract, found {restore.decision or 'none'}",
            code="epoch-stale",
        )
    hold_devices(session, restore=restore)
    _note_heard(attempt, restore=restore, now=now)
    end_attempt(
        session, attempt=attempt, state="cancelled", outcome=None, problem=None, now=now, pages="released"
    )
    advance(session, restore=restore, now=now, messages=messages)
    return restore


def must_note_heard(attempt: RankAttempt) -> bool:
    """Whether a worker that is answered now hears for the first time that it has to retract."""
    return _hears_first(attempt, restore=attempt.restore)


def note_heard(session: Session, speaker: Speaker) -> None:
    """Note that a worker is told to retract, in the answer to a poll that reads only."""
    held = repository.lock_attempt(session, attempt_id=speaker.attempt_id)
    if held is not None and held[0].token == speaker.token:
        attempt, now = held
        _note_heard(attempt, restore=attempt.restore, now=now)


def _note_heard(attempt: RankAttempt, *, restore: Restore, now: datetime) -> None:
    if _hears_first(attempt, restore=restore):
        attempt.retract_heard_at = now


def _hears_first(attempt: RankAttempt, *, restore: Restore) -> bool:
    return restore.decision == "retract" and attempt.ended_at is None and attempt.retract_heard_at is None


def locked_attempt(session: Session, speaker: Speaker) -> RankAttempt:
    """The attempt, its restore locked, for the worker that claimed it.

    Raises:
        NotFound: no such attempt.
        Forbidden: the attempt is another node's.
        Conflict: the token is not the current one.
    """
    _, attempt, _ = _locked(session, attempt_id=speaker.attempt_id, principal=speaker.principal)
    return _with_token(attempt, token=speaker.token)


def attempt_of(session: Session, speaker: Speaker) -> RankAttempt:
    """The attempt, without a lock, for the worker that claimed it.

    Raises: as `locked_attempt`.
    """
    attempt = repository.get_attempt(session, attempt_id=speaker.attempt_id)
    if attempt is None:
        raise NotFound(f"attempt {speaker.attempt_id}: not found")
    check_node(speaker.principal, node_name=attempt.device.node.name)
    return _with_token(attempt, token=speaker.token)


def _with_token(attempt: RankAttempt, *, token: int) -> RankAttempt:
    if attempt.token != token:
        raise _stale(attempt, token=token)
    return attempt


def _locked(
    session: Session, *, attempt_id: UUID, principal: Principal, exclusive: bool = True
) -> tuple[Restore, RankAttempt, datetime]:
    """The restore's row, then the attempt's, as they are once both are held, and the time then; no other rank
    is loaded.

    Args:
        exclusive: False for a word that leaves the restore as it is, so that ranks may say it side by side.
    """
    repository.lock_restore_of(session, attempt_id=attempt_id, exclusive=exclusive)
    held = repository.lock_attempt(session, attempt_id=attempt_id)
    if held is None:
        raise NotFound(f"attempt {attempt_id}: not found")
    attempt, now = held
    check_node(principal, node_name=attempt.device.node.name)
    return attempt.restore, attempt, now


def _stale(attempt: RankAttempt, *, token: int) -> Conflict:
    return Conflict(
        f"attempt {attempt.id}: fencing token {token} is not the current one", code="fencing-token-stale"
    )


def _check_token(attempt: RankAttempt, *, token: int, now: datetime) -> None:
    if attempt.token != token:
        raise _stale(attempt, token=token)
    if attempt.ended_at is not None:
        raise Conflict(f"attempt {attempt.id}: ended as {attempt.state}", code="lease-lost")
    if attempt.lease_expires_at is None or attempt.lease_expires_at < now:
        raise Conflict(
            f"attempt {attempt.id}: the lease ran out at {attempt.lease_expires_at}", code="lease-lost"
        )


def _already_reported(attempt: RankAttempt, *, row: RankReportRow, token: int) -> bool:
    # A rank that has not got so far has none, and nobody needs to ask for it.
    if attempt.state in {"waiting", "claimed", "running"} or attempt.report is None:
        return False
    if attempt.token != token:
        raise _stale(attempt, token=token)
    if attempt.report.sha256 != row.sha256:
        raise Conflict(
            f"attempt {attempt.id}: expected the report {attempt.report.sha256} again, found {row.sha256}",
            code="report-differs",
        )
    return True
