"""The tables of a bundle: which columns of which rows stand in which CSV, one line per row of a view.

A table is a view for people: digests with the name of their algorithm, instants in UTC. `leaf` is the entry
of the log that covers the row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.core.bundle.csv_text import digest_text, named_text, utc_text, words
from app.core.bundle.records import RowRecord
from app.core.canonical_json import JsonValue, decode_strict, expect_list, expect_object
from app.core.errors import FormatError

# A column of a table, the column of the row it shows, and how.
_Shown = Callable[[str], str]


def _plain(text: str) -> str:
    return text


def texts(text: str) -> list[str]:
    """An array of a row.

    Raises:
        FormatError: no array of texts.
    """
    if text == "[]":
        return []
    return [str(one) for one in expect_list(decode_strict(text.encode(), subject="array"), subject="array")]


def _listed(text: str) -> str:
    return words(texts(text)) if text else ""


def _digests(text: str) -> str:
    return words([digest_text(one) for one in texts(text)]) if text else ""


def _truth(text: str) -> str:
    return {"true": "yes", "false": "no"}.get(text, text)


def _commit(text: str) -> str:
    return f"git:{text}" if text else ""


def _gates(text: str) -> str:
    """Each gate with its state and basis, in the order of their names."""
    said = expect_object(decode_strict(text.encode(), subject="gates"), subject="gates")
    return "; ".join(f"{gate}: {_state(said[gate])}" for gate in sorted(said))


def _state(value: JsonValue) -> str:
    parts = expect_object(value, subject="gate")
    basis, needed = parts.get("basis"), parts.get("needed")
    return f"{parts.get('state')}{f' ({basis})' if basis else ''}{', needed' if needed is True else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTable:
    """A table with one line for each row of one view."""

    name: str
    view: str
    columns: Mapping[str, tuple[str, _Shown]]

    @property
    def header(self) -> Sequence[str]:
        """Names of the columns."""
        return ("leaf", *self.columns)

    def cells(self, row: RowRecord, *, leaf: int) -> list[str]:
        """The line of a row.

        Raises:
            FormatError: a column that is missing, or of another form.
        """
        cells = [str(leaf)]
        for name, (column, show) in self.columns.items():
            try:
                cells.append(show(row.text(column)))
            except FormatError as error:
                subject = f"row {row.view} {row.key}.{name}"
                raise FormatError(subject, expected=error.expected, found=error.found) from None
        return cells


def _table(name: str, view: str, plain: str, **shown: tuple[str, _Shown]) -> RowTable:
    columns = {column: shown.pop(column, (column, _plain)) for column in plain.split()}
    if shown:
        raise TypeError(f"table {name}: no such columns: {', '.join(shown)}")
    return RowTable(name=name, view=view, columns=columns)


_CREATED: Final = ("created_at", utc_text)
_IMAGE: Final = ("image_config_id", digest_text)

ROW_TABLES: Final = {
    table.view: table
    for table in (
        _table(
            "receipts",
            "receipt",
            "sha256 canonical_sha256 byte_count schema kind family capability image release title created_at "
            "created_by",
            sha256=("sha256", digest_text),
            canonical_sha256=("canonical_sha256", digest_text),
            schema=("schema_name", _plain),
            image=_IMAGE,
            created_at=_CREATED,
        ),
        _table(
            "origins",
            "receipt_origin",
            "receipt repository path commit committed_at created_at created_by",
            receipt=("receipt_sha256", digest_text),
            commit=("commit", _commit),
            committed_at=("committed_at", utc_text),
            created_at=_CREATED,
        ),
        _table(
            "verdicts",
            "verdict",
            "id kind receipt case_name capability outcome decided_row reason deployable deployable_reason "
            "evidence_grade deployable_grade image source target draft tp dcp publication_schema "
            "manifest_schema scope codes finding_codes gates ruleset document_sha256 receipts superseded_by "
            "previous_id cause cause_detail cause_receipt created_at created_by",
            receipt=("receipt_sha256", digest_text),
            deployable=("deployable", _truth),
            image=_IMAGE,
            target=("target", named_text),
            draft=("draft", named_text),
            scope=("scope_digest", digest_text),
            codes=("codes", _listed),
            finding_codes=("finding_codes", _listed),
            gates=("gates", _gates),
            ruleset=("ruleset", digest_text),
            document_sha256=("document_sha256", digest_text),
            receipts=("receipts", _digests),
            superseded_by=("superseded_by", digest_text),
            cause_receipt=("cause_receipt", digest_text),
            created_at=_CREATED,
        ),
        _table(
            "declarations",
            "declaration",
            "id capability reason receipts created_at created_by",
            receipts=("receipts", _digests),
            created_at=_CREATED,
        ),
        _table(
            "exceptions",
            "operational_exception",
            "id image scope_digest scope reason expires_at created_at created_by",
            image=_IMAGE,
            scope_digest=("scope_digest", digest_text),
            expires_at=("expires_at", utc_text),
            created_at=_CREATED,
        ),
        _table(
            "exception_ends",
            "operational_exception_end",
            "exception reason created_at created_by",
            exception=("exception_id", _plain),
            created_at=_CREATED,
        ),
        _table(
            "images",
            "image",
            "id config_id manifest_digest index_digest title origin record source_id created_at created_by",
            config_id=("config_id", digest_text),
            manifest_digest=("manifest_digest", digest_text),
            index_digest=("index_digest", digest_text),
            created_at=_CREATED,
        ),
        _table(
            "restore_receipts",
            "restore.receipt",
            "restore receipt problem",
            restore=("id", _plain),
            receipt=("receipt_sha256", digest_text),
            problem=("receipt_problem", _plain),
        ),
    )
}

WITHDRAWN: Final = frozenset(
    {
        "ARTIFACT_WITHDRAWN",
        "CLAIM_AFFECTED",
        "CLAIM_AMENDED",
        "CLAIM_SUPERSEDED",
        "CLAIM_WITHDRAWN",
        "CLEAN_PULL_UNPROVEN",
        "KNOWN_FAILURE",
        "SUPERSEDED_RECEIPT",
        "WAIVED_FAILURE",
    }
)
"""Codes by which a claim was taken back, narrowed, replaced or let pass."""
CONFLICTING: Final = frozenset(
    {
        "IDENTITY_CONFLICT",
        "IDENTITY_CONFLICT_WARN",
        "PATH_REUSED",
        "PAYLOAD_DIGEST_MISMATCH",
        "PIN_MISMATCH",
        "RANK_DIVERGENCE",
        "SEMANTIC_CONTRADICTION",
        "SEMANTIC_ORACLE_MISMATCH",
    }
)
"""Codes by which two statements contradict each other."""
FINDING_HEADER: Final = (
    "leaf",
    "verdict",
    "receipt",
    "image",
    "capability",
    "code",
    "says",
    "pointer",
    "value",
    "document",
    "created_at",
)
COVERAGE_HEADER: Final = (
    "image",
    "title",
    "capability",
    "target",
    "draft",
    "tp",
    "dcp",
    "publication_schema",
    "manifest_schema",
    "source",
    "outcome",
    "deployable",
    "deployable_reason",
    "evidence_grade",
    "verdict",
    "created_at",
)
RESTORE_HEADER: Final = (
    "leaf",
    "restore",
    "ordered_at",
    "ordered_by",
    "purpose",
    "image",
    "context_digest",
    "rank_count",
    "span_tokens",
    "outcome",
    "semantic",
    "question",
    "injected_fault",
    "decision",
    "problem",
    "admitted_at",
    "ended_at",
)
RANK_HEADER: Final = (
    "leaf",
    "restore",
    "rank",
    "number",
    "attempt",
    "node",
    "device",
    "root_document",
    "outcome",
    "state",
    "problem",
    "bytes",
    "objects",
    "service_ns",
    "unattributed_ns",
    "phases_ns",
    "measured_image",
    "claimed_at",
    "ended_at",
)
HEADERS: Final[Mapping[str, Sequence[str]]] = {
    **{table.name: table.header for table in ROW_TABLES.values()},
    "conflicts": FINDING_HEADER,
    "coverage": COVERAGE_HEADER,
    "restore_ranks": RANK_HEADER,
    "restores": RESTORE_HEADER,
    "withdrawals": FINDING_HEADER,
}
