"""``sparkgate store ls``: the entries of a root."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.cli.store_check import readable
from app.cli.store_console import ExitCode, errors_shown, open_root
from app.core.canonical_json import encode_canonical
from app.core.store.check import EntryStanding, Problem, RootCheck
from app.core.store.lookup import Depth

LS_HELP = """List the entries of a rank-local root by their documents; objects are not looked at.

What is no entry, or none that can be understood, is counted on standard error; `store check` names it.
Exit codes: 0 all listed, 1 documents that could not be listed, 2 usage or unreadable input.
"""

_COLUMNS = "{kind:<13} {tokens:>9} {rank:>7} {objects:>7} {size:>16}  {context}  {key}"


def list_entries(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Print one line per entry, as they are found."""
    with errors_shown(as_json=as_json), readable():
        open_root(path)
        check = RootCheck(path, depth=Depth.METADATA)
        if as_json:
            _print_json(check)
        else:
            _print_lines(check)
    unlisted = sum(count for code, count in check.totals.problems.items() if not code.is_leftover)
    if unlisted:
        typer.echo(f"{unlisted} documents or folders are not sound, see store check", err=True)
    raise typer.Exit(ExitCode.CORRUPT if unlisted else ExitCode.SUCCESS)


def _standings(check: RootCheck) -> Iterator[EntryStanding]:
    return (finding for finding in check.findings() if not isinstance(finding, Problem))


def _print_json(check: RootCheck) -> None:
    typer.echo('{"entries":[', nl=False)
    separator = "\n"
    for standing in _standings(check):
        typer.echo(f"{separator}{encode_canonical(standing.to_document()).decode('ascii')}", nl=False)
        separator = ",\n"
    totals = encode_canonical(check.totals.to_document()).decode("ascii")
    typer.echo(f'\n],"totals":{totals}}}')


def _print_lines(check: RootCheck) -> None:
    head = _COLUMNS.format(
        kind="kind",
        tokens="tokens",
        rank="rank",
        objects="objects",
        size="bytes",
        context="context".ljust(64),
        key="storage key",
    )
    typer.echo(head)
    for standing in _standings(check):
        typer.echo(
            _COLUMNS.format(
                kind=standing.kind,
                tokens=standing.committed_tokens,
                rank=f"{standing.rank}/{standing.rank_count}",
                objects=standing.objects,
                size=f"{standing.byte_count:,}",
                context=standing.name.context_digest,
                key=standing.name.storage_key,
            )
        )
