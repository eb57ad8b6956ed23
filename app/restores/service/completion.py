"""The one place that moves a restore forward once its attempts have changed.

`next_step` is the rule, pure over a summary of the attempts; `advance` carries it out in the transaction
that holds the restore's row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from sqlalchemy.orm import Session

from app.core.restore.report import RankOutcome, RestoreOutcome, combine
from app.db.session import after_commit
from app.ledger import service as ledger
from app.models import RankAttempt, Restore
from app.restores import repository
from app.restores.dispatch import RankMessages
from app.restores.repository.endings import Ending, end_attempts, first_cause, lock_devices
from app.restores.repository.words import Held
from app.restores.service.answers import PUBLISHABLE, Semantic, answer_question


class Step(StrEnum):
    """What happens next to a restore."""

    WAIT = "wait"
    ANSWER = "answer"
    PUBLISH = "publish"
    RETRACT = "retract"
    RESTORED = "restored"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What the rule needs to know of the question a restore is asked, and of a fault put in on purpose.

    Attributes:
        semantic: what came of it; None until it is known.
        barred: whatever the answer, these pages must not be seen: a drill's, or pages found wrong.
    """

    semantic: str | None = "not asked"
    barred: bool = False

    @property
    def allows_publish(self) -> bool:
        """Only what was answered right is published, or was not asked at all; a drill never is."""
        return self.semantic in PUBLISHABLE and not self.barred


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """What the rule needs to know of one rank attempt."""

    state: str
    outcome: str | None
    acknowledged_epoch: int | None
    ended: bool


NOT_ASKED: Final = Asking()


def next_step(
    *,
    decision: str | None,
    epoch: int,
    ranks: Sequence[RankState],
    cancelled: bool = False,
    asking: Asking = NOT_ASKED,
) -> Step:
    """The next step of a restore that runs.

    Every rank ready: its question is answered, then publish or, after another answer than the expected one,
    retract. Every rank acknowledged that decision's epoch: restored. Any rank ended
    before that, or the restore called off before publish was decided: retract, and the end once every rank
    has stopped.
    """
    if decision == "retract":
        return Step.END if all(rank.ended for rank in ranks) else Step.WAIT
    if any(rank.ended for rank in ranks):
        return Step.RETRACT
    if decision == "publish":
        acknowledged = all(rank.acknowledged_epoch == epoch for rank in ranks)
        return Step.RESTORED if acknowledged else Step.WAIT
    if cancelled:
        return Step.RETRACT
    if not all(rank.state == "ready" for rank in ranks):
        return Step.WAIT
    if asking.semantic is None:
        return Step.ANSWER
    return Step.PUBLISH if asking.allows_publish else Step.RETRACT


def advance(session: Session, *, restore: Restore, now: datetime, messages: RankMessages) -> None:
    """Move the restore as far as its attempts allow; the caller holds its row.

    Ranks that wait for a decision are called once it is committed; whoever misses the call polls.
    """
    while True:
        step = next_step(
            decision=restore.decision,
            epoch=restore.epoch,
            ranks=_rank_states(session, restore=restore),
            cancelled=restore.cancel_requested_at is not None,
            asking=_asking(restore),
        )
        if step in {Step.PUBLISH, Step.RETRACT, Step.RESTORED}:
            _call_ranks(session, restore=restore, messages=messages)
        match step:
            case Step.WAIT:
                return
            case Step.ANSWER:
                answer_question(session, restore=restore)
            case Step.PUBLISH:
                _decide(session, restore=restore, decision="publish", now=now)
            case Step.RETRACT:
                _decide(session, restore=restore, decision="retract", now=now)
                _cancel_unclaimed(session, restore=restore, now=now)
            case Step.RESTORED:
                _end_restored(session, restore=restore, now=now)
                return
            case Step.END:
                _end_retracted(session, restore=restore, now=now)
                return


def _asking(restore: Restore) -> Asking:
    barred = restore.fault_name is not None or restore.problem is not None
    return Asking(semantic=restore.semantic, barred=barred)


def _call_ranks(session: Session, *, restore: Restore, messages: RankMessages) -> None:
    restore_id = restore.id
    after_commit(session, lambda: messages.decided(restore_id=restore_id))


def _rank_states(session: Session, *, restore: Restore) -> list[RankState]:
    """How the ranks stand, each way once: the rule asks for all and any, never how many."""
    return [
        RankState(state=state, outcome=outcome, acknowledged_epoch=epoch, ended=ended)
        for state, outcome, epoch, ended in repository.rank_states(session, restore_id=restore.id)
    ]


def _decide(session: Session, *, restore: Restore, decision: str, now: datetime) -> None:
    restore.epoch += 1
    restore.decision = decision
    restore.decided_at = now
    restore.state = "publishing" if decision == "publish" else "retracting"
    detail = f"{decision}, epoch {restore.epoch}"
    repository.add_event(session, restore_id=restore.id, kind="decided", detail=detail, rank=None)


def _cancel_unclaimed(session: Session, *, restore: Restore, now: datetime) -> None:
    """Nobody has to stop a rank that never started: its claim will be refused."""
    ending = Ending(state="cancelled", outcome=None, pages="released")
    end_attempts(session, restore_id=restore.id, ending=ending, now=now, unclaimed=True)


