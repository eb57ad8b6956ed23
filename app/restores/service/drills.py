"""Drills: a fault put in on purpose, to see that what must catch it does (decisions/0012)."""

from dataclasses import dataclass

from app.core.errors import PlanError
from app.core.oracle.faults import require_injectable
from app.core.oracle.partials import SemanticFault
from app.core.oracle.question import OracleQuestion
from app.errors import FieldProblem, Refused
from app.web.auth import Principal, Scope, check_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """Which fault one rank puts in."""

    name: str
    rank: int


def check_drill(principal: Principal, *, fault: InjectedFault | None) -> None:
    """Return if this is no drill, or one of somebody who may order drills.

    Raises:
        Forbidden: the scope is missing.
    """
    if fault is not None:
        check_scope(principal, scope=Scope.DRILLS_WRITE)


def check_fault(
    fault: InjectedFault | None, *, purpose: str, rank_count: int, question: OracleQuestion | None
) -> None:
    """Return if a fault may be put into a restore like this.

    Raises:
        Refused: the restore is not for finding out, has no such rank, or would not be asked anything, so that
            nothing could tell its pages from right ones.
    """
    if fault is None:
        return
    if purpose != "qualification":
        raise _refused("purpose", expected="qualification, where a fault is put in", found=purpose)
    if fault.rank >= rank_count:
        raise _refused("fault/rank", expected=f"a rank from 0 to {rank_count - 1}", found=str(fault.rank))
    if question is None:
        raise _refused("oracle", expected="a question, where a fault is put in", found="none to be asked")
    try:
        require_injectable(SemanticFault(fault.name), question=question, rank=fault.rank)
    except PlanError as error:
        raise Refused(str(error), errors=(FieldProblem(pointer="/fault", detail=str(error)),)) from error


def _refused(name: str, *, expected: str, found: str) -> Refused:
    detail = f"{name}: expected {expected}, found {found}"
    return Refused(detail, errors=(FieldProblem(pointer=f"/{name}", detail=detail),))
