"""What a fault is done to: a root given up for it, one of its entries, and the ways to change files.

No file is changed in place: what is altered is a new file under the old name. So a copy made of hard links
keeps its content, and so does a reader that has the old file open.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from app.core.canonical_json import JsonObject, decode_strict, encode_canonical, expect_object
from app.core.digest import Digest, sha256
from app.core.errors import PlanError, ResourceError, StoreError
from app.core.store.entry import Entry, judge_alias, judge_root
from app.core.store.files import RootFiles, read_whole, reason
from app.core.store.folders import FileKind, list_folder
from app.core.store.layout import (
    ALIASES_FOLDER,
    LOCK_NAME,
    MANIFESTS_FOLDER,
    MAX_OBJECT_BYTES,
    OBJECTS_FOLDER,
    DocumentName,
    object_path,
)
from app.core.store.manifest.document import encode_signed

# Entries that are looked at before one is chosen; the first in order of names.
_MAX_CANDIDATES = 1_000
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_LOCK_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FILE_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A sound entry that may be damaged.

    Attributes:
        path: of its document, relative to the root.
        raw: that document's bytes.
    """

    name: DocumentName
    path: PurePosixPath
    raw: bytes
    entry: Entry

    @property
    def fields(self) -> JsonObject:
        """The document's fields, to be changed freely."""
        return expect_object(decode_strict(self.raw, subject=str(self.path)), subject=str(self.path))

    @property
    def is_signed(self) -> bool:
        """Whether the document carries its own digest (store-format §7)."""
        return "metadata_sha256" in self.fields

    @property
    def objects(self) -> tuple[Digest, ...]:
        """The objects it needs, each once, in order of first use."""
        return tuple(dict.fromkeys(item.sha256 for item in self.entry.references))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A locked root, and the entry that was chosen.

    Attributes:
        choose: a number below the given one; the same for the same seed.
        touched: what was changed, relative to the root.
    """

    files: RootFiles
    entry: Candidate | None
    choose: Callable[[int], int]
    touched: list[PurePosixPath] = field(default_factory=list)

    @property
    def candidate(self) -> Candidate:
        """The entry, for faults that need one."""
        if self.entry is None:
            raise RuntimeError("a fault that needs an entry was given none")
        return self.entry

    def chosen_object(self) -> PurePosixPath:
        """The path of one of the entry's objects."""
        objects = self.candidate.objects
        return object_path(objects[self.choose(len(objects))])

    def read(self, path: PurePosixPath) -> bytes:
        """A file's bytes; objects as large as they may be."""
        return read_whole(self.files, path, subject=str(path), maximum=MAX_OBJECT_BYTES)

    def replace(self, path: PurePosixPath, content: bytes) -> None:
        """A new file with these bytes under the old name."""
        with self._folder(path) as folder:
            temporary = f".{path.name[:100]}.damage"
            descriptor = os.open(temporary, _CREATE_FLAGS, _FILE_MODE, dir_fd=folder)
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)

    def replace_by_hole(self, path: PurePosixPath, *, byte_count: int) -> None:
        """A new file of this size under the old name in which nothing was ever written."""
        self.replace(path, b"")
        with self._folder(path) as folder:
            descriptor = os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.ftruncate(descriptor, byte_count)
            finally:
                os.close(descriptor)

    def replace_by(self, path: PurePosixPath, *, kind: FileKind) -> None:
        """No file any more but a FIFO, a folder or a link to a sibling that is not there."""
        with self._folder(path) as folder:
            os.unlink(path.name, dir_fd=folder)
            if kind is FileKind.FIFO:
                os.mkfifo(path.name, dir_fd=folder)
            elif kind is FileKind.FOLDER:
                os.mkdir(path.name, dir_fd=folder)
            else:
                os.symlink(f"{path.name}.elsewhere", path.name, dir_fd=folder)

    def remove(self, path: PurePosixPath) -> None:
        """The name is gone; the file too, unless it has another."""
        with self._folder(path) as folder:
            os.unlink(path.name, dir_fd=folder)

    def move(self, path: PurePosixPath, *, to: PurePosixPath) -> None:
        """Another name, in a folder that is made if it is missing."""
        if path.parent != to.parent:
            self.make_folder(to.parent)
        with self._folder(path) as source, self._folder(to) as destination:
            os.rename(path.name, to.name, src_dir_fd=source, dst_dir_fd=destination)

    def make_folder(self, path: PurePosixPath) -> None:
        """A folder whose parent is there."""
        with self._folder(path) as folder:
            os.mkdir(path.name, dir_fd=folder)

    def rewrite(self, fields: JsonObject) -> None:
        """The entry's document with other fields, signed anew where it was signed (store-format §7)."""
        unsigned: JsonObject = {key: value for key, value in fields.items() if key != "metadata_sha256"}
        signed = "metadata_sha256" in fields
        self.replace(self.candidate.path, encode_signed(unsigned) if signed else encode_canonical(unsigned))

    @contextmanager
    def _folder(self, path: PurePosixPath) -> Iterator[int]:
        self.touched.append(path)
        folder = self.files.open_folder(path.parent)
        try:
            yield folder
        finally:
            os.close(folder)


