"""Check a whole root: every problem and the standing of every entry, in bounded memory."""

from app.core.store.check.findings import (
    Amount,
    CheckTotals,
    EntryStanding,
    Problem,
    ProblemCode,
)
from app.core.store.check.walk import CheckProgress, Finding, RootCheck

__all__ = [
    "Amount",
    "CheckProgress",
    "CheckTotals",
    "EntryStanding",
    "Finding",
    "Problem",
    "ProblemCode",
    "RootCheck",
]
