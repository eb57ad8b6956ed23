"""A person declares that receipts are meant for qualification; the rules decide (evidence-model §7.6)."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.core.qualify.facts import Capability
from app.core.qualify.values import Basis
from app.ledger import service as ledger
from app.models import DeclarationRow, VerdictRow
from app.receipts.service import require_receipts
from app.receipts.service.locks import lock_receipts
from app.verdicts import repository
from app.verdicts.service.judging import judge_receipts
from app.verdicts.service.rows import Cause


def declare(
    session: Session, *, reason: str, digests: Sequence[str], capability: Capability, by: str, grade: Basis
) -> tuple[DeclarationRow, list[VerdictRow]]:
    """Write a declaration down and judge what it is about.

    Returns: the declaration, and the verdicts that changed: none where documents speak for themselves, or
    where the evidence does not carry what was declared.

    Raises:
        NotFound: a receipt meant is not stored.
    """
    wanted = sorted(set(digests))
    require_receipts(session, digests=wanted)
    lock_receipts(session, digests=wanted)
    row = DeclarationRow(reason=reason, receipts=wanted, capability=capability.value, created_by=by)
    repository.add_declaration(session, declaration=row)
    ledger.record(
        session,
        kind="receipts-declared",
        by=by,
        rows={"declaration": [row]},
        facts={"receipts": [*wanted], "capability": capability.value},
    )
    cause = Cause(what="declared", detail=f"{by} declared: {reason}", by=by)
    made = judge_receipts(session, digests=wanted, cause=cause, grade=grade)
    changed = repository.many_verdicts(session, verdict_ids=[one.id for one in made])
    return row, [changed[one.id] for one in made]
