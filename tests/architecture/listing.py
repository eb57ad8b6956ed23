"""Which files stand in the table."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from .table import REPOSITORY, Entry


def repository_files(root: Path) -> list[PurePosixPath]:
    """Every file that is or would be committed (tracked, or untracked and not ignored)."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    paths = (PurePosixPath(name) for name in listed.split("\0") if name)
    return sorted(path for path in paths if (root / path).is_file())


def files_outside(files: Iterable[PurePosixPath], entries: tuple[Entry, ...] = REPOSITORY) -> list[str]:
    """The files no entry of the table covers."""
    return [str(file) for file in files if not any(_covers(entry, file.parts) for entry in entries)]


def _covers(entry: Entry, parts: tuple[str, ...]) -> bool:
    if entry.name == "**":
        return True
    name = parts[0]
    if len(parts) == 1:
        return not entry.name.endswith("/") and fnmatchcase(name, entry.name)
    if entry.grows and name == entry.name.removesuffix(".py"):
        return parts[-1].endswith(".py")
    return f"{name}/" == entry.name and _is_inside(entry, parts[1:])


def _is_inside(entry: Entry, parts: tuple[str, ...]) -> bool:
    if parts == ("__init__.py",) and entry.is_package:
        return True
    return any(_covers(child, parts) for child in entry.inside)
