"""A verdict from the row that keeps it, as far as a composition needs it."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final
from uuid import UUID

from sqlalchemy.orm import Session

from app.core.canonical_json import JsonObject, JsonValue, decode_canonical
from app.core.qualify.codes import CODES
from app.core.qualify.facts import Capability, StatusClass
from app.core.qualify.findings import Finding, Gate, GateResult, GateState, Outcome, Row
from app.core.qualify.scope import ScopeKey
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from app.errors import AppError
from app.verdicts import repository

# A row never changes, so its verdict may be kept; one of a transaction that fails has an id nobody asks for.
_MOST_KEPT: Final = 4096
_kept: "OrderedDict[UUID, Verdict]" = OrderedDict()
_lock = Lock()


def verdicts_by_id(session: Session, *, verdict_ids: Sequence[UUID]) -> dict[UUID, Verdict]:
    """The verdicts of these rows."""
    with _lock:
        found = {one: _kept[one] for one in verdict_ids if one in _kept}
    missing = [one for one in verdict_ids if one not in found]
    if missing:
        for verdict_id, raw in repository.documents_of(session, verdict_ids=missing).items():
            found[verdict_id] = verdict_from(raw, subject=f"verdict {verdict_id}")
            keep_verdict(verdict_id, found[verdict_id])
    return found


def keep_verdict(verdict_id: UUID, verdict: Verdict) -> None:
    """Remember the verdict of a row."""
    with _lock:
        _kept[verdict_id] = verdict
        _kept.move_to_end(verdict_id)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)


def verdict_from(document: bytes, *, subject: str) -> Verdict:
    """The verdict of a stored document.

    Raises:
        CoreError: the bytes are no canonical JSON.
        AppError: they are no verdict: the row was not written by this application.
    """
    value = decode_canonical(document, subject=subject)
    try:
        return _verdict(_object(value))
    except (KeyError, TypeError, ValueError) as error:
        raise AppError(f"{subject}: expected a verdict, found none ({error})") from error


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
