"""What a rank worker says of its attempt. Every word but the claim must show the fencing token.

A worker may say anything twice (its network may lose our answer): the same word again gets the same answer.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.errors import CoreError
from app.core.restore.report import RankOutcome
from app.errors import AppError, Conflict, NotFound, Refused
from app.models import RankAttempt, Restore
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.repository import words
from app.restores.repository.endings import Ending
from app.restores.repository.words import Held, Told
from app.restores.service.completion import advance, end_held
from app.restores.service.oracle_parts import check_part
from app.restores.service.reports import Reported, check_runtime, problem_of, read_report
from app.web.auth import Principal, check_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The worker that speaks for an attempt: its node's key, and the fencing token its claim got."""

    attempt_id: UUID
    principal: Principal
    token: int


def beat(
    session: Session, speaker: Speaker, *, progress: dict[str, Any] | None, lease_s: float
) -> Told | None:
    """Renew the lease with one statement; None where there is more to it, and `heartbeat` has to say what."""
    return words.beat(
        session,
        attempt_id=speaker.attempt_id,
        token=speaker.token,
        node=speaker.principal.node_name,
        progress=progress,
        lease_s=lease_s,
    )


def ask(session: Session, speaker: Speaker) -> Told | None:
    """What is decided, with one statement; None where there is more to it, see `attempt_of`."""
    return words.ask(
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
        raise _stale(attempt.id, token=speaker.token)
    _note_heard(attempt, restore=attempt.restore, now=now)
    return attempt.restore


def record_ready(session: Session, speaker: Speaker, *, raw: bytes, messages: RankMessages) -> Told:
    """A rank has placed everything: keep its report, and decide if it was the last.

    Raises:
        FormatError: the report is not one.
        Refused: the report does not say restored.
        Conflict: stale token, lost lease, another report was received before, or a runtime that is not the
            one the worker registered.
    """
    said = _read(session, speaker, raw=raw, restored=True)
    held = _held(session, speaker)
    if _already_reported(session, held, token=speaker.token, sha256=said.sha256):
        return held.told
    _check_token(held, token=speaker.token, now=held.now)
    check_runtime(held, found=said.runtime)
    check_part(said.part, held=held)
    is_last = words.note_ready(session, held, report=said.values, detail=f"{said.report.bytes} bytes")
    return _advanced(session, held, messages=messages) if is_last else held.told


def record_failure(session: Session, speaker: Speaker, *, raw: bytes, messages: RankMessages) -> Told:
    """A rank could not restore, or stopped as it was told: keep its report and have every other rank retract.

    Raises: as `record_ready`.
    """
    said = _read(session, speaker, raw=raw, restored=False)
    held = _held(session, speaker)
    if _already_reported(session, held, token=speaker.token, sha256=said.sha256):
        return held.told
    _check_token(held, token=speaker.token, now=held.now)
    check_runtime(held, found=said.runtime)
    words.keep_report(session, attempt_id=held.id, values=said.values)
    ending = Ending(
        state="reported",
        outcome=str(said.report.outcome),
        problem=problem_of(said.report),
        pages="released",
    )
    if said.report.outcome is RankOutcome.CANCELLED:
        ending = _stopped(held)
    end_held(session, held, ending=ending)
    return _advanced(session, held, messages=messages)


def _read(session: Session, speaker: Speaker, *, raw: bytes, restored: bool) -> Reported:
    """The report, read before any lock is taken; what is wrong with it is told to whose attempt it is."""
    try:
        said = read_report(raw)
        if (said.report.outcome is RankOutcome.RESTORED) is not restored:
            wanted = "restored" if restored else "other than restored"
            raise Refused(f"report: expected an outcome {wanted}, found {said.report.outcome}")
    except (CoreError, AppError):
        attempt_of(session, speaker)
        raise
    return said


def _stopped(held: Held) -> Ending:
    """A rank that stopped is cancelled if it was to retract; by itself it has no right to, and is lost."""
    if held.decision == "retract":
        return Ending(state="cancelled", outcome=None, pages="released")
    detail = f"the rank worker of {held.node}/{held.device} stopped without being told"
    problem = {"code": "rank-lost", "detail": detail}
    return Ending(state="lost", outcome=None, problem=problem, pages="released")


def acknowledge_publish(session: Session, speaker: Speaker, *, epoch: int, messages: RankMessages) -> Told:
    """A rank has published under the decision's epoch; with the last one the restore is restored.

    Raises:
        Conflict: stale token, lost lease, or an epoch that is not the one decided.
    """
    held = _held(session, speaker)
    if held.token == speaker.token and held.acknowledged_epoch == epoch:
        return held.told
    _check_token(held, token=speaker.token, now=held.now)
    if held.decision != "publish" or held.epoch != epoch:
        raise Conflict(
            f"epoch: expected {held.decision or 'no decision'} {held.epoch}, found publish {epoch}",
            code="epoch-stale",
        )
    is_last = words.note_published(session, held, epoch=epoch)
    return _advanced(session, held, messages=messages) if is_last else held.told


def record_retracted(session: Session, speaker: Speaker, *, messages: RankMessages) -> Told:
    """A rank has given its pages back because the decision said so.

    Raises:
        Conflict: stale token, or the decision does not say retract.
    """
    held = _held(session, speaker)
    if held.ended_at is not None and held.token == speaker.token:
        return held.told
    _check_token(held, token=speaker.token, now=held.now)
    if held.decision != "retract":
        raise Conflict(
            f"attempt {speaker.attempt_id}: expected decision retract, found {held.decision or 'none'}",
            code="epoch-stale",
        )
    ending = Ending(state="cancelled", outcome=None, pages="released", is_told=True)
    end_held(session, held, ending=ending)
    return _advanced(session, held, messages=messages)


def _advanced(session: Session, held: Held, *, messages: RankMessages) -> Told:
    """Move the restore as far as its attempts allow, and what its worker is told then."""
    restore = repository.held_restore(session, restore_id=held.restore_id)
    advance(session, restore=restore, now=held.now, messages=messages)
    return Told(decision=restore.decision, epoch=restore.epoch, outcome=restore.outcome)


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
    repository.lock_restore_of(session, attempt_id=speaker.attempt_id)
    held = repository.lock_attempt(session, attempt_id=speaker.attempt_id)
    if held is None:
        raise NotFound(f"attempt {speaker.attempt_id}: not found")
    check_node(speaker.principal, node_name=held[0].device.node.name)
    return _with_token(held[0], token=speaker.token)


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
        raise _stale(attempt.id, token=token)
    return attempt


def held_rank(session: Session, speaker: Speaker) -> Held:
    """The rank of a worker that shows its token, its row and its restore's held.

    Raises: as `locked_attempt`.
    """
    held = _held(session, speaker)
    if held.token != speaker.token:
        raise _stale(held.id, token=speaker.token)
    return held


def _held(session: Session, speaker: Speaker) -> Held:
    """The restore's row, then the attempt's, as they are once both are held, and the time then; no other rank
    is loaded."""
    held = words.hold(session, attempt_id=speaker.attempt_id)
    if held is None:
        raise NotFound(f"attempt {speaker.attempt_id}: not found")
    check_node(speaker.principal, node_name=held.node)
    return held


def _stale(attempt_id: UUID, *, token: int) -> Conflict:
    return Conflict(
        f"attempt {attempt_id}: fencing token {token} is not the current one", code="fencing-token-stale"
    )


def _check_token(attempt: RankAttempt | Held, *, token: int, now: datetime) -> None:
    if attempt.token != token:
        raise _stale(attempt.id, token=token)
    if attempt.ended_at is not None:
        raise Conflict(f"attempt {attempt.id}: ended as {attempt.state}", code="lease-lost")
    if attempt.lease_expires_at is None or attempt.lease_expires_at < now:
        raise Conflict(
            f"attempt {attempt.id}: the lease ran out at {attempt.lease_expires_at}", code="lease-lost"
        )


def _already_reported(session: Session, held: Held, *, token: int, sha256: str) -> bool:
    # A rank that has not got so far has none, and nobody needs to ask for it.
    if held.state in {"waiting", "claimed", "running"}:
        return False
    found = words.report_sha256(session, attempt_id=held.id)
    if found is None:
        return False
    if held.token != token:
        raise _stale(held.id, token=token)
    if found != sha256:
        raise Conflict(
            f"attempt {held.id}: expected the report {found} again, found {sha256}",
            code="report-differs",
        )
    return True