def hold_devices(session: Session, *, restore: Restore) -> None:
    """Lock all devices of a restore, as whoever ends any of its attempts must do first.

    Admission locks devices in the order of their ids; freeing them one by one in another order would
    deadlock with it.
    """
    lock_devices(session, restore_id=restore.id)


def end_held(session: Session, held: Held, *, ending: Ending) -> None:
    """End the attempt of a worker that speaks; of the devices of its restore only its own is locked, and
    those of ranks that nobody has claimed, which end with it if it is the first."""
    lock_devices(session, restore_id=held.restore_id, own=held.id)
    end_attempts(session, restore_id=held.restore_id, ending=ending, now=held.now, own=held.id)


def end_attempt(
    session: Session,
    *,
    attempt: RankAttempt,
    state: str,
    outcome: str | None,
    problem: dict[str, Any] | None,
    now: datetime,
    pages: str,
) -> None:
    """End one attempt and free its device, which `hold_devices` has locked; the object stays as it was read.

    Args:
        pages: ``kept`` where the pages stay resident, ``released`` where they are gone or will be.
    """
    ending = Ending(state=state, outcome=outcome, pages=pages, problem=problem)
    end_attempts(session, restore_id=attempt.restore_id, ending=ending, now=now, own=attempt.id)


def _end_restored(session: Session, *, restore: Restore, now: datetime) -> None:
    hold_devices(session, restore=restore)
    restore.state = "resident"
    restore.outcome = "restored"
    restore.ended_at = now
    restore.resident_until = now + timedelta(seconds=restore.resident_s)
    ending = Ending(state="reported", outcome="restored", pages="kept")
    end_attempts(session, restore_id=restore.id, ending=ending, now=now)
    detail = f"{restore.rank_count} acknowledgements of epoch {restore.epoch}"
    repository.add_event(session, restore_id=restore.id, kind="restored", detail=detail, rank=None)
    _record_end(session, restore=restore)


def _end_retracted(session: Session, *, restore: Restore, now: datetime) -> None:
    # Asked first: a question writes what is pending, and an outcome without its state would be refused.
    outcome = str(_combined(session, restore=restore))
    # An answer that decided the retraction is its first cause, whatever befell a rank on the way back.
    restore.problem = restore.problem or _first_cause(session, restore=restore)
    restore.semantic = restore.semantic or Semantic.UNANSWERED
    restore.outcome = outcome
    if restore.cancel_requested_at is not None and restore.outcome != "corrupt":
        restore.outcome = "incomplete"
        restore.problem = _cancellation(restore)
    restore.state = "finished"
    restore.ended_at = now
    restore.released_at = now
    detail = restore.problem["detail"] if restore.problem else restore.outcome
    repository.add_event(session, restore_id=restore.id, kind=restore.outcome, detail=str(detail), rank=None)
    _record_end(session, restore=restore)


def _combined(session: Session, *, restore: Restore) -> RestoreOutcome:
    """By the ranks; where they had placed everything and the answer was not the expected one, the machine
    failed: every stored byte held."""
    by_ranks = combine(_rank_outcome(rank) for rank in _rank_states(session, restore=restore))
    if restore.problem is not None and by_ranks is not RestoreOutcome.CORRUPT:
        return RestoreOutcome.FAILED
    return by_ranks


def _record_end(session: Session, *, restore: Restore) -> None:
    """The result, every attempt and report, and what happened so far, as one leaf."""
    everything = ledger.all_of(restore.id)
    parts = ("rank_attempt.result", "rank_report", "restore_event")
    rows: dict[str, list[ledger.RowKey]] = {view: [everything] for view in parts}
    rows["restore.result"] = [restore]
    if restore.question_sha256 is not None:
        rows |= {"restore.semantic": [restore], "restore_answer": [everything]}
    if restore.released_at is not None:
        rows |= {"restore.release": [restore], "rank_attempt.release": [everything]}
    ledger.record(
        session,
        kind="restore-ended",
        by=ledger.CONTROL_PLANE,
        rows=rows,
        facts={"restore": str(restore.id), "outcome": restore.outcome},
    )


def _cancellation(restore: Restore) -> dict[str, Any]:
    """The problem of a cancelled restore; what its ranks met besides stays with them."""
    why = f": {restore.cancel_reason}" if restore.cancel_reason else ""
    return {"code": "cancelled", "detail": f"cancelled by {restore.cancel_requested_by}{why}"}


def _rank_outcome(rank: RankState) -> RankOutcome | None:
    """How a rank of a retracted restore ended; ``None`` if it was lost, cancelled if it only stopped."""
    if rank.state == "lost":
        return None
    return RankOutcome.CANCELLED if rank.outcome is None else RankOutcome(rank.outcome)


def _first_cause(session: Session, *, restore: Restore) -> dict[str, Any] | None:
    """The problem that explains the outcome: corruption before anything else, then the earliest."""
    cause = first_cause(session, restore_id=restore.id)
    return None if cause is None else {"rank": cause.rank, **cause.problem}
