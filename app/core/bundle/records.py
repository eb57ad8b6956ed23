"""What a bundle is made of: the log in order, each leaf with the rows it covers, as values and as lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.core.base64_text import decode_base64, encode_base64
from app.core.canonical_json import (
    MAX_DOCUMENT_BYTES,
    JsonObject,
    JsonValue,
    decode_canonical,
    encode_canonical,
    expect_int,
    expect_object,
    expect_text,
)
from app.core.digest import sha256
from app.core.errors import CoreError, FormatError, IntegrityError, shown
from app.core.ledger.leaf import Leaf as LeafText
from app.core.ledger.leaf import parse_leaf, row_digest
from app.core.ledger.merkle import HASH_BYTES, LARGEST_SIZE, Node

EXPORTED: Final = frozenset(
    {
        "declaration",
        "device.registration",
        "evidence_export.end",
        "evidence_export.order",
        "evidence_export.result",
        "image",
        "image_identity",
        "node.registration",
        "operational_exception",
        "operational_exception_end",
        "oracle_question",
        "rank_attempt.order",
        "rank_attempt.release",
        "rank_attempt.result",
        "rank_report",
        "receipt",
        "receipt_origin",
        "restore.order",
        "restore.purpose",
        "restore.question",
        "restore.receipt",
        "restore.release",
        "restore.result",
        "restore.semantic",
        "restore_answer",
        "restore_event",
        "root_document",
        "snapshot",
        "source_identity",
        "verdict",
    }
)
"""Views whose rows a bundle carries: facts that never change. Accounts, keys and pins do; the log has their
digests."""
WITH_DOCUMENT: Final = frozenset({"rank_report", "verdict"})
"""Views whose rows come with the bytes of their column `document`."""

# An entry in base64 with its frame, or a row with its document.
LONGEST_LINE: Final = MAX_DOCUMENT_BYTES
_FULL: Final = frozenset({"index", "leaf"})
_PRUNED: Final = frozenset({"hash", "index", "level"})
_ROW: Final = frozenset({"columns", "document", "key", "leaf", "selected", "view"})

Columns = Mapping[str, tuple[str, str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRecord:
    """A row a leaf covers.

    Attributes:
        columns: what its digest is over: column → (type, text), or None for NULL.
        document: bytes of its column `document`, for the views of `WITH_DOCUMENT`.
        selected: it belongs to what was asked for; else it is context that judging needs.
        place: where its line begins in the file of rows, once it stands there.
    """

    view: str
    key: str
    columns: Columns
    document: bytes | None = None
    selected: bool = True
    place: int = field(default=-1, compare=False)

    def text(self, column: str) -> str:
        """The text of a column; empty for NULL.

        Raises:
            FormatError: the view has no such column.
        """
        if column not in self.columns:
            raise FormatError(f"row {self.view} {self.key}", expected=f"a column {column}", found="none")
        value = self.columns[column]
        return "" if value is None else value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """An entry of the log, byte for byte, with the rows of exported views it covers."""

    index: int
    document: bytes
    rows: tuple[RowRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtree:
    """Entries that are not in the bundle: ``2 ** level`` of them from `index` on, as their node's hash."""

    index: int
    level: int
    hashed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLeaf:
    """An entry whose rows are those it names.

    Attributes:
        rows: by view and key.
        outside: rows of exported views it names and the bundle does not carry.
    """

    index: int
    says: LeafText
    rows: tuple[RowRecord, ...]
    outside: int


def subtrees(start: int, end: int) -> list[Node]:
    """Entries `start` … `end` - 1 as the fewest complete subtrees, in order."""
    found = []
    while start < end:
        level = (end - start).bit_length() - 1
        if start:
            level = min(level, (start & -start).bit_length() - 1)
        found.append(Node(level, start >> level))
        start += 1 << level
    return found


def check_leaf(leaf: Leaf) -> CheckedLeaf:
    """The entry with its rows, each as the entry says by digest.

    Raises:
        FormatError: the entry, or a row, is not in form.
        IntegrityError: a row the entry does not name, twice the same one, or one that was changed.
    """
    says = parse_leaf(leaf.document, subject=f"entry {leaf.index}")
    given: set[tuple[str, str]] = set()
    for row in leaf.rows:
        _check_row(row, says=says, subject=f"entry {leaf.index}: row {row.view} {row.key}")
        if (row.view, row.key) in given:
            raise IntegrityError(
                f"entry {leaf.index}: row {row.view} {row.key}", expected="once", found="twice"
            )
        given.add((row.view, row.key))
    named = sum(len(keys) for view, keys in says.rows.items() if view in EXPORTED)
    rows = tuple(sorted(leaf.rows, key=lambda row: (row.view, row.key)))
    return CheckedLeaf(index=leaf.index, says=says, rows=rows, outside=named - len(given))


def _check_row(row: RowRecord, *, says: LeafText, subject: str) -> None:
    if row.view not in EXPORTED:
        raise FormatError(subject, expected="a view that a bundle carries", found=shown(row.view))
    expected = says.rows.get(row.view, {}).get(row.key)
    if expected is None:
        raise IntegrityError(subject, expected="a row the entry names", found="one it does not name")
    found = row_digest(row.view, values=row.columns)
    if found != expected:
        raise IntegrityError(
            subject, expected=f"digest {expected} as recorded", found=f"{found}: it was changed"
        )
    if (row.document is not None) != (row.view in WITH_DOCUMENT):
        raise FormatError(subject, expected="a document with verdicts and reports only", found="otherwise")
    if row.document is not None:
        digest = f"{len(row.document)} {sha256(row.document)}"
        if row.columns.get("document") != ("bytes", digest):
            raise IntegrityError(f"{subject}.document", expected=shown(row.text("document")), found=digest)