@contextmanager
def locked_for_damage(root: Path) -> Iterator[RootFiles]:
    """The files of a root that nobody publishes to or maintains right now (store-format §14).

    Raises:
        PlanError: the lock is taken, or ``chunks`` leads out of the root.
        ResourceError: no folder, or the file system refused.
    """
    files = RootFiles(root)
    subject = f"root {root}"
    try:
        if (root / OBJECTS_FOLDER).is_symlink():
            raise PlanError(subject, expected="chunks inside it", found="a link")
        with _lock(root, subject=subject):
            yield files
    except OSError as error:
        raise ResourceError(subject, expected="to be changed", found=reason(error)) from None


def candidates(
    files: RootFiles, *, context: Digest | None, suits: Callable[[Candidate], bool]
) -> list[Candidate]:
    """The first sound entries, root documents before aliases, that a fault can be done to."""
    found = (_judge(files, name=name, alias=alias) for name, alias in _names(files, context=context))
    return list(islice((item for item in found if item is not None and suits(item)), _MAX_CANDIDATES))


def chooser(label: str) -> Callable[[int], int]:
    """Numbers that depend on a label and on how often one was asked for, and on nothing else."""
    drawn = 0

    def choose(below: int) -> int:
        nonlocal drawn
        drawn += 1
        return int(sha256(f"{label}/{drawn}".encode()), 16) % below

    return choose


@contextmanager
def _lock(root: Path, *, subject: str) -> Iterator[None]:
    try:
        descriptor = os.open(root / LOCK_NAME, _LOCK_FLAGS)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise PlanError(subject, expected="nobody at work in it", found="its lock taken") from None
    finally:
        os.close(descriptor)


def _names(files: RootFiles, *, context: Digest | None) -> Iterator[tuple[DocumentName, bool]]:
    for folder, alias in ((MANIFESTS_FOLDER, False), (ALIASES_FOLDER, True)):
        for key in _digests(files, folder, suffix=""):
            for found in _digests(files, folder / key, suffix=".json"):
                if context in (None, found):
                    yield DocumentName(storage_key=key, context_digest=found), alias


def _digests(files: RootFiles, folder: PurePosixPath, *, suffix: str) -> list[Digest]:
    names = (item.digest(suffix) for item in list_folder(files, folder))
    return sorted(name for name in names if name is not None)


def _judge(files: RootFiles, *, name: DocumentName, alias: bool) -> Candidate | None:
    """The entry, if it is one; a document that is damaged already is left to itself."""
    path = name.alias_path if alias else name.path
    judge = judge_alias if alias else judge_root
    try:
        raw = read_whole(files, path, subject=str(path))
        entry = judge(files, raw=raw, name=name, identity=None)
    except StoreError:
        return None
    return Candidate(name=name, path=path, raw=raw, entry=entry)
