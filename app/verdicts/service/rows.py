"""Verdicts of the core as rows: the document in canonical JSON, and an index over it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from app.core.qualify.drafts import Draft as Draft
from app.core.qualify.drafts import closing_draft as closing_draft
from app.core.qualify.drafts import index_columns
from app.core.qualify.drafts import subject_key as subject_key
from app.core.qualify.keys import index_text
from app.models import VerdictRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a verdict is made: `what` is one of the words of `VerdictRow.cause`."""

    what: str
    detail: str
    by: str
    receipt: str | None = None


def row_of(draft: Draft, *, cause: Cause, previous_id: UUID | None, now: datetime) -> VerdictRow:
    """The row of a draft."""
    return VerdictRow(
        id=uuid4(),
        **index_columns(draft),
        document=draft.document,
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
