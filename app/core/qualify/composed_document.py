"""The verdict over a scope as a JSON object, with the gates of the receipts it is made of (evidence-model
§7.5, §14).
"""

from collections.abc import Sequence
from typing import Final

from app.core.canonical_json import JsonObject, JsonValue
from app.core.qualify.composition import MOST_NAMED, Composed, Receipt
from app.core.qualify.findings import GateResult, GateState
from app.core.qualify.ruleset import ruleset_version
from app.core.qualify.verdict_document import finding_document, gate_document

_TELLING: Final = (
    GateState.FAILED,
    GateState.DEMONSTRATED,
    GateState.ATTESTED,
    GateState.INCONCLUSIVE,
    GateState.NOT_TESTED,
    GateState.NOT_APPLICABLE,
)


def composed_gates(composed: Composed, receipts: Sequence[Receipt]) -> tuple[GateResult, ...]:
    """Each gate as the receipts that count say it: a failure anywhere, else the strongest of those that
    decided."""
    standing = [one for one in receipts if one.sha256 in {*composed.receipts, *composed.beside}]
    told: dict[str, GateResult] = {}
    for one in standing:
        decided = one.sha256 in composed.receipts
        for gate in one.verdict.gates:
            if not decided and gate.state is not GateState.FAILED:
                continue
            known = told.get(gate.gate)
            if known is None or _TELLING.index(gate.state) < _TELLING.index(known.state):
                told[gate.gate] = gate
    return tuple(told.values())


def composed_document(composed: Composed, receipts: Sequence[Receipt]) -> JsonObject:
    """Everything the verdict over a scope says."""
    gates: list[JsonValue] = [gate_document(one) for one in composed_gates(composed, receipts)]
    findings: list[JsonValue] = [finding_document(one) for one in composed.findings]
    return {
        "capability": composed.capability.value,
        "outcome": composed.outcome.value,
        "row": int(composed.row),
        "reason": composed.reason,
        "deployable": composed.deployable,
        "deployable_reason": composed.deployable_reason,
        "evidence_grade": composed.evidence_grade.value if composed.evidence_grade else None,
        "scope": {**composed.scope.axes(), "digest": str(composed.scope.digest())},
        "gates": gates,
        "findings": findings,
        "established": list(composed.established),
        "not_established": list(composed.not_established),
        "receipts": _named(composed.receipts),
        "beside": _named(composed.beside),
        "superseded": _named(composed.superseded),
        "ruleset": ruleset_version(),
    }


def _named(digests: Sequence[str]) -> JsonObject:
    """The first of them, and whether there are more: the verdict stays as it is when more say the same."""
    first: list[JsonValue] = list(dict.fromkeys(digests))
    return {"first": first[:MOST_NAMED], "more": len(first) > MOST_NAMED}
