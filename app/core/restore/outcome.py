"""From the error that ended a restore to its outcome and problem (restore-contract §14)."""

from app.core.errors import (
    AbsentError,
    CoreError,
    DeviceError,
    FormatError,
    IncompatibleError,
    IntegrityError,
    PlanError,
    ResourceError,
    StoreError,
)
from app.core.restore.report import Problem, ProblemCode, RankOutcome


class CancelledError(CoreError):
    """The caller no longer wants the restore."""


_VERDICTS: dict[type[CoreError], tuple[RankOutcome, ProblemCode]] = {
    CancelledError: (RankOutcome.CANCELLED, ProblemCode.CANCELLED),
    FormatError: (RankOutcome.CORRUPT, ProblemCode.FORMAT),
    IntegrityError: (RankOutcome.CORRUPT, ProblemCode.INTEGRITY),
    AbsentError: (RankOutcome.ABSENT, ProblemCode.ABSENT),
    IncompatibleError: (RankOutcome.INCOMPATIBLE, ProblemCode.INCOMPATIBLE),
    PlanError: (RankOutcome.FAILED, ProblemCode.PLAN),
    DeviceError: (RankOutcome.FAILED, ProblemCode.DEVICE),
    ResourceError: (RankOutcome.FAILED, ProblemCode.RESOURCE),
    CoreError: (RankOutcome.FAILED, ProblemCode.DEVICE),
}


def judge_error(error: CoreError) -> tuple[RankOutcome, Problem]:
    """How a restore ended that raised ``error``."""
    outcome, code = next(verdict for kind, verdict in _VERDICTS.items() if isinstance(error, kind))
    problem = Problem(
        code=code,
        subject=error.subject,
        stage=error.stage if isinstance(error, StoreError) else None,
        expected=error.expected,
        found=error.found,
        detail=str(error),
    )
    return outcome, problem
