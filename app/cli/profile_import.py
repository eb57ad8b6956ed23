"""``sparkgate profile import``: contracts, templates and what belongs to them into a running sparkgate.

Through the API, as every import: the same checks, the importer's name, and the same bytes again change
nothing. Nothing outside the folders given is read, and no link is followed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from app.cli.client import ApiClient, ApiError, fail, open_api
from app.cli.import_folder import (
    INDEX_NAME,
    FoundFile,
    NoDocuments,
    Place,
    UnreadableIndex,
    check_paths,
    files_below,
    index_entries,
    inside,
)
from app.cli.import_sending import Done, send_file, sent
from app.cli.progress import progress_line
from app.config import Settings
from app.core.printable import printable
from app.core.profiles.documents import MAX_DOCUMENT_BYTES

UNKNOWN: Final = "document-unknown"
TEMPLATE_ENDS: Final = (".env", ".env.example")
# Refusals beyond this are counted, not listed.
MOST_LISTED: Final = 1000


@dataclass(slots=True)
class Summary:
    """What an import did; `unknown` are files of kinds that profiles have no use for."""

    new: int = 0
    known: int = 0
    unknown: int = 0
    refused: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    refusals: list[dict[str, str]] = field(default_factory=list)

    @property
    def files(self) -> int:
        return self.new + self.known + self.unknown + self.refused

    def document(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("files", "new", "known", "unknown", "refused")}
        return {**counts, "kinds": dict(sorted(self.kinds.items())), "refusals": self.refusals}


def import_profiles(
    paths: Annotated[list[Path], typer.Argument(help="Documents and templates, or folders of them.")],
    repository: Annotated[
        str | None, typer.Option(help="Repository the paths are of; their paths in it are those given.")
    ] = None,
    commit: Annotated[str, typer.Option(help="Commit they were read at, 7 to 40 digits.")] = "",
    jobs: Annotated[int, typer.Option(min=1, max=16, help="Documents under way at a time.")] = 2,
    url: Annotated[str | None, typer.Option(help="Address of the control plane.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with an API key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Import contracts, templates, locks, receipts, selections, claims …; run it again to go on.

    Of folders every *.json, *.env and *.env.example is taken; a folder with an INDEX.json as that names its
    files. JSON of other kinds is counted and left out.
    Exit codes: 0 everything is in, 1 some documents were refused, 2 usage, a folder without
    documents, or no answer.
    """
    summary = Summary()
    try:
        api = open_api(Settings(), url=url, api_key_file=api_key_file)
        with progress_line("import") as say:
            files = profile_files(paths, repository=repository or "", commit=commit)
            for done in sent(files, send=partial(_send, api), jobs=jobs):
                _count(summary, *done)
                say(f"{summary.files} files, {summary.refused} refused")
    except (ApiError, OSError, NoDocuments, UnreadableIndex) as error:
        fail(error, as_json=as_json, status=2)
    if as_json:
        typer.echo(json.dumps(summary.document()))
    else:
        _print(summary)
    raise typer.Exit(1 if summary.refused else 0)


def profile_files(paths: Sequence[Path], *, repository: str, commit: str) -> Iterator[FoundFile]:
    """Every file to import, with its place: a template is found by the last part of its path.

    Raises:
        FileNotFoundError, NoDocuments: see `check_paths`.
        UnreadableIndex: an index is not of the form expected, or names a file outside its folder.
    """
    check_paths(paths, ends=(".json", *TEMPLATE_ENDS), names="path")
    for path in paths:
        if path.is_file():
            yield FoundFile(path=path, place=Place(repository=repository, path=path.name, commit=commit))
        elif (path / INDEX_NAME).is_file():
            for entry in index_entries(path / INDEX_NAME, names="path"):
                yield _listed(path, entry)
        else:
            for found in files_below(path, ends=(".json", *TEMPLATE_ENDS)):
                under = found.relative_to(path).as_posix()
                yield FoundFile(path=found, place=Place(repository=repository, path=under, commit=commit))


def _listed(folder: Path, entry: dict[str, Any]) -> FoundFile:
    """A file an index names: by ``path``, or by ``file`` where ``path`` is the one in the repository."""
    name = entry.get("file") or entry["path"]
    said = entry["path"] if entry.get("file") else entry.get("repo_path")
    known = isinstance(said, str) and "*" not in said
    place = Place(
        repository=str(entry.get("repo") or ""),
        path=str(said) if known else str(name),
        commit=str(entry.get("commit") or "") if known else "",
    )
    return FoundFile(path=inside(folder, str(name)), place=place)


def _send(api: ApiClient, file: FoundFile) -> Done:
    place = file.place
    said = {} if place is None else {name: text for name, text in place.parameters().items() if text}
    if file.path.name.endswith(TEMPLATE_ENDS):
        said["kind"] = "template"
    return send_file(
        api, file, to="/api/v1/profiles/documents", parameters=said, most_bytes=MAX_DOCUMENT_BYTES
    )


def _count(summary: Summary, file: FoundFile, status: int, body: dict[str, Any]) -> None:
    if status in (200, 201):
        summary.new += status == 201
        summary.known += status == 200
        kind = str(body["kind"])
        summary.kinds[kind] = summary.kinds.get(kind, 0) + 1
        return
    if status >= 500:
        raise ApiError(f"{file.path}: {status} {body.get('code')}: {body.get('detail')}")
    if body.get("code") == UNKNOWN:
        summary.unknown += 1
        return
    summary.refused += 1
    if len(summary.refusals) < MOST_LISTED:
        first = next(iter(body.get("errors", [])), {"pointer": "", "detail": str(body.get("detail"))})
        refusal = {"file": str(file.path), "code": str(body.get("code")), **first}
        summary.refusals.append({name: str(text) for name, text in refusal.items()})


def _print(summary: Summary) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(
        f"{summary.files} files: {summary.new} new, {summary.known} known, {summary.refused} refused, "
        f"{summary.unknown} of kinds that profiles do not use"
    )
    for kind, count in sorted(summary.kinds.items()):
        console.print(f"  {count:>6}  {kind.replace('_', ' ')}")
    for one in summary.refusals[:20]:
        console.print(printable(f"refused {one['file']}  {one['pointer']}  {one['detail']}"))
