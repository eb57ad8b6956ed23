"""Verdicts of the core as rows: the document in canonical JSON, and an index over it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from app.core.canonical_json import JsonObject, JsonValue
from app.core.qualify.composition import saying
from app.core.qualify.drafts import Draft as Draft
from app.core.qualify.drafts import closing_draft as closing_draft
from app.core.qualify.drafts import index_columns
from app.core.qualify.drafts import subject_key as subject_key
from app.core.qualify.keys import index_text

_APART: Final = str.maketrans("/-_:", "    ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a verdict is made: `what` is one of the words of `VerdictRow.cause`."""

    what: str
    detail: str
    by: str
    receipt: str | None = None


def row_of(draft: Draft, *, cause: Cause, previous_id: UUID | None, verdict_id: UUID) -> JsonObject:
    """The columns of a draft's row and of its line in the lists, but for the document's bytes."""
    columns = index_columns(draft)
    said = {name: value for name, value in columns.items() if isinstance(value, str)}
    codes = [str(code) for code in _list(columns["finding_codes"])]
    return {
        **columns,
        "id": str(verdict_id),
        "previous_id": None if previous_id is None else str(previous_id),
        "cause": cause.what,
        "cause_detail": index_text(cause.detail, limit=500),
        "cause_receipt": cause.receipt,
        "created_by": cause.by,
        "composes": draft.composes,
        "saying": saying(draft.verdict) if draft.composes else "",
        "terms": [*sorted(set(_terms(draft, said, codes=codes)))],
        "words": " ".join(_searched(said, codes=codes)),
    }


def term(kind: str, value: str) -> str:
    """A word that lists are filtered by."""
    return f"{kind}:{index_text(value)}"


def _terms(draft: Draft, said: Mapping[str, str], *, codes: Sequence[str]) -> Iterator[str]:
    yield term("capability", said["capability"])
    yield from (term("code", code) for code in codes)
    yield from (term("code", code.partition(":")[0]) for code in codes)
    yield from (term("gate", f"{gate.gate.value}={gate.state.value}") for gate in draft.gates)
    for model in (said["target"], said["draft"]):
        yield from (term("model", part) for part in (model, *model.split()) if part)
    for part in said["source"].split():
        axis, _, value = part.partition("=")
        yield term("commit" if axis == "commit" else "source", value)


def _searched(said: Mapping[str, str], *, codes: Sequence[str]) -> Iterator[str]:
    """What a person may type: digests with and without their prefix, names whole and in parts."""
    texts = (
        said.get("image_config_id", ""),
        said["source"].replace("=", " "),
        said["target"],
        said["draft"],
        said["publication_schema"],
        said["manifest_schema"],
        said["case_name"],
        said["outcome"],
        *codes,
    )
    for text in texts:
        yield text
        yield text.translate(_APART)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
