"""Findings of profile checks on a terminal, and the ways a profile command ends."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from app.cli.client import fail
from app.core.errors import CoreError, FormatError
from app.core.printable import printable
from app.core.profiles.documents import ProfileDocumentError
from app.core.profiles.findings import CheckResult, ProfileFinding, blocking, finding_object, overall


@contextmanager
def told_in_words(*, as_json: bool) -> Iterator[None]:
    """End with a sentence or a JSON object instead of a traceback.

    Exit codes: 1 for a document that cannot be taken (its findings are in the JSON), 2 for what cannot be
    read or asked.
    """
    try:
        yield
    except ProfileDocumentError as error:
        if as_json:
            typer.echo(json.dumps({"error": str(error), **findings_document(error.findings)}))
        else:
            typer.echo(printable(f"{error.code}  {error}"), err=True)
            print_findings(error.findings, all_of_them=False)
        raise typer.Exit(1) from None
    except CoreError as error:
        told = error if as_json else ValueError(printable(str(error)))
        fail(told, as_json=as_json, status=2 if isinstance(error, FormatError) else 1)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        found = OSError(f"{error.filename}: expected a file to read, found {reason}")
        fail(found, as_json=as_json, status=2)


def findings_document(findings: Sequence[ProfileFinding]) -> dict[str, Any]:
    """Result, counts and findings as members of a JSON object."""
    first = blocking(findings)
    return {
        "result": overall(findings).value,
        "first_blocking": first[0].code if first else None,
        "counts": {result.value: count for result, count in _counts(findings).items()},
        "findings": [finding_object(found) for found in findings],
    }


def finish(
    head: dict[str, Any],
    findings: Sequence[ProfileFinding],
    *,
    as_json: bool,
    lines: Callable[[], None] | None = None,
    all_of_them: bool = False,
    tolerated: Collection[str] = (),
) -> NoReturn:
    """Print and leave: 0 if nothing blocks but the tolerated codes, 1 if something does."""
    if as_json:
        typer.echo(json.dumps({**head, **findings_document(findings)}))
    else:
        if lines is not None:
            lines()
        print_findings(findings, all_of_them=all_of_them)
    blocked = any(found.code not in tolerated for found in blocking(findings))
    raise typer.Exit(1 if blocked else 0)


def print_findings(findings: Sequence[ProfileFinding], *, all_of_them: bool) -> None:
    """One line each; passed checks and those that do not apply are only counted, unless asked for."""
    quiet = (CheckResult.PASS, CheckResult.NOT_APPLICABLE)
    for found in findings:
        if all_of_them or found.result not in quiet:
            say(_line(found))
    counts = ", ".join(f"{count} {result.value}" for result, count in _counts(findings).items())
    typer.echo(f"{overall(findings).value}: {counts}" if findings else "nothing checked")


def say(text: str) -> None:
    """One line on standard output, without anything a terminal would obey: values come from documents."""
    typer.echo(printable(text))


def _counts(findings: Sequence[ProfileFinding]) -> dict[CheckResult, int]:
    counted = Counter(found.result for found in findings)
    return {result: counted[result] for result in CheckResult if counted[result]}


def _line(found: ProfileFinding) -> str:
    rank = f" rank {found.rank}" if found.rank is not None else ""
    parts = [f"{found.result.value:14} {found.severity.value} {found.code}{rank}"]
    if found.pointer:
        parts.append(found.pointer)
    if found.detail:
        parts.append(found.detail)
    if found.expected or found.found:
        parts.append(f"expected {found.expected or 'nothing'}, found {found.found or 'nothing'}")
    return "  ".join(parts)
