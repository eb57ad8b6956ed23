"""A verdict as a JSON object: for the command line, the API, the ledger and a replay (evidence-model §14)."""

from app.core.canonical_json import JsonObject, JsonValue, decode_canonical
from app.core.errors import FormatError
from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability, StatusClass
from app.core.qualify.findings import Finding, Gate, GateResult, GateState, Outcome, Row
from app.core.qualify.scope import ScopeKey
from app.core.qualify.values import Basis
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
        "scope": {**verdict.scope.axes(), "digest": str(verdict.scope.digest())},
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


def verdict_from(document: bytes, *, subject: str) -> Verdict:
    """The verdict of a stored document.

    Raises:
        FormatError: the bytes are no canonical JSON, or no verdict.
    """
    value = decode_canonical(document, subject=subject)
    try:
        return _verdict(_object(value))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(subject, expected="a verdict", found=f"none ({error})") from error


def _verdict(value: JsonObject) -> Verdict:
    scope = {name: str(text) for name, text in _object(value["scope"]).items() if name != "digest"}
    return Verdict(
        capability=Capability(str(value["capability"])),
        case=str(value.get("case", "")),
        pointer=str(value.get("pointer", "")),
        scope=ScopeKey(**scope),
        outcome=Outcome(str(value["outcome"])),
        row=Row(_number(value["row"])),
        reason=str(value["reason"]),
        deployable=value["deployable"] is True,
        deployable_reason=str(value["deployable_reason"]),
        evidence_grade=Basis(str(value["evidence_grade"])) if value["evidence_grade"] else None,
        declared=StatusClass(str(value["declared"])) if value.get("declared") else None,
        gates=tuple(_gate(_object(one)) for one in _list(value["gates"])),
        findings=tuple(_finding(_object(one)) for one in _list(value["findings"])),
        established=tuple(str(one) for one in _list(value["established"])),
        not_established=tuple(str(one) for one in _list(value["not_established"])),
        ruleset=str(value["ruleset"]),
    )


def _gate(value: JsonObject) -> GateResult:
    return GateResult(
        gate=Gate(str(value["gate"])),
        state=GateState(str(value["state"])),
        basis=Basis(str(value["basis"])) if value["basis"] else None,
        pointer=str(value["pointer"]),
        says=str(value["says"]),
        needed=value["needed"] is True,
    )


def _finding(value: JsonObject) -> Finding:
    name = str(value["code"])
    code = name if name in CODES else name.partition(":")[0]
    return Finding(
        code=code,
        row=Row(_number(value["row"])),
        gate=Gate(str(value["gate"])),
        detail=name.removeprefix(code).removeprefix(":"),
        pointer=str(value["pointer"]),
        value=str(value["value"]),
        document=str(value["document"] or ""),
        rule=str(value["rule"]),
    )


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def _number(value: JsonValue) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a whole number, found {type(value).__name__}")
    return value
