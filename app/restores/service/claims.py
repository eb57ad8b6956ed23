"""A rank worker claims an attempt: once, whoever asks first, with a token of its own."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.oracle.question import OracleQuestion
from app.core.store.snapshot import PageLayout
from app.errors import Conflict, NotFound
from app.layouts import service as layouts
from app.oracles import service as oracles
from app.restores import repository
from app.restores.repository import words
from app.restores.repository.words import Granted
from app.web.auth import Principal, check_node


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAsked:
    """What a worker says with its claim: its device's generation, and the token it chose, if it did."""

    generation: int
    token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a worker gets for its claim: the token, the rank's part of the order, what its pages mean and what
    they are asked."""

    granted: Granted
    layout: PageLayout
    question: OracleQuestion | None = None


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

    def at_once() -> Claim | None:
        return claim_at_once(
            session, attempt_id=attempt_id, principal=principal, asked=asked, lease_s=lease_s
        )

    claimed = at_once()
    if claimed is not None:
        return claimed
    obstacle = _claim_obstacle(
        session, attempt_id=attempt_id, principal=principal, generation=asked.generation
    )
    # Nothing is in the way any more: it was being admitted a moment ago.
    if obstacle is None:
        claimed = at_once()
    if claimed is None:
        obstacle = obstacle or "expected an attempt that nobody changes, found one that somebody does"
        raise Conflict(f"attempt {attempt_id}: {obstacle}", code="attempt-not-claimable")
    return claimed


def claim_at_once(
    session: Session, *, attempt_id: UUID, principal: Principal, asked: ClaimAsked, lease_s: float
) -> Claim | None:
    """Claim with one statement; None where there is more to it, and `claim` has to say what."""
    granted = words.claim(
        session,
        attempt_id=attempt_id,
        node=principal.node_name,
        generation=asked.generation,
        token=asked.token,
        lease_s=lease_s,
    )
    if granted is None:
        return None
    question = granted.question_sha256
    return Claim(
        granted=granted,
        layout=layouts.known_layout(session, sha256=granted.layout_sha256),
        question=None if question is None else oracles.known_question(session, sha256=question),
    )


def _claim_obstacle(
    session: Session, *, attempt_id: UUID, principal: Principal, generation: int
) -> str | None:
    """Why an attempt cannot be claimed, as it is while its row and its restore's are held."""
    held = repository.lock_restore_of(session, attempt_id=attempt_id, exclusive=False)
    found = repository.lock_attempt(session, attempt_id=attempt_id)
    if held is None or found is None:
        raise NotFound(f"attempt {attempt_id}: not found")
    attempt, _ = found
    check_node(principal, node_name=attempt.device.node.name)
    restore = attempt.restore
    if attempt.state != "waiting" or restore.decision is not None:
        return f"expected waiting in a running restore, found {attempt.state} in a {restore.state} one"
    if restore.state != "running" or attempt.device.held_by != attempt.id:
        return "expected an admitted attempt, found one that waits for its device"
    if generation != attempt.device.generation:
        return f"expected generation {attempt.device.generation} of the device, found {generation}"
    return None
