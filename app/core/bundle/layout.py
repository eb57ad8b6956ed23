"""Names and order of the files in a bundle, their media types and how large they may be."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from app.core.canonical_json import MAX_DOCUMENT_BYTES
from app.core.errors import FormatError, shown
from app.core.qualify.document import MAX_RECEIPT_BYTES

SCHEMA: Final = "sparkgate-bundle/v1"

MANIFEST: Final = "MANIFEST.json"
ENVELOPE: Final = "MANIFEST.json.dsse"
REPORT: Final = "REPORT.html"
SUMS: Final = "SHA256SUMS"
GUIDE: Final = "VERIFY.md"
KEY: Final = "keys/bundle.pub.pem"
LEDGER_KEY: Final = "keys/ledger.vkey"
PREVIOUS: Final = "log/checkpoint-prev.txt"
CHECKPOINT: Final = "log/checkpoint.txt"
CONSISTENCY: Final = "log/consistency.txt"
ENTRIES: Final = "log/entries.jsonl"
ROWS: Final = "log/rows.jsonl"
RUNS: Final = "statements/runs.intoto.jsonl"
VERDICTS: Final = "statements/verdicts.intoto.jsonl"
VERIFIER: Final = "verify.pyz"

TABLES: Final = (
    "conflicts",
    "coverage",
    "declarations",
    "exception_ends",
    "exceptions",
    "images",
    "origins",
    "receipts",
    "restore_ranks",
    "restore_receipts",
    "restores",
    "verdicts",
    "withdrawals",
)
OPTIONAL: Final = frozenset({PREVIOUS, CONSISTENCY})
UNLISTED: Final = frozenset({MANIFEST, ENVELOPE, SUMS})
"""Not in SHA256SUMS: the manifest names that file, and the signature covers the manifest."""

# The size field of a ustar header: eleven octal digits.
LARGEST_FILE: Final = 8**11 - 1
# No bundle needs more; a list of them must fit in memory.
MOST_FILES: Final = 4_000_000
_RECEIPT: Final = re.compile(r"receipts/([0-9a-f]{64})\.json")
_SMALL_BYTES: Final = 1024 * 1024


def table_path(name: str) -> str:
    """Where a table stands."""
    return f"tables/{name}.csv"


def receipt_path(sha256: str) -> str:
    """Where a receipt stands."""
    return f"receipts/{sha256}.json"


def receipt_of(path: str) -> str | None:
    """The digest of a receipt's file; none for another file."""
    found = _RECEIPT.fullmatch(path)
    return found[1] if found else None


_MEDIA: Final = {
    MANIFEST: "application/json",
    ENVELOPE: "application/vnd.dsse+json",
    REPORT: "text/html; charset=utf-8",
    SUMS: "text/plain; charset=us-ascii",
    GUIDE: "text/markdown; charset=utf-8",
    KEY: "application/x-pem-file",
    LEDGER_KEY: "text/plain; charset=utf-8",
    PREVIOUS: "text/plain; charset=utf-8",
    CHECKPOINT: "text/plain; charset=utf-8",
    CONSISTENCY: "text/plain; charset=utf-8",
    ENTRIES: "application/jsonl",
    ROWS: "application/jsonl",
    RUNS: "application/vnd.in-toto.bundle",
    VERDICTS: "application/vnd.in-toto.bundle",
    VERIFIER: "application/zip",
    **{table_path(name): "text/csv; charset=utf-8; header=present" for name in TABLES},
}
_LARGEST: Final = {
    MANIFEST: MAX_DOCUMENT_BYTES,
    ENVELOPE: 2 * MAX_DOCUMENT_BYTES,
    REPORT: MAX_DOCUMENT_BYTES,
    VERIFIER: MAX_DOCUMENT_BYTES,
    GUIDE: _SMALL_BYTES,
    KEY: _SMALL_BYTES,
    LEDGER_KEY: _SMALL_BYTES,
    PREVIOUS: _SMALL_BYTES,
    CHECKPOINT: _SMALL_BYTES,
    CONSISTENCY: _SMALL_BYTES,
}


def media_type(path: str) -> str:
    """The media type of a file that is no receipt."""
    return _MEDIA[path]


def required() -> frozenset[str]:
    """Files every bundle has."""
    return frozenset(_MEDIA) - OPTIONAL


def check_path(path: str) -> None:
    """Nothing but the files of a bundle has a place in one.

    Raises:
        FormatError: another name; one that would leave the folder is said to.
    """
    if path in _MEDIA or _RECEIPT.fullmatch(path):
        return
    leaves = path.startswith("/") or ".." in path.split("/")
    raise FormatError(
        "archive member",
        expected="the name of a bundle's file",
        found=f"{shown(path)}{', which leaves the folder' if leaves else ''}",
    )


def largest(path: str) -> int:
    """How many bytes the file may have at most."""
    return MAX_RECEIPT_BYTES if _RECEIPT.fullmatch(path) else _LARGEST.get(path, LARGEST_FILE)


def sums_lines(files: Sequence[tuple[str, str]], receipts: Iterable[str]) -> Iterator[bytes]:
    """SHA256SUMS: a line for every file but the manifest, its signature and this one, in the order of names.

    Args: files: path and digest of those that are no receipts, in order. receipts: digests in order.
    """
    waiting = iter(receipts)
    before = [file for file in files if file[0] < "receipts/"]
    for path, digest in before:
        yield f"{digest}  {path}\n".encode("ascii")
    for digest in waiting:
        yield f"{digest}  {receipt_path(digest)}\n".encode("ascii")
    for path, digest in files[len(before) :]:
        yield f"{digest}  {path}\n".encode("ascii")
