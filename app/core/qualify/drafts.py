"""Verdicts as they are kept: the document in canonical JSON, its index, what takes part in a scope.

Made by the server when it judges, and made again by whoever checks a bundle: the same bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.core.canonical_json import (
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_list,
    expect_object,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, shown
from app.core.qualify.composed_document import composed_document, composed_gates
from app.core.qualify.composition import MOST_NAMED, Composed, Receipt, compose
from app.core.qualify.facts import Capability, DocumentFacts
from app.core.qualify.findings import GateResult, Outcome, Row
from app.core.qualify.keys import config_id, index_text
from app.core.qualify.scope import ScopeKey
from app.core.qualify.surroundings import Surroundings
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict, by_capability, joined_verdict, judge_document
from app.core.qualify.verdict_document import verdict_document, verdict_from

SCHEMA: Final = "sparkgate-verdict/v1"
_MOST_CODES: Final = 64
_LONGEST_CODE: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A verdict that may become a row: what was judged, what the rules say, the document.

    Attributes:
        composes: it takes part in the verdict of its scope.
        gates: as the document has them.
        receipts: those that decided.
    """

    kind: str
    receipt: str | None
    composes: bool
    verdict: Verdict
    gates: tuple[GateResult, ...]
    document: bytes
    deployable_grade: Basis
    receipts: tuple[str, ...]
    superseded_by: str | None = None

    @property
    def subject_key(self) -> Digest:
        """Names what was judged; the newest row of a key is current."""
        one = self.verdict
        return subject_key(
            self.kind,
            of=self.receipt or str(one.scope.digest()),
            capability=one.capability.value,
            case=f"{one.case}\n{one.pointer}" if self.kind == "case" else "",
        )


def subject_key(kind: str, *, of: str, capability: str, case: str = "") -> Digest:
    """The key of a case, a receipt (`of` its SHA-256) or a scope (`of` its digest)."""
    return sha256(encode_canonical([kind, of, capability, case]))


def receipt_draft(
    verdict: Verdict, *, kind: str, receipt: str, composes: bool, grade: Basis, superseded_by: str | None
) -> Draft:
    """The verdict about a receipt or one case of it."""
    document: JsonObject = {
        "schema": SCHEMA,
        "kind": kind,
        "receipt": receipt,
        "deployable_grade": grade.value,
        "superseded_by": superseded_by,
        **verdict_document(verdict),
    }
    return Draft(
        kind=kind,
        receipt=receipt,
        composes=composes and verdict.outcome is not Outcome.NONE,
        verdict=verdict,
        gates=verdict.gates,
        document=encode_canonical(document),
        deployable_grade=grade,
        receipts=(receipt,),
        superseded_by=superseded_by,
    )


def scope_draft(composed: Composed, *, made_of: Sequence[Receipt], grade: Basis) -> Draft:
    """The verdict about a scope."""
    content = composed_document(composed, made_of)
    document: JsonObject = {
        "schema": SCHEMA,
        "kind": "scope",
        "receipt": None,
        "deployable_grade": grade.value,
        **content,
    }
    gates = composed_gates(composed, made_of)
    verdict = Verdict(
        capability=composed.capability,
        case="",
        pointer="",
        scope=composed.scope,
        outcome=composed.outcome,
        row=composed.row,
        reason=composed.reason,
        deployable=composed.deployable,
        deployable_reason=composed.deployable_reason,
        evidence_grade=composed.evidence_grade,
        declared=None,
        gates=gates,
        findings=composed.findings,
        established=composed.established,
        not_established=composed.not_established,
        ruleset=str(content["ruleset"]),
    )
    return Draft(
        kind="scope",
        receipt=None,
        composes=False,
        verdict=verdict,
        gates=gates,
        document=encode_canonical(document),
        deployable_grade=grade,
        receipts=tuple(dict.fromkeys(composed.receipts))[:MOST_NAMED],
    )


def closing_draft(last: Verdict, *, kind: str, receipt: str | None, grade: Basis, ruleset: str) -> Draft:
    """Nothing is judged under this key any more: said by a row of its own, since none is ever removed."""
    verdict = replace(
        last,
        outcome=Outcome.NONE,
        row=Row.NO_VERDICT,
        reason="Nothing is judged here any more: the rules see no such case, or no receipt counts for it.",
        deployable=False,
        deployable_reason=Outcome.NONE.value,
        evidence_grade=None,
        gates=(),
        findings=(),
        established=(),
        not_established=(),
        ruleset=ruleset,
    )
    document: JsonObject = {
        "schema": SCHEMA,
        "kind": kind,
        "receipt": receipt,
        "deployable_grade": grade.value,
        **verdict_document(verdict),
    }
    return Draft(
        kind=kind,
        receipt=receipt,
        composes=False,
        verdict=verdict,
        gates=(),
        document=encode_canonical(document),
        deployable_grade=grade,
        receipts=(),
    )


