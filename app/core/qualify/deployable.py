"""May this be deployed: a field of its own beside the outcome (evidence-model §7.4, §16)."""

from collections.abc import Sequence
from typing import Final

from app.core.qualify.facts import Capability
from app.core.qualify.findings import Finding, Outcome
from app.core.qualify.rules.rule import Judged
from app.core.qualify.values import Basis, Found

GRADES: Final = (Basis.ATTESTED, Basis.SELF_CONSISTENT, Basis.DEMONSTRATED)
"""Weakest first."""
_DEPLOYABLE = frozenset((Capability.RESTORE, Capability.SERVING))
_AGAINST = (
    "ENGINE_SELF_TEST",
    "NOT_PUBLISHED",
    "NO_REGISTRY_DIGEST",
    "ARTIFACT_WITHDRAWN",
    "KNOWN_FAILURE",
    "CLEAN_PULL_UNPROVEN",
)


def deployable_reason(
    judged: Judged, *, outcome: Outcome, findings: Sequence[Finding], grade: Basis | None, least: Basis
) -> str:
    """Code of the first thing against deployment; empty if there is none.

    Args: least: the weakest grade allowed; the grade is that of the answer.
    """
    if outcome is not Outcome.QUALIFIED:
        return next((one.name for one in findings if one.row.blocks), outcome.value)
    if judged.capability not in _DEPLOYABLE:
        return "CAPABILITY_NOT_DEPLOYABLE"
    denied = judged.facts.admission.deployable
    if isinstance(denied, Found) and not denied.value:
        return "ADMISSION_DENIED"
    codes = {one.code for one in findings}
    for code in _AGAINST:
        if code in codes:
            return code
    if grade is None or GRADES.index(grade) < GRADES.index(least):
        return "GRADE_TOO_LOW"
    return ""