def entry_line(entry: Leaf | Subtree) -> bytes:
    """The line of an entry or of a pruned part of the log."""
    if isinstance(entry, Leaf):
        return encode_canonical({"index": entry.index, "leaf": encode_base64(entry.document)}) + b"\n"
    said: JsonObject = {"hash": encode_base64(entry.hashed), "index": entry.index, "level": entry.level}
    return encode_canonical(said) + b"\n"


def parse_entry(line: bytes, *, subject: str) -> Leaf | Subtree:
    """Read a line of `entry_line`, without the rows.

    Raises:
        FormatError: another spelling.
    """
    value = _canonical(line, subject=subject)
    if "leaf" in value:
        expect_object(value, subject=subject, keys=_FULL)
        text = expect_text(value["leaf"], subject=f"{subject}.leaf")
        return Leaf(
            index=expect_int(value["index"], subject=f"{subject}.index", minimum=0, maximum=LARGEST_SIZE),
            document=decode_base64(text, subject=f"{subject}.leaf"),
        )
    expect_object(value, subject=subject, keys=_PRUNED)
    hashed = decode_base64(expect_text(value["hash"], subject=f"{subject}.hash"), subject=f"{subject}.hash")
    if len(hashed) != HASH_BYTES:
        raise FormatError(f"{subject}.hash", expected=f"{HASH_BYTES} bytes", found=str(len(hashed)))
    return Subtree(
        index=expect_int(value["index"], subject=f"{subject}.index", minimum=0, maximum=LARGEST_SIZE),
        level=expect_int(value["level"], subject=f"{subject}.level", minimum=0, maximum=62),
        hashed=hashed,
    )


def row_line(row: RowRecord, *, leaf: int) -> bytes:
    """The line of a row; a document in canonical JSON stands there as it is, another one in base64."""
    columns: JsonObject = {
        name: None if value is None else [value[0], value[1]] for name, value in row.columns.items()
    }
    said: JsonObject = {
        "columns": columns,
        "document": _document(row.document),
        "key": row.key,
        "leaf": leaf,
        "selected": row.selected,
        "view": row.view,
    }
    return encode_canonical(said) + b"\n"


def parse_row(line: bytes, *, place: int, subject: str) -> tuple[int, RowRecord]:
    """Read a line of `row_line`: the index of its entry, and the row.

    Raises:
        FormatError: another spelling.
    """
    value = expect_object(_canonical(line, subject=subject), subject=subject, keys=_ROW)
    columns = expect_object(value["columns"], subject=f"{subject}.columns")
    if not isinstance(value["selected"], bool):
        raise FormatError(f"{subject}.selected", expected="true or false", found=shown(value["selected"]))
    row = RowRecord(
        view=expect_text(value["view"], subject=f"{subject}.view"),
        key=expect_text(value["key"], subject=f"{subject}.key"),
        columns={name: _cell(cell, subject=f"{subject}.columns.{name}") for name, cell in columns.items()},
        document=_document_bytes(value["document"], subject=f"{subject}.document"),
        selected=value["selected"],
        place=place,
    )
    return expect_int(value["leaf"], subject=f"{subject}.leaf", minimum=0), row


def rows_by_leaf(lines: Iterator[tuple[int, bytes]], *, subject: str) -> Iterator[tuple[int, RowRecord]]:
    """The rows of a file, which stand in the order of their entries, views and keys.

    Raises:
        FormatError: another spelling, or another order.
    """
    last: tuple[int, str, str] = (-1, "", "")
    for place, line in lines:
        index, row = parse_row(line, place=place, subject=f"{subject} at byte {place}")
        now = (index, row.view, row.key)
        if now <= last:
            raise FormatError(f"{subject} at byte {place}", expected=f"a row after {last}", found=f"{now}")
        last = now
        yield index, row


def _canonical(line: bytes, *, subject: str) -> JsonObject:
    if len(line) > MAX_DOCUMENT_BYTES:
        raise FormatError(subject, expected=f"at most {MAX_DOCUMENT_BYTES} bytes", found=str(len(line)))
    return expect_object(decode_canonical(line, subject=subject), subject=subject)


def _cell(value: JsonValue, *, subject: str) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise FormatError(subject, expected="null, or type and text", found=shown(value))
    kind, text = value
    if not isinstance(kind, str) or not isinstance(text, str):
        raise FormatError(subject, expected="null, or type and text", found=shown(value))
    return kind, text


def _document(raw: bytes | None) -> JsonValue:
    if raw is None:
        return None
    try:
        value = decode_canonical(raw, subject="document")
    except CoreError:
        return encode_base64(raw)
    return value if isinstance(value, dict) else encode_base64(raw)


def _document_bytes(value: JsonValue, *, subject: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return encode_canonical(value)
    raw = decode_base64(expect_text(value, subject=subject), subject=subject)
    if isinstance(_document(raw), dict):
        raise FormatError(subject, expected="canonical JSON as it is", found="the same in base64")
    return raw
