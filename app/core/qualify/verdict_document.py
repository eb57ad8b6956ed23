"""A verdict as a JSON object: for the command line, the API, the ledger and a replay (evidence-model §14)."""

from dataclasses import asdict

from app.core.canonical_json import JsonObject, JsonValue
from app.core.qualify.codes import CODES
from app.core.qualify.findings import Finding, GateResult
from app.core.qualify.verdict import Verdict


def verdict_document(verdict: Verdict) -> JsonObject:
    """Everything a verdict says; ``findings`` in the order of their rows."""
    gates: list[JsonValue] = [gate_document(one) for one in verdict.gates]
    findings: list[JsonValue] = [finding_document(one) for one in verdict.findings]
    return {
        "capability": verdict.capability.value,
        "case": verdict.case,
        "pointer": verdict.pointer,
        "outcome": verdict.outcome.value,
        "row": int(verdict.row),
        "reason": verdict.reason,
        "deployable": verdict.deployable,
        "deployable_reason": verdict.deployable_reason,
        "evidence_grade": verdict.evidence_grade.value if verdict.evidence_grade else None,
        "declared": verdict.declared.value if verdict.declared else None,
        "scope": {**asdict(verdict.scope), "digest": str(verdict.scope.digest())},
        "gates": gates,
        "findings": findings,
        "established": list(verdict.established),
        "not_established": list(verdict.not_established),
        "ruleset": verdict.ruleset,
    }


def gate_document(gate: GateResult) -> JsonObject:
    """State and basis of a gate."""
    return {
        "gate": gate.gate.value,
        "state": gate.state.value,
        "basis": gate.basis.value if gate.basis else None,
        "needed": gate.needed,
        "pointer": gate.pointer,
        "says": gate.says,
    }


def finding_document(finding: Finding) -> JsonObject:
    """A finding; ``code`` is complete with its detail, ``document`` set where it stands in another one."""
    return {
        "code": finding.name,
        "pointer": finding.pointer,
        "value": finding.value,
        "document": finding.document or None,
        "row": int(finding.row),
        "blocks": finding.row.blocks,
        "gate": finding.gate.value,
        "rule": finding.rule,
        "says": CODES[finding.code].says,
    }
