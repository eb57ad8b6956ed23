"""Verdicts of the core as rows: the document in canonical JSON, and an index over it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from app.core.canonical_json import JsonObject, encode_canonical
from app.core.digest import Digest, sha256
from app.core.qualify.composed_document import MOST_NAMED, composed_document, composed_gates
from app.core.qualify.composition import Composed, Receipt
from app.core.qualify.findings import GateResult, Outcome, Row
from app.core.qualify.scope import ScopeKey
from app.core.qualify.values import Basis
from app.core.qualify.verdict import Verdict
from app.core.qualify.verdict_document import verdict_document
from app.models import VerdictRow
from app.receipts.service.keys import config_id, index_text

SCHEMA: Final = "sparkgate-verdict/v1"
_MOST_CODES: Final = 64
_LONGEST_CODE: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a verdict is made: `what` is one of the words of `VerdictRow.cause`."""

    what: str
    detail: str
    by: str
    receipt: str | None = None


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


def row_of(draft: Draft, *, cause: Cause, previous_id: UUID | None, now: datetime) -> VerdictRow:
    """The row of a draft."""
    one = draft.verdict
    return VerdictRow(
        id=uuid4(),
        kind=draft.kind,
        subject_key=draft.subject_key,
        receipt_sha256=draft.receipt,
        case_name=index_text(one.case),
        capability=one.capability.value,
        scope_digest=one.scope.digest(),
        image_config_id=config_id(one.scope.image),
        **_axes(one.scope),
        outcome=one.outcome.value,
        decided_row=int(one.row),
        reason=index_text(one.reason, limit=500),
        deployable=one.deployable,
        deployable_reason=index_text(one.deployable_reason, limit=_LONGEST_CODE),
        evidence_grade=one.evidence_grade.value if one.evidence_grade else None,
        deployable_grade=draft.deployable_grade.value,
        codes=_codes(found.name for found in one.deciding),
        finding_codes=_codes(found.name for found in one.findings),
        gates={gate.gate.value: _gate(gate) for gate in draft.gates},
        document=draft.document,
        document_sha256=sha256(draft.document),
        ruleset=one.ruleset,
        receipts=list(draft.receipts),
        superseded_by=draft.superseded_by,
        previous_id=previous_id,
        cause=cause.what,
        cause_detail=index_text(cause.detail, limit=500),
        cause_receipt=cause.receipt,
        created_at=now,
        created_by=cause.by,
    )


def current_values(draft: Draft, row: VerdictRow) -> dict[str, Any]:
    """What lists are filtered by, of the newest row of a key."""
    return {
        "subject_key": row.subject_key,
        "verdict_id": row.id,
        "document_sha256": row.document_sha256,
        "created_at": row.created_at,
        "kind": row.kind,
        "receipt_sha256": row.receipt_sha256,
        "composes": draft.composes,
        "capability": row.capability,
        "scope_digest": row.scope_digest,
        "image_config_id": row.image_config_id,
        "tp": row.tp,
        "dcp": row.dcp,
        "outcome": row.outcome,
        "deployable": row.deployable,
        "evidence_grade": row.evidence_grade,
        "deployable_grade": row.deployable_grade,
        "superseded_by": row.superseded_by,
        "ruleset": row.ruleset,
        "terms": sorted(set(_terms(row))),
        "words": " ".join(_searched(row)),
    }


def term(kind: str, value: str) -> str:
    """A word that lists are filtered by."""
    return f"{kind}:{index_text(value)}"


def _terms(row: VerdictRow) -> Iterator[str]:
    yield term("capability", row.capability)
    yield from (term("code", code) for code in row.finding_codes)
    yield from (term("code", code.partition(":")[0]) for code in row.finding_codes)
    yield from (term("gate", f"{gate}={said['state']}") for gate, said in row.gates.items())
    for model in (row.target, row.draft):
        yield from (term("model", part) for part in (model, *model.split()) if part)
    for part in row.source.split():
        axis, _, value = part.partition("=")
        yield term("commit" if axis == "commit" else "source", value)


def _searched(row: VerdictRow) -> Iterator[str]:
    """What a person may type: digests with and without their prefix, names whole and in parts."""
    texts = (
        row.image_config_id or "",
        row.source.replace("=", " "),
        row.target,
        row.draft,
        row.publication_schema,
        row.manifest_schema,
        row.case_name,
        row.outcome,
        *row.finding_codes,
    )
    for text in texts:
        yield text
        yield text.replace("/", " ").replace("-", " ").replace("_", " ").replace(":", " ")


def _axes(scope: ScopeKey) -> dict[str, str]:
    return {axis: index_text(text) for axis, text in asdict(scope).items() if axis != "image"}


def _codes(names: Iterator[str]) -> list[str]:
    return [index_text(name, limit=_LONGEST_CODE) for name in dict.fromkeys(names)][:_MOST_CODES]


def _gate(gate: GateResult) -> dict[str, Any]:
    return {
        "state": gate.state.value,
        "basis": gate.basis.value if gate.basis else None,
        "needed": gate.needed,
    }
