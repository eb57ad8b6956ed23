"""A model of a disk that loses power: what is surely there afterwards, and what may be.

A file's content survives as far as it was synced. A folder's entry survives surely once the folder was synced
after it; before that it may survive or not, and so may the removal of the old one, each by itself.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .recording import Call


@dataclass(slots=True)
class _File:
    """An inode."""

    synced: bool = False


@dataclass(slots=True)
class _Folder:
    """The entries that are on the disk, and every change that may or may not have reached it."""

    sure: dict[str, "_File | _Folder | None"] = field(default_factory=dict)
    pending: list[tuple[str, "_File | _Folder | None"]] = field(default_factory=list)

    def now(self, name: str) -> "_File | _Folder | None":
        latest = self.sure.get(name)
        for changed, entry in self.pending:
            latest = entry if changed == name else latest
        return latest

    def sync(self) -> None:
        self.sure.update(self.pending)
        self.pending.clear()

    def survivors(self, name: str) -> "list[_File | _Folder | None]":
        """Everything the name may stand for after a power cut now."""
        return [self.sure.get(name), *(entry for changed, entry in self.pending if changed == name)]


class Disk:
    """Folders and files as the calls so far left them; what lay there at first is durable."""

    def __init__(self, base: Path, *, like: Path) -> None:
        """Below ``base``, with everything that lies below ``like`` on the disk already."""
        self._base = base
        self._top = _Folder()
        self._open: dict[int, _File | _Folder] = {}
        for path in sorted(like.rglob("*")):
            entry = _Folder() if path.is_dir() else _File(synced=True)
            self._folder(base / path.relative_to(like).parent).sure[path.name] = entry

    def apply(self, calls: Iterable[Call]) -> Iterator[Call]:
        """Follow the calls one by one; the model is at each one's end when it comes out."""
        for call in calls:
            self._follow(call)
            yield call

    def restart(self) -> None:
        """The process is gone, the power was not: descriptors are closed, nothing else changes."""
        self._open.clear()

    def is_possible(self, path: PurePosixPath) -> bool:
        """Whether a power cut now may leave something under this path."""
        return any(entry is not None for entry in self._survivors(path))

    def is_written(self, path: PurePosixPath) -> bool:
        """Whether a file that stands there after a power cut has its content."""
        return all(entry.synced for entry in self._survivors(path) if isinstance(entry, _File))

    def is_sure(self, path: PurePosixPath) -> bool:
        """Whether a power cut now leaves this file with its content, whatever else it does."""
        here = self._top
        for name in path.parts[:-1]:
            (entry, *others) = here.survivors(name)
            if others or not isinstance(entry, _Folder):
                return False
            here = entry
        return all(isinstance(entry, _File) and entry.synced for entry in here.survivors(path.name))

    def _survivors(self, path: PurePosixPath) -> "list[_File | _Folder | None]":
        folders = [self._top]
        for name in path.parts[:-1]:
            found = [entry for folder in folders for entry in folder.survivors(name)]
            folders = [entry for entry in found if isinstance(entry, _Folder)]
        return [entry for folder in folders for entry in folder.survivors(path.name)]

    def _follow(self, call: Call) -> None:
        match call.name, call.arguments:
            case "open", (path, flags, _mode):
                self._open[call.result] = self._opened(Path(path), flags=flags)
            case "close", (descriptor,):
                del self._open[descriptor]
            case "write", (descriptor, _length):
                self._file(descriptor).synced = False
            case "fsync", (descriptor,):
                self._sync(self._open[descriptor])
            case "mkdir", (path,):
                self._change(Path(path), entry=_Folder())
            case "link", (source, target):
                self._change(Path(target), entry=self._entry(Path(source)))
            case "replace", (source, target):
                self._change(Path(target), entry=self._entry(Path(source)))
                self._change(Path(source), entry=None)
            case "unlink", (path,):
                self._change(Path(path), entry=None)

    def _opened(self, path: Path, *, flags: int) -> "_File | _Folder":
        if not path.is_relative_to(self._base):
            return _Folder()
        entry = self._entry(path)
        if entry is None:
            assert flags & os.O_CREAT, path
            entry = _File()
            self._change(path, entry=entry)
        return entry

    def _sync(self, entry: "_File | _Folder") -> None:
        if isinstance(entry, _File):
            entry.synced = True
        else:
            entry.sync()

    def _file(self, descriptor: int) -> _File:
        entry = self._open[descriptor]
        assert isinstance(entry, _File)
        return entry

    def _change(self, path: Path, *, entry: "_File | _Folder | None") -> None:
        self._folder(path.parent).pending.append((path.name, entry))

    def _entry(self, path: Path) -> "_File | _Folder | None":
        return self._top if path == self._base else self._folder(path.parent).now(path.name)

    def _folder(self, path: Path) -> _Folder:
        entry = self._entry(path)
        assert isinstance(entry, _Folder), path
        return entry
