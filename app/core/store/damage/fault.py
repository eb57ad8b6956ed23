"""A named fault: what it does, what it can be done to, and what a full check then must say."""

from collections.abc import Callable
from dataclasses import dataclass

from app.core.store.check import ProblemCode
from app.core.store.damage.target import Candidate, Target


def _any(_candidate: Candidate) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that can go wrong.

    Attributes:
        says: what is wrong afterwards, for people.
        apply: does it.
        suits: whether it can be done to an entry; ``None`` if it needs none.
        codes: what a full check calls it; one of them.
        problems: how many a full check of a clean root then finds, what the entry leaves behind not counted.
    """

    name: str
    says: str
    apply: Callable[[Target], None]
    codes: frozenset[ProblemCode]
    suits: Callable[[Candidate], bool] | None = _any
    problems: int = 1
