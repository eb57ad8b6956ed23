"""``sparkgate profile overlay``: an unpacked image root with an overlay over it, checked to the last file."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.profile_files import read_document_file
from app.cli.profile_lines import finish, say, told_in_words
from app.cli.progress import progress_line
from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.profiles.anchors import OVERLAY_CONTRACT, Anchors, parse_anchors, selection_anchors
from app.core.profiles.documents import DocumentKind, read_profile_document
from app.core.profiles.launch import Launch, parse_launch
from app.core.profiles.overlay import OverlayOrder, OverlayResult, check_overlay
from app.core.profiles.overlay_bindings import OverlayIdentity
from app.core.profiles.overlay_document import overlay_document, parse_overlay_check
from app.core.profiles.overlay_verification import parse_verification
from app.core.profiles.release import read_release_selection
from app.core.profiles.root_files import ReadProgress
from app.core.profiles.site import read_site

_MOST_LINES = 200


def overlay(
    image_root: Annotated[Path, typer.Argument(help="The image, unpacked.")],
    folder: Annotated[Path, typer.Option("--overlay", help="The folder that holds profiles/ and image/.")],
    lock_sha256: Annotated[
        str | None, typer.Option("--lock-sha256", help="The digest the source lock must have.")
    ] = None,
    selections: Annotated[
        list[Path] | None, typer.Option("--selection", help="A release selection; repeatable.")
    ] = None,
    anchors: Annotated[
        list[Path] | None, typer.Option("--anchors", help="A registered list of digests; repeatable.")
    ] = None,
    launch: Annotated[
        Path | None, typer.Option("--launch", help="How the container was started: a container inspection.")
    ] = None,
    verification: Annotated[
        Path | None, typer.Option("--verify", help="The output of the image's verifier, run without mounts.")
    ] = None,
    site: Annotated[Path | None, typer.Option("--site", help="The site document.")] = None,
    others: Annotated[
        list[Path] | None, typer.Option("--other-rank", help="This check of another rank; repeatable.")
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="The rank this host is.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print passed checks too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check every file the image's lock names, every file of the overlay, and how the container was started.

    Nothing is written, and no link is followed out of the image. With --json the document is a
    sparkgate-overlay-check/v1.

    Exit codes: 0 nothing blocks, 1 something does or a document cannot be taken, 2 usage or unreadable.
    """
    with told_in_words(as_json=as_json):
        order = OverlayOrder(
            lock_sha256=Digest.parse(lock_sha256, subject="--lock-sha256") if lock_sha256 else None,
            anchors=_anchors(selections or [], anchors or []),
            launch=_launch(launch) if launch else None,
            verification=parse_verification(read_document_file(verification)) if verification else None,
            others=tuple(_identity(one) for one in others or []),
            has_persisted_root=_persists(site) if site else None,
            rank=rank,
        )
        with progress_line("overlay") as say:
            result = check_overlay(
                image_root,
                _with_profiles(folder),
                order=order,
                progress=lambda done: say(_progress(done)),
            )
        if as_json:
            typer.echo(json.dumps(overlay_document(result, rank=rank)))
            raise typer.Exit(1 if result.result == "fail" else 0)
        finish({}, result.findings, as_json=False, all_of_them=everything, lines=lambda: _print(result))


def _anchors(selections: list[Path], lists: list[Path]) -> tuple[Anchors, ...]:
    chosen = [read_release_selection(read_document_file(one), subject=one.name) for one in selections]
    registered = [parse_anchors(read_document_file(one), subject=one.name) for one in lists]
    return (*(selection_anchors(one) for one in chosen), *registered)


def _launch(file: Path) -> Launch:
    """A launch document; an inspection as the engine prints it is a list of one."""
    raw = read_document_file(file)
    if raw.lstrip()[:1] == b"[":
        raw = raw.strip()[1:-1]
    return parse_launch(raw, subject=file.name)


def _identity(file: Path) -> OverlayIdentity:
    return parse_overlay_check(read_document_file(file), subject=file.name).identity


def _persists(file: Path) -> bool:
    """Whether the site keeps an overlay root per rank."""
    document = read_profile_document(read_document_file(file), subject=file.name, kind=DocumentKind.SITE)
    read_site(document, subject=file.name)
    return bool(document.value.get("r33_profile_contract_roots"))


def _with_profiles(folder: Path) -> Path:
    """The folder above, where the mounted one itself was named.

    Raises:
        FormatError: no contract in either.
    """
    if (folder / OVERLAY_CONTRACT).parent.is_dir():
        return folder
    if folder.name == Path(OVERLAY_CONTRACT).parent.name and folder.is_dir():
        return folder.parent
    raise FormatError("--overlay", expected="a folder that holds profiles/", found=shown(str(folder)))


def _progress(done: ReadProgress) -> str:
    return f"{done.files:,} files, {done.byte_count:,} bytes"


def _print(result: OverlayResult) -> None:
    """Counts and what is not covered; differences are among the findings."""
    counts: dict[str, Any] = {name: count for name, count in result.counts.items() if count}
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{result.checked_files:,} files, {result.byte_count:,} bytes: {told or 'none'}")
    for one in result.not_covered[:_MOST_LINES]:
        say(f"not covered: {one}")
