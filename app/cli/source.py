"""``sparkgate source``: what code a folder holds, as a source identity."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client import ApiError, fail, open_api
from app.cli.progress import progress_line
from app.cli.source_checkout import Source, identify, shown_path
from app.cli.source_git import GitError
from app.config import Settings
from app.core.errors import CoreError, FormatError
from app.core.source_identity import parse_path, parse_repository

source_app = typer.Typer(help="Source identities.", no_args_is_help=True)


@source_app.callback()
def _group() -> None:
    """Source identities: what code an image or a runtime was built from."""


@source_app.command("identify")
def identify_source(
    path: Annotated[Path, typer.Argument(help="A checkout, a bare clone or a plain folder.")],
    repository: Annotated[str | None, typer.Option(help="Its name, instead of the remote's address.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Digest this folder of it only; repeatable.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Leave git out: digest every file.")] = False,
    register: Annotated[bool, typer.Option("--register", help="Register it at the control plane.")] = False,
    url: Annotated[str | None, typer.Option(help="The control plane; default: the local one.")] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with an API key; default: local.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Print repository, base, commit, tree, changes and source SHA-256 of a folder, which is only read.

    Exit codes: 0 identified, 1 something in the folder keeps it from having a digest, 2 usage or refused.
    """
    try:
        source = _identified(path, plain=plain, only=only or [])
        if repository is not None:
            source.repository = parse_repository(repository)
        document = source.to_document()
        if register:
            document["registered"] = _register(source, url=url, api_key_file=api_key_file)
    except (GitError, CoreError, ApiError) as error:
        fail(ApiError(shown_path(os.fsencode(str(error)))), as_json=as_json, status=2)
    typer.echo(json.dumps(document) if as_json else "\n".join(_lines(source, document=document)))
    raise typer.Exit(1 if source.problems.count else 0)


def _identified(path: Path, *, plain: bool, only: list[str]) -> Source:
    if not path.is_dir():
        raise FormatError(str(path), expected="a folder", found="none")
    folders = tuple(parse_path(name.rstrip("/").encode("utf-8", "surrogateescape")) for name in only)
    with progress_line("reading") as say:
        return identify(
            path,
            plain=plain,
            only=folders,
            progress=lambda files, size: say(f"{files} files, {size / 1e6:.1f} MB"),
        )


def _register(source: Source, *, url: str | None, api_key_file: Path | None) -> dict[str, Any]:
    """Register what was found.

    Raises:
        ApiError: it is not whole, or the control plane refused it.
    """
    missing = [name for name in ("repository", "commit", "source_sha256") if getattr(source, name) is None]
    if missing:
        raise ApiError(f"register: expected every part known, found no {', no '.join(missing)}")
    if source.only:
        raise ApiError("register: expected the digest of all files, found that of some folders (--only)")
    parts = source.identity().to_document()
    body = {name: parts[name] for name in ("repository", "commit", "tree", "source_sha256")}
    api = open_api(Settings(), url=url, api_key_file=api_key_file)
    return api.post("/api/v1/sources", body={**body, "dirty": bool(source.dirty)})


def _lines(source: Source, *, document: dict[str, Any]) -> list[str]:
    names = ("path", "kind", "repository", "branch", "base", "commit", "tree", "source_sha256")
    lines = [f"{name:<14} {document[name] or 'unknown'}" for name in names]
    lines.append(f"{'files':<14} {source.source_files}, {source.source_bytes} bytes")
    state = {None: "unknown", True: "dirty", False: "clean"}[source.dirty]
    lines.append(f"{'state':<14} {state}")
    for name, listing in source.changes.items():
        lines += [f"  {name}: {path}" for path in listing.first]
        if listing.count > len(listing.first):
            lines.append(f"  {name}: … {listing.count} in all")
    lines += [f"{'note':<14} {shown_path(os.fsencode(note))}" for note in source.notes]
    lines += [f"{'problem':<14} {problem}" for problem in source.problems.first]
    if source.problems.count > len(source.problems.first):
        lines.append(f"{'problem':<14} … {source.problems.count} in all")
    if "registered" in document:
        lines.append(f"{'registered':<14} {document['registered']['id']}")
    return lines
