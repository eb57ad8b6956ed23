"""After a change of rules, or of the grade that deploying needs: all is judged again, a part at a time.

A part is one transaction; whoever stops in between goes on where it was. Rows of the old rules stay.
"""

from typing import Final

from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.values import Basis
from app.db.session import Database
from app.ledger import service as ledger
from app.verdicts import repository
from app.verdicts.service.judging import judge_receipts, judge_scopes
from app.verdicts.service.rows import Cause

PART: Final = 50


def rejudge_part(
    database: Database, *, grade: Basis, by: str = ledger.CONTROL_PLANE, reason: str = "", size: int = PART
) -> int:
    """Judge the next receipts, then the next scopes, whose newest verdict is of other rules.

    Returns: how many were looked at; 0 where nothing is left.
    """
    version = ruleset_version()
    why = f": {reason}" if reason else ""
    cause = Cause(
        what="rules-changed",
        detail=f"rule set {version[:12]}, deployable from {grade.value}{why}",
        by=by,
    )
    with database.transaction() as session:
        digests = repository.outdated_receipts(session, ruleset=version, grade=grade.value, limit=size)
        if digests:
            judge_receipts(session, digests=digests, cause=cause, grade=grade)
            return len(digests)
        scopes = repository.outdated_scopes(session, ruleset=version, grade=grade.value, limit=size)
        judge_scopes(session, scopes=scopes, cause=cause, grade=grade)
        return len(scopes)
