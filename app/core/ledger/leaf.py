"""What a leaf says: which rows were written, under which digest, by whom, when.

A *view* names a table and the columns of it that do not change any more from that moment on; a row's digest
is over exactly these columns. The latest leaf that mentions a row of a view counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from app.core.canonical_json import (
    MAX_DOCUMENT_BYTES,
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_object,
    expect_text,
)
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, shown

SCHEMA: Final = "sparkgate-ledger-leaf/v1"
_KEYS: Final = frozenset({"schema", "kind", "at", "by", "facts", "rows"})
_KIND: Final = re.compile(r"[a-z]+(-[a-z]+)*")
_AT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

# View → key of the row → its digest.
RowDigests = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One leaf's document.

    Attributes:
        kind: what happened, `restore-ended` for example.
        at: database time, UTC.
        by: who did it.
        rows: the rows it covers, by view and key.
        facts: a few words for people.
    """

    kind: str
    at: datetime
    by: str
    rows: RowDigests
    facts: JsonObject = field(default_factory=dict)


def row_digest(view: str, *, values: Mapping[str, tuple[str, str] | None]) -> Digest:
    """The digest of one row of a view.

    Args:
        values: column → (type, text), or None for NULL. A type in the encoding keeps the text ``7`` and the
            number 7 apart, and an empty text from none.
    """
    columns: JsonObject = {
        name: None if value is None else [value[0], value[1]] for name, value in values.items()
    }
    return sha256(encode_canonical({"columns": columns, "view": view}))


def encode_leaf(leaf: Leaf) -> bytes:
    """The bytes that are hashed and kept: canonical JSON.

    Raises:
        FormatError: the leaf could not be read back. Its rows are not looked at once more: this runs while
            everybody waits for the ledger.
    """
    _check_kind(leaf.kind, subject="new leaf.kind")
    expect_text(leaf.by, subject="new leaf.by")
    rows: JsonObject = {view: dict(digests) for view, digests in leaf.rows.items()}
    document: JsonObject = {
        "schema": SCHEMA,
        "kind": leaf.kind,
        "at": instant_text(leaf.at),
        "by": leaf.by,
        "facts": leaf.facts,
        "rows": rows,
    }
    raw = encode_canonical(document)
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise FormatError("new leaf", expected=f"at most {MAX_DOCUMENT_BYTES} bytes", found=str(len(raw)))
    return raw


def parse_leaf(raw: bytes, *, subject: str) -> Leaf:
    """Read a leaf's bytes strictly.

    Raises:
        FormatError: they are not what `encode_leaf` writes.
    """
    document = expect_object(decode_canonical(raw, subject=subject), subject=subject, keys=_KEYS)
    if document["schema"] != SCHEMA:
        raise FormatError(f"{subject}.schema", expected=SCHEMA, found=shown(document["schema"]))
    kind = expect_text(document["kind"], subject=f"{subject}.kind")
    _check_kind(kind, subject=f"{subject}.kind")
    rows = expect_object(document["rows"], subject=f"{subject}.rows")
    return Leaf(
        kind=kind,
        at=_instant(document["at"], subject=f"{subject}.at"),
        by=expect_text(document["by"], subject=f"{subject}.by"),
        facts=expect_object(document["facts"], subject=f"{subject}.facts"),
        rows={view: _digests(rows[view], subject=f"{subject}.rows.{view}") for view in rows},
    )


def _check_kind(kind: str, *, subject: str) -> None:
    if _KIND.fullmatch(kind) is None:
        raise FormatError(subject, expected="words joined by -", found=shown(kind))


def instant_text(at: datetime) -> str:
    """UTC with microseconds, always of the same length."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _instant(value: JsonValue, *, subject: str) -> datetime:
    text = expect_text(value, subject=subject)
    if _AT.fullmatch(text) is None:
        raise FormatError(subject, expected="YYYY-MM-DDThh:mm:ss.ffffffZ", found=shown(text))
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise FormatError(subject, expected="a time that exists", found=shown(text)) from None


def _digests(value: JsonValue, *, subject: str) -> dict[str, str]:
    rows = expect_object(value, subject=subject)
    return {key: Digest.parse(rows[key], subject=f"{subject}.{key}") for key in rows}
