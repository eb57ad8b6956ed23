"""``sparkgate store check``: everything that is wrong in a root, as it is found."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app.cli.progress import progress_line
from app.cli.store_console import ExitCode, InputError, errors_shown, open_root, print_pairs
from app.core.canonical_json import encode_canonical
from app.core.errors import ResourceError
from app.core.store.check import CheckProgress, CheckTotals, EntryStanding, Finding, RootCheck
from app.core.store.lookup import Depth

CHECK_HELP = """Walk a whole rank-local root and report every problem; nothing is written or touched.

What is found is printed at once. With --json that is one document whose findings stand one on a line.
Leftovers (debris, unknown names, what no entry needs) are problems too, and marked as such.
Exit codes: 0 clean, 1 problems, 2 usage or unreadable input.
"""


def check_root(
    path: Annotated[Path, typer.Argument(help="The rank-local root.")],
    depth: Annotated[Depth, typer.Option(help="How far to look; full reads every byte.")] = Depth.SIZE,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Print every finding, then the sums, and leave with the outcome's code."""
    with errors_shown(as_json=as_json):
        open_root(path)
        with progress_line("check") as say:
            check = RootCheck(path, depth=depth, progress=lambda progress: say(_say(progress)))
            (_print_json if as_json else _print_lines)(check, depth=depth)
    raise typer.Exit(ExitCode.SUCCESS if check.totals.clean else ExitCode.CORRUPT)


@contextmanager
def readable() -> Iterator[None]:
    """A root that cannot be read to its end is unreadable input.

    Raises:
        InputError: what stood in the way.
    """
    try:
        yield
    except ResourceError as error:
        raise InputError(str(error)) from None


def _print_json(check: RootCheck, *, depth: Depth) -> None:
    """One document, written as the findings come; it is closed properly even if the walk breaks off."""
    typer.echo(f'{{"depth":"{depth}","findings":[', nl=False)
    separator = "\n"
    error: ResourceError | None = None
    try:
        for finding in check.findings():
            typer.echo(f"{separator}{encode_canonical(finding.to_document()).decode('ascii')}", nl=False)
            separator = ",\n"
    except ResourceError as found:
        error = found
    outcome = "unreadable" if error else "clean" if check.totals.clean else "problems"
    totals = encode_canonical(check.totals.to_document()).decode("ascii")
    said = "" if error is None else f',"error":{encode_canonical(str(error)).decode("ascii")}'
    typer.echo(f'\n],"outcome":"{outcome}","totals":{totals}{said}}}')
    if error is not None:
        raise typer.Exit(ExitCode.UNREADABLE)


def _print_lines(check: RootCheck, *, depth: Depth) -> None:
    with readable():
        for finding in check.findings():
            line = _line(finding)
            if line is not None:
                typer.echo(line)
    print_pairs({"depth": depth.value} | _pairs(check.totals))


def _line(finding: Finding) -> str | None:
    """A problem, or an entry that cannot be restored; sound entries are for ``store ls``."""
    if not isinstance(finding, EntryStanding):
        return f"{finding.code}: {finding.path}: expected {finding.expected}, found {finding.found}"
    if finding.restorable:
        return None
    more = finding.obstacle_count - 1
    return (
        f"not restorable: {finding.name.context_digest} ({finding.schema}): {finding.obstacles[0]}"
        f"{f' (and {more} more)' if more else ''}"
    )


def _pairs(totals: CheckTotals) -> dict[str, str]:
    amounts = {
        "documents": totals.documents,
        "segments": totals.segments,
        "objects": totals.objects,
        "unreferenced": totals.unreferenced,
        "debris": totals.debris,
        "unknown": totals.unknown,
    }
    pairs = {
        name: f"{amount.files:,} files, {amount.byte_count:,} bytes, {amount.stored_bytes:,} on disk"
        for name, amount in amounts.items()
    }
    entries = sum(totals.entries.values())
    pairs |= {
        "needed objects": f"{totals.referenced_objects:,}, {totals.referenced_bytes:,} bytes",
        "entries": f"{entries:,}, {totals.restorable:,} restorable",
    }
    pairs |= {f"  {schema}": f"{count:,}" for schema, count in sorted(totals.entries.items())}
    pairs |= {f"  {code}": f"{count:,}" for code, count in sorted(totals.problems.items())}
    return pairs | {"outcome": "clean" if totals.clean else "problems"}


def _say(progress: CheckProgress) -> str:
    return f"{progress.names:,} names, {progress.entries:,} entries, {progress.read_bytes:,} bytes read"
