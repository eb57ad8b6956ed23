"""Documents of folders for an import, one after the other, with the place each stood in.

Memory does not grow with a folder: names are read a directory at a time. An ``INDEX.json`` in a folder names
the repository, path and commit of its files; it is read as a whole, 64 MiB at most.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INDEX_NAME: Final = "INDEX.json"
LARGEST_INDEX_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a document stood: what the API takes as ``repository``, ``path``, ``commit``."""

    repository: str
    path: str
    commit: str = ""

    def parameters(self) -> dict[str, str]:
        said = {"repository": self.repository, "path": self.path}
        return {**said, "commit": self.commit} if self.commit else said


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """One file to import."""

    path: Path
    place: Place | None


class UnreadableIndex(Exception):
    """An INDEX.json that names no files."""


class NoDocuments(Exception):
    """A folder without anything to import: most likely another one was meant."""


def files_of(paths: Sequence[Path], *, repository: str | None, commit: str) -> Iterator[FoundFile]:
    """Every document of the paths: files as they are, ``*.json`` of folders in the order of their names.

    Args: repository: of files that no index names; their path is that under the folder given.

    Raises:
        FileNotFoundError, NoDocuments, UnreadableIndex: see `check_paths`.
    """
    check_paths(paths, ends=(".json",), names="file")
    for path in paths:
        if path.is_file():
            place = Place(repository=repository, path=path.name, commit=commit) if repository else None
            yield FoundFile(path=path, place=place)
        elif (path / INDEX_NAME).is_file():
            yield from _indexed(path)
        else:
            yield from _walked(path, repository=repository, commit=commit)


def check_paths(paths: Sequence[Path], *, ends: tuple[str, ...], names: str) -> None:
    """Return if there is something to import at each of them; asked before anything is sent.

    Args: ends: of the names of files that are wanted; names: see `index_entries`.

    Raises:
        FileNotFoundError: a path is not there.
        NoDocuments: a folder has no such files, or an index that lists none.
        UnreadableIndex: an index is not of the form expected.
    """
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a file or a folder, found nothing")
        if path.is_file():
            continue
        index = path / INDEX_NAME
        if index.is_file():
            if not index_entries(index, names=names):
                raise NoDocuments(f"no documents found in {path}: its {INDEX_NAME} lists none")
        elif next(files_below(path, ends=ends), None) is None:
            raise NoDocuments(f"no documents found in {path}: expected files *{', *'.join(ends)}")


def _walked(folder: Path, *, repository: str | None, commit: str) -> Iterator[FoundFile]:
    for path in files_below(folder, ends=(".json",)):
        under = path.relative_to(folder).as_posix()
        place = Place(repository=repository, path=under, commit=commit) if repository else None
        yield FoundFile(path=path, place=place)


def files_below(folder: Path, *, ends: tuple[str, ...]) -> Iterator[Path]:
    """Files whose names end so, depth first, in the order of their names; nothing followed that is a link."""
    with os.scandir(folder) as entries:
        here = sorted(
            (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
            for entry in entries
        )
    for name, is_folder, is_file in here:
        if is_folder and name != ".git":
            yield from files_below(folder / name, ends=ends)
        elif is_file and name.endswith(ends):
            yield folder / name


def _indexed(folder: Path) -> Iterator[FoundFile]:
    """What the index names: replaced versions first, so that the newest of a path comes last."""
    entries = index_entries(folder / INDEX_NAME, names="file")
    for replaced in (True, False):
        for entry in entries:
            if bool(entry.get("superseded")) is replaced:
                path = inside(folder, str(entry["file"]))
                yield FoundFile(path=path, place=_place(entry))


def inside(folder: Path, name: str) -> Path:
    """A file that an index names.

    Raises:
        UnreadableIndex: it lies outside the folder, or a link leads there.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UnreadableIndex(f"{folder / INDEX_NAME}: {name} lies outside the folder")
    return path


def _place(entry: dict[str, Any]) -> Place | None:
    repository, path = entry.get("repo"), entry.get("path")
    if not isinstance(repository, str) or not isinstance(path, str):
        return None
    return Place(repository=repository, path=path, commit=str(entry.get("commit") or ""))


def index_entries(path: Path, *, names: str) -> list[dict[str, Any]]:
    """The files an index lists.

    Args: names: the member of each that names its file.

    Raises:
        UnreadableIndex: the index is too large, or not of the form expected.
    """
    if path.stat().st_size > LARGEST_INDEX_BYTES:
        raise UnreadableIndex(f"{path}: expected at most {LARGEST_INDEX_BYTES} bytes")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["files"]
        if all(isinstance(entry[names], str) for entry in entries):
            return list(entries)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableIndex(f"{path}: expected files with their places, found {error}") from error
    raise UnreadableIndex(f"{path}: expected files with their places")
