"""``sparkgate store verify``: read an entry to its last byte and take it apart."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from app.cli.store_console import (
    ExitCode,
    Mode,
    errors_shown,
    open_root,
    print_json,
    print_pairs,
    read_identity,
    read_layout,
)
from app.core.canonical_json import JsonObject
from app.core.store.verify import Verification, VerifyOutcome, verify

VERIFY_HELP = """Look an entry up, judge header, stream and decoding, and show the digests of its content.

Exit codes: 0 verified, 1 corrupt, 2 usage or unreadable input, 3 absent, 4 incompatible, 5 failed.
"""

_EXIT_CODES = {
    VerifyOutcome.VERIFIED: ExitCode.SUCCESS,
    VerifyOutcome.CORRUPT: ExitCode.CORRUPT,
    VerifyOutcome.ABSENT: ExitCode.ABSENT,
    VerifyOutcome.INCOMPATIBLE: ExitCode.INCOMPATIBLE,
}


def verify_entry(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    identity: Annotated[Path, typer.Option(help="The identity document, in the form it was written in.")],
    context: Annotated[str, typer.Option(help="Context digest of the prefix, 64 hex characters.")],
    mode: Annotated[Mode | None, typer.Option(help="How to read a legacy entry; rows tries aliases.")] = None,
    layout: Annotated[Path | None, typer.Option(help="The page layout, to cut pages into layers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Verify, print, and leave with the outcome's code."""
    with errors_shown(as_json=as_json):
        found = verify(
            open_root(path),
            identity=read_identity(identity),
            context_digest=context,
            mode=None if mode is None else mode.storage,
            layout=None if layout is None else read_layout(layout),
        )
        if as_json:
            print_json(_describe(found))
        else:
            _print(found)
        raise typer.Exit(_EXIT_CODES[found.outcome])


def _summarize(found: Verification) -> JsonObject:
    entry = found.entry
    return {
        "outcome": found.outcome,
        "stage": found.stage,
        "kind": None if entry is None else entry.kind,
        "sha256": None if entry is None else entry.sha256,
        "span_tokens": None if entry is None else entry.committed_tokens,
        "stream_sha256": found.stream_sha256,
        "detail": found.detail,
        "note": found.note,
    }


def _describe(found: Verification) -> JsonObject:
    return {
        **_summarize(found),
        "layers": [
            {"name": item.name, "pages": item.pages, "bytes": item.byte_count, "sha256": item.sha256}
            for item in found.layers
        ],
        "records": [
            {"kind": item.kind, "bytes": item.byte_count, "sha256": item.sha256} for item in found.records
        ],
    }


def _print(found: Verification) -> None:
    print_pairs({key: str(value) for key, value in _summarize(found).items() if value is not None})
    table = Table("content", Column("bytes", justify="right"), Column("sha256", overflow="fold"))
    for layer in found.layers:
        table.add_row(layer.name, f"{layer.byte_count:,}", layer.sha256)
    for record in found.records:
        table.add_row(record.kind, f"{record.byte_count:,}", record.sha256)
    if table.row_count:
        Console().print(table)
