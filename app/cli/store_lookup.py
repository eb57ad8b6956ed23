"""``sparkgate store lookup``: is the entry there, is it the asked one, is it sound?"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.store_console import (
    ExitCode,
    Mode,
    errors_shown,
    open_root,
    print_json,
    print_pairs,
    read_identity,
)
from app.core.canonical_json import JsonObject
from app.core.store.lookup import Depth, LookupAnswer, LookupOutcome, lookup

LOOKUP_HELP = """Ask a rank-local root for one entry, as deep as wanted.

Exit codes: 0 hit, 1 corrupt, 2 usage or unreadable input, 3 absent, 4 incompatible, 5 failed.
"""

_EXIT_CODES = {
    LookupOutcome.HIT: ExitCode.SUCCESS,
    LookupOutcome.CORRUPT: ExitCode.CORRUPT,
    LookupOutcome.ABSENT: ExitCode.ABSENT,
    LookupOutcome.INCOMPATIBLE: ExitCode.INCOMPATIBLE,
}


def look_up(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    identity: Annotated[Path, typer.Option(help="The identity document, in the form it was written in.")],
    context: Annotated[str, typer.Option(help="Context digest of the prefix, 64 hex characters.")],
    depth: Annotated[Depth, typer.Option(help="How far to look.")] = Depth.FULL,
    mode: Annotated[Mode | None, typer.Option(help="rows also tries a prefix alias.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Answer, and leave with the outcome's code."""
    with errors_shown(as_json=as_json):
        answer = lookup(
            open_root(path),
            identity=read_identity(identity),
            context_digest=context,
            depth=depth,
            mode=None if mode is None else mode.storage,
        )
        if as_json:
            print_json(_describe(answer))
        else:
            print_pairs({key: str(value) for key, value in _describe(answer).items() if value is not None})
        raise typer.Exit(_EXIT_CODES[answer.outcome])


def _describe(answer: LookupAnswer) -> JsonObject:
    entry = answer.entry
    sizes = None if entry is None else {item.sha256: item.byte_count for item in entry.references}
    return {
        "outcome": answer.outcome,
        "depth": answer.depth,
        "kind": answer.kind,
        "sha256": answer.sha256,
        "span_tokens": None if entry is None else entry.committed_tokens,
        "objects": None if sizes is None else len(sizes),
        "bytes": None if sizes is None else sum(sizes.values()),
        "stage": answer.stage,
        "detail": answer.detail,
    }
