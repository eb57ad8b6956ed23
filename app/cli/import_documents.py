"""``sparkgate import``: folders of evidence documents into a running sparkgate, through its API.

Through the API and not beside it: one way in, with the same checks and the importer's name. The same bytes
again change nothing, so an import that was cut off is simply run again.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from app.cli.client import ApiClient, ApiError, fail, open_api
from app.cli.import_folder import FoundFile, NoDocuments, UnreadableIndex, files_of
from app.cli.import_sending import Done, parts_of, send_file, send_together, sent_in_parts
from app.cli.progress import progress_line
from app.config import Settings
from app.core.printable import printable
from app.core.qualify.document import MAX_RECEIPT_BYTES

# Refusals beyond this are counted, not listed.
MOST_LISTED: Final = 1000


@dataclass(slots=True)
class Summary:
    """What an import did."""

    new: int = 0
    known: int = 0
    refused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: list[dict[str, str]] = field(default_factory=list)

    @property
    def files(self) -> int:
        return self.new + self.known + self.refused

    def document(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "new": self.new,
            "known": self.known,
            "refused": self.refused,
            "outcomes": dict(sorted(self.outcomes.items())),
            "refusals": self.refusals,
        }


def import_documents(
    paths: Annotated[list[Path], typer.Argument(help="Documents, or folders of *.json.")],
    repository: Annotated[
        str | None, typer.Option(help="Repository the paths are of; their paths in it are those given.")
    ] = None,
    commit: Annotated[str, typer.Option(help="Commit they were read at, 7 to 40 digits.")] = "",
    jobs: Annotated[
        int, typer.Option(min=1, max=16, help="Requests of several documents under way at a time.")
    ] = 1,
    url: Annotated[str | None, typer.Option(help="Address of the control plane.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with an API key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Import evidence documents and judge them; run it again to go on where it stopped.

    A folder with an INDEX.json is imported as that names its files' places.
    Exit codes: 0 everything is in, 1 some documents were refused, 2 usage, a folder without
    documents, or no answer.
    """
    summary = Summary()
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        with progress_line("import") as say:
            parts = parts_of(files_of(paths, repository=repository, commit=commit))
            for done in sent_in_parts(parts, send=partial(_send, api), jobs=jobs):
                _count(summary, *done)
                say(f"{summary.files} documents, {summary.refused} refused")
    except (ApiError, OSError, NoDocuments, UnreadableIndex) as error:
        fail(error, as_json=as_json, status=2)
    if as_json:
        typer.echo(json.dumps(summary.document()))
    else:
        _print(summary)
    raise typer.Exit(1 if summary.refused else 0)


def _send(api: ApiClient, part: Sequence[FoundFile]) -> list[Done]:
    if len(part) == 1:
        parameters = part[0].place.parameters() if part[0].place else {}
        to, most = "/api/v1/receipts", MAX_RECEIPT_BYTES
        return [send_file(api, part[0], to=to, parameters=parameters, most_bytes=most)]
    return send_together(
        api, part, to="/api/v1/receipts/batch", member="receipts", most_bytes=MAX_RECEIPT_BYTES
    )


def _count(summary: Summary, file: FoundFile, status: int, body: dict[str, Any]) -> None:
    if status in (200, 201):
        summary.new += status == 201
        summary.known += status == 200
        summary.outcomes[_outcome(body)] += 1
        return
    if status >= 500:
        raise ApiError(f"{file.path}: {status} {body.get('code')}: {body.get('detail')}")
    summary.refused += 1
    if len(summary.refusals) < MOST_LISTED:
        pointer = next((one["pointer"] for one in body.get("errors", [])), "")
        summary.refusals.append(
            {
                "file": str(file.path),
                "code": str(body.get("code")),
                "pointer": pointer,
                "detail": str(body.get("detail")),
            }
        )


def _outcome(body: dict[str, Any]) -> str:
    """The whole receipt's outcome for what its schema speaks about: said by itself of one among several."""
    if "outcome" in body:
        return str(body["outcome"])
    whole = [one for one in body["verdicts"] if one["kind"] == "receipt"]
    main = next((one for one in whole if one["capability"] == body["capability"]), None)
    chosen = main or next(iter(whole), None)
    return "none" if chosen is None else str(chosen["outcome"])


def _print(summary: Summary) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(
        f"{summary.files} documents: {summary.new} new, {summary.known} known, {summary.refused} refused"
    )
    table = Table("outcome", "documents")
    for outcome, count in summary.outcomes.most_common():
        table.add_row(outcome, str(count))
    if summary.outcomes:
        console.print(table)
    for code, group in groupby(
        sorted(summary.refusals, key=lambda one: one["code"]), lambda one: one["code"]
    ):
        for one in list(group)[:20]:
            console.print(printable(f"refused {code}  {one['file']}  {one['pointer']}  {one['detail']}"))