def receipt_drafts(facts: DocumentFacts, surroundings: Surroundings, *, grade: Basis) -> Iterator[Draft]:
    """The receipt's verdict per capability; its cases' own where it has several.

    Args: grade: the weakest grade of evidence with which anything is deployable.
    """
    verdicts = judge_document(facts, around=surroundings, deployable_grade=grade)
    successor = next((one.document for one in surroundings.superseded_by), None)
    for cases in by_capability(verdicts).values():
        joined = joined_verdict(cases, facts)
        yield _draft(joined, facts, kind="receipt", composes=len(cases) == 1, grade=grade, by=successor)
        if len(cases) > 1:
            for case in cases:
                yield _draft(case, facts, kind="case", composes=True, grade=grade, by=successor)


def composed_draft(receipts: Sequence[Receipt], *, capability: Capability, grade: Basis) -> Draft | None:
    """The verdict over the scope of these receipts; none where they are of no such capability."""
    composed = compose(receipts, scope=receipts[0].verdict.scope, capability=capability)
    return None if composed is None else scope_draft(composed, made_of=receipts, grade=grade)


def draft_from(document: bytes, *, subject: str) -> Draft:
    """A kept document as the draft it was made from; whether it takes part in its scope is not in it.

    Raises:
        FormatError: the bytes are no verdict as it is kept.
    """
    verdict = verdict_from(document, subject=subject)
    value = expect_object(decode_canonical(document, subject=subject), subject=subject)
    if value.get("schema") != SCHEMA:
        raise FormatError(f"{subject}.schema", expected=SCHEMA, found=shown(value.get("schema")))
    kind, receipt = str(value.get("kind")), _text(value.get("receipt"))
    try:
        grade = Basis(str(value.get("deployable_grade")))
    except ValueError:
        found = shown(value.get("deployable_grade"))
        raise FormatError(f"{subject}.deployable_grade", expected="a grade", found=found) from None
    decided: tuple[str, ...] = (receipt,) if receipt and "superseded_by" in value else ()
    named = value.get("receipts")
    if kind == "scope" and isinstance(named, dict) and isinstance(named.get("first"), list):
        decided = tuple(str(one) for one in expect_list(named["first"], subject=f"{subject}.receipts"))
    return Draft(
        kind=kind,
        receipt=receipt,
        composes=False,
        verdict=verdict,
        gates=verdict.gates,
        document=document,
        deployable_grade=grade,
        receipts=decided,
        superseded_by=_text(value.get("superseded_by")),
    )


def index_columns(draft: Draft) -> dict[str, JsonValue]:
    """What a row keeps beside the document, as an index over it: texts are cut, lists bounded."""
    one = draft.verdict
    return {
        "kind": draft.kind,
        "subject_key": str(draft.subject_key),
        "receipt_sha256": draft.receipt,
        "case_name": index_text(one.case),
        "capability": one.capability.value,
        "scope_digest": str(one.scope.digest()),
        "image_config_id": config_id(one.scope.image),
        **_axes(one.scope),
        "outcome": one.outcome.value,
        "decided_row": int(one.row),
        "reason": index_text(one.reason, limit=500),
        "deployable": one.deployable,
        "deployable_reason": index_text(one.deployable_reason, limit=_LONGEST_CODE),
        "evidence_grade": one.evidence_grade.value if one.evidence_grade else None,
        "deployable_grade": draft.deployable_grade.value,
        "codes": _codes(found.name for found in one.deciding),
        "finding_codes": _codes(found.name for found in one.findings),
        "gates": {gate.gate.value: _gate(gate) for gate in draft.gates},
        "document_sha256": str(sha256(draft.document)),
        "ruleset": one.ruleset,
        "receipts": list(draft.receipts),
        "superseded_by": draft.superseded_by,
    }


def _draft(
    verdict: Verdict, facts: DocumentFacts, *, kind: str, composes: bool, grade: Basis, by: str | None
) -> Draft:
    """A scope is an image's, or that of an engine known by its source."""
    named = bool(verdict.scope.image or verdict.scope.source)
    return receipt_draft(
        verdict,
        kind=kind,
        receipt=facts.sha256,
        composes=composes and named and not verdict.is_drill,
        grade=grade,
        superseded_by=by,
    )


def _axes(scope: ScopeKey) -> dict[str, JsonValue]:
    return {axis: index_text(text) for axis, text in scope.axes().items() if axis != "image"}


def _codes(names: Iterable[str]) -> list[JsonValue]:
    cut: list[JsonValue] = [index_text(name, limit=_LONGEST_CODE) for name in dict.fromkeys(names)]
    return cut[:_MOST_CODES]


def _gate(gate: GateResult) -> JsonObject:
    return {
        "state": gate.state.value,
        "basis": gate.basis.value if gate.basis else None,
        "needed": gate.needed,
    }


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
