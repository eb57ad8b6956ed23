"""Several documents at once: one transaction, each answered on its own, and none lost by another."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.core.errors import CoreError
from app.core.qualify.values import Basis
from app.db.session import Database
from app.receipts.service import Submission
from app.verdicts import repository
from app.verdicts.service.submit import submit_many

log = logging.getLogger(__name__)
# What a document can do to the rules or the database without either being away.
_FAILED: Final = (
    SQLAlchemyError,
    CoreError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A document that is in: `created` if its bytes are new, and the whole receipt's outcome for what its
    schema speaks about."""

    sha256: str
    created: bool
    capability: str
    outcome: str


def take_in(
    database: Database, *, submissions: Sequence[Submission], by: str, grade: Basis
) -> list[Taken | None]:
    """Keep and judge documents together; where that fails, each for itself.

    Returns: what became of each, in their order; None where one could not be kept or judged.

    Raises:
        OperationalError, TimeoutError: the database is away; what was not answered is to be sent again.
    """
    try:
        return [*_together(database, submissions, by=by, grade=grade)]
    except (OperationalError, PoolTimeoutError):
        raise
    except _FAILED:
        if len(submissions) > 1:
            log.exception("%d documents could not be taken in together", len(submissions))
            return [
                taken
                for one in submissions
                for taken in take_in(database, submissions=[one], by=by, grade=grade)
            ]
        log.exception("document %s could not be taken in", submissions[0].facts.sha256)
        return [None]


def _together(database: Database, submissions: Sequence[Submission], *, by: str, grade: Basis) -> list[Taken]:
    if not submissions:
        return []
    with database.transaction() as session:
        every = submit_many(session, submissions=submissions, by=by, grade=grade)
        outcomes = repository.outcomes_of_receipts(session, digests=[one.sha256 for one in every])
    taken = []
    for given, one in zip(submissions, every, strict=True):
        capability = given.facts.schema.capability.value
        found = outcomes.get(one.sha256, {})
        outcome = found.get(capability) or next(iter(found.values()), "none")
        taken.append(Taken(sha256=one.sha256, created=one.created, capability=capability, outcome=outcome))
    return taken
