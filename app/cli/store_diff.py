"""``sparkgate store diff``: two roots, or two ranks of one snapshot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from app.cli.store_check import readable
from app.cli.store_console import ExitCode, InputError, errors_shown, open_root, read_layout
from app.core.canonical_json import encode_canonical
from app.core.digest import Digest
from app.core.errors import CoreError, FormatError
from app.core.store.diff import EntryDiff, diff_roots

DIFF_HELP = """Compare the entries of two rank-local roots: same context, what is equal, what differs.

Entries of one context are paired by storage key; two left over are compared as ranks of one snapshot.
Exit codes: 0 equal, 1 different, 2 usage or unreadable input.
"""


def diff(
    a: Annotated[Path, typer.Argument(help="One rank-local root.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    context: Annotated[str | None, typer.Option(help="Only entries of this context digest.")] = None,
    layout: Annotated[Path | None, typer.Option(help="Decode both and compare layer by layer.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Print every pair as it was compared, and leave with the outcome's code."""
    with errors_shown(as_json=as_json), readable():
        wanted = None if context is None else _parse_context(context)
        pages = None if layout is None else read_layout(layout)
        pairs = diff_roots(open_root(a), open_root(b), context=wanted, layout=pages)
        try:
            equal = (_print_json if as_json else _print_lines)(_required(pairs, context=wanted))
        except FormatError as error:
            raise InputError(str(error)) from None
    raise typer.Exit(ExitCode.SUCCESS if equal else ExitCode.CORRUPT)


def _required(pairs: Iterator[EntryDiff], *, context: Digest | None) -> Iterator[EntryDiff]:
    """The same pairs; a context that neither root has is a mistake of whoever asks."""
    first = next(pairs, None)
    if first is not None:
        yield first
        yield from pairs
    elif context is not None:
        raise InputError(f"context {context}: expected an entry in either root, found none")


def _print_json(pairs: Iterator[EntryDiff]) -> bool:
    """One document, written as the pairs come, one on a line."""
    equal, different, separator = 0, 0, '{"entries":[\n'
    for pair in pairs:
        typer.echo(f"{separator}{encode_canonical(pair.to_document()).decode('ascii')}", nl=False)
        separator = ",\n"
        equal, different = equal + pair.is_equal, different + (not pair.is_equal)
    head = separator if not equal + different else ""
    outcome = "different" if different else "equal"
    typer.echo(f'{head}\n],"outcome":"{outcome}","totals":{{"different":{different},"equal":{equal}}}}}')
    return not different


def _print_lines(pairs: Iterator[EntryDiff]) -> bool:
    equal = True
    for pair in pairs:
        equal = equal and pair.is_equal
        typer.echo("\n".join(_lines(pair)))
    typer.echo("equal" if equal else "different")
    return equal


def _lines(pair: EntryDiff) -> Iterator[str]:
    side = pair.a or pair.b
    if side is not None:
        yield f"{'alias' if side.alias else 'entry'} {side.name.context_digest}"
    for letter, one in (("a", pair.a), ("b", pair.b)):
        yield f"  {letter}: {'none' if one is None else one.name.storage_key}"
    if pair.equal:
        yield f"  equal: {', '.join(pair.equal)}"
    for difference in pair.different:
        yield f"  differs: {difference.fact}"
        for letter, value in (("a", difference.a), ("b", difference.b)):
            yield f"    {letter}: {encode_canonical(value).decode('ascii')}"


def _parse_context(context: str) -> Digest:
    try:
        return Digest.parse(context, subject="--context")
    except CoreError as error:
        raise InputError(str(error)) from None
