"""A walk over a whole root: every problem, one at a time, and what can be restored.

Nothing is written, renamed, removed or opened for writing, no lock is taken, and no link inside the root is
followed except ``chunks``. Writers and maintenance may be at work meanwhile.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

from app.core.digest import Digest
from app.core.errors import FormatError, ResourceError, Stage
from app.core.store.check.entries import EntryCheck
from app.core.store.check.findings import Amount, CheckTotals, EntryStanding, Problem, ProblemCode
from app.core.store.check.objects import ObjectBuilder, ObjectInventory
from app.core.store.check.segments import SegmentInventory
from app.core.store.digest_table import DigestTable, DigestTableBuilder
from app.core.store.files import RootFiles, StoredFile
from app.core.store.folders import FileKind, FolderItem, list_folder, parse_name, shown_path
from app.core.store.layout import (
    ALIASES_FOLDER,
    LOCK_NAME,
    MANIFESTS_FOLDER,
    MARKERS_FOLDER,
    OBJECTS_FOLDER,
    SEGMENTS_FOLDER,
)
from app.core.store.lookup import Depth

Finding: TypeAlias = Problem | EntryStanding
# Problems on the way to a value.
_Value = TypeVar("_Value")
_Steps: TypeAlias = Generator[Problem, None, _Value]
Told: TypeAlias = Callable[["CheckProgress"], None]

_ROOT = PurePosixPath()
_DOCUMENT_SUFFIX = ".json"
_OBJECT_SUFFIX = ".spcc"
_SEGMENT_SUFFIX = ".spix"
_KEY_FOLDERS = (MANIFESTS_FOLDER, ALIASES_FOLDER, SEGMENTS_FOLDER)
# How much passes between two words about progress.
_NAMES_PER_WORD = 1_024
_ENTRIES_PER_WORD = 64
_BYTES_PER_WORD = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """How far a check is: names listed, entries judged, bytes read."""

    names: int
    entries: int
    read_bytes: int


class RootCheck:
    """One check of one root, iterated once.

    It needs, whatever lies in the root: 50 bytes for each file named like an object, 33 for each document,
    alias and storage key, and for each segment of one key; one document at a time (16 MiB of JSON at most,
    some 100 MB while it is parsed) and one block of an object. At depth *full* each entry's streams are read,
    so an object that k entries share is read k times.

    Each folder is a statement of the time it was listed at. What an entry needs and the listing lacks is
    looked for again before it is called missing, and an entry deleted meanwhile has no problems; an object
    published or deleted meanwhile may still be told of as one that no entry needs.

    Args:
        root: the rank-local root; a missing one is an empty one (store-format §2).
        depth: *metadata* looks at documents, aliases and segments only, and not into ``chunks``; *size* also
            at what lies there; *full* reads every byte.
        progress: told how far it is, from time to time.

    Attributes:
        totals: sums, complete once ``findings`` has ended.
    """

    def __init__(self, root: Path, *, depth: Depth = Depth.SIZE, progress: Told | None = None) -> None:
        self.totals = CheckTotals()
        self._root = RootFiles(root)
        self._files = _CountedFiles(self._root, tell=self._tell)
        self._depth = depth
        self._progress = progress
        self._names = 0
        self._entries = 0

    def findings(self) -> Iterator[Finding]:
        """Every problem and every entry whose document is sound.

        Raises:
            ResourceError: the root itself cannot be listed, or the machine is out of descriptors or memory;
                what was said so far stands, but it is not all.
        """
        for finding in self._walk():
            if isinstance(finding, Problem):
                count = self.totals.problems.get(finding.code, 0)
                self.totals.problems[finding.code] = count + 1
            else:
                self._count_entry(finding)
            yield finding
        self._tell()

    def _walk(self) -> Iterator[Finding]:
        yield from self._check_top()
        objects = None if self._depth is Depth.METADATA else (yield from self._take_objects())
        for key in (yield from self._take_keys()):
            yield from self._check_key(key, objects=objects)
        if objects is not None:
            yield from objects.leftovers(self.totals, full=self._depth is Depth.FULL)

    def _check_top(self) -> Iterator[Problem]:
        """What lies in the root beside the folders the other steps look into."""
        folders = {str(path) for path in (*_KEY_FOLDERS, OBJECTS_FOLDER)}
        try:
            for item in self._list(_ROOT):
                if item.name == str(MARKERS_FOLDER):
                    yield from self._take_files(
                        MARKERS_FOLDER, suffix=_DOCUMENT_SUFFIX, amount=self.totals.markers
                    )
                elif item.name == str(LOCK_NAME):
                    yield from _check_lock(item)
                elif item.name not in folders:
                    yield self._unknown(item, path=_ROOT)
        except FormatError as error:
            raise ResourceError("root", expected=error.expected, found=error.found) from None

    def _take_objects(self) -> _Steps[ObjectInventory]:
        builder = ObjectBuilder()
        yield from self._take_files(
            OBJECTS_FOLDER,
            suffix=_OBJECT_SUFFIX,
            amount=self.totals.objects,
            take=lambda digest, item: builder.add(digest, item=item),
        )
        return builder.build(self._files)

    def _take_keys(self) -> _Steps[DigestTable]:
        """The storage keys that any of the three folders has a folder for."""
        builder = DigestTableBuilder()
        for folder in _KEY_FOLDERS:
            yield from _refusals_told(self._sort_keys(folder, builder=builder), folder=folder)
        return builder.build()

    def _sort_keys(self, folder: PurePosixPath, *, builder: DigestTableBuilder) -> Iterator[Problem]:
        for item in self._list(folder):
            key = item.digest("")
            if key is None:
                yield self._unknown(item, path=folder)
            else:
                builder.add(key)

    def _check_key(self, key: Digest, *, objects: ObjectInventory | None) -> Iterator[Finding]:
        table = yield from self._take_table(
            SEGMENTS_FOLDER / key, suffix=_SEGMENT_SUFFIX, amount=self.totals.segments
        )
        segments = SegmentInventory(self._files, storage_key=key, table=table, objects=objects)
        check = EntryCheck(
            self._files, storage_key=key, segments=segments, objects=objects, depth=self._depth
        )
        for folder, alias in ((MANIFESTS_FOLDER, False), (ALIASES_FOLDER, True)):
            documents = yield from self._take_table(
                folder / key, suffix=_DOCUMENT_SUFFIX, amount=self.totals.documents
            )
            for context in documents:
                yield from check.check(context, alias=alias)
                self._entries += 1
                if self._entries % _ENTRIES_PER_WORD == 0:
                    self._tell()
        yield from segments.leftovers()

    def _take_table(self, folder: PurePosixPath, *, suffix: str, amount: Amount) -> _Steps[DigestTable]:
        builder = DigestTableBuilder()
        yield from self._take_files(
            folder, suffix=suffix, amount=amount, take=lambda digest, _item: builder.add(digest)
        )
        return builder.build()

    def _take_files(
        self,
        folder: PurePosixPath,
        *,
        suffix: str,
        amount: Amount,
        take: Callable[[Digest, FolderItem], None] = lambda _digest, _item: None,
    ) -> Iterator[Problem]:
        """Sort a folder's names: proper ones are taken, debris and foreign ones are told."""
        sorted_out = self._sort_files(folder, suffix=suffix, amount=amount, take=take)
        return _refusals_told(sorted_out, folder=folder)

    def _sort_files(
        self,
        folder: PurePosixPath,
        *,
        suffix: str,
        amount: Amount,
        take: Callable[[Digest, FolderItem], None],
    ) -> Iterator[Problem]:
        for item in self._list(folder):
            digest = item.digest(suffix)
            if digest is not None:
                amount.add(byte_count=item.byte_count, stored_bytes=item.stored_bytes)
                take(digest, item)
            elif _is_debris(item, suffix=suffix):
                yield self._debris(item, path=folder)
            else:
                yield self._unknown(item, path=folder)

    def _list(self, folder: PurePosixPath) -> Iterator[FolderItem]:
        for item in list_folder(self._root, folder):
            self._names += 1
            if self._names % _NAMES_PER_WORD == 0:
                self._tell()
            yield item

    def _debris(self, item: FolderItem, *, path: PurePosixPath) -> Problem:
        self.totals.debris.add(byte_count=item.byte_count, stored_bytes=item.stored_bytes)
        return _name_problem(
            item, path=path, code=ProblemCode.DEBRIS, expected="no file that was never finished"
        )

    def _unknown(self, item: FolderItem, *, path: PurePosixPath) -> Problem:
        self.totals.unknown.add(byte_count=item.byte_count, stored_bytes=item.stored_bytes)
        return _name_problem(
            item, path=path, code=ProblemCode.UNKNOWN_NAME, expected="a name of the store's own"
        )

    def _count_entry(self, standing: EntryStanding) -> None:
        entries = self.totals.entries
        entries[standing.schema] = entries.get(standing.schema, 0) + 1
        self.totals.restorable += standing.restorable

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(
                CheckProgress(names=self._names, entries=self._entries, read_bytes=self._files.read_bytes)
            )


class _CountedFiles:
    """The files of the root; counts what is read of them."""

    def __init__(self, files: RootFiles, *, tell: Callable[[], None]) -> None:
        self._files = files
        self._tell = tell
        self.read_bytes = 0

    def count(self, got: int) -> None:
        """Add to what was read, and have it told of now and then."""
        before = self.read_bytes // _BYTES_PER_WORD
        self.read_bytes += got
        if self.read_bytes // _BYTES_PER_WORD != before:
            self._tell()

    @contextmanager
    def open(self, path: PurePosixPath, *, subject: str, stage: Stage) -> Iterator[StoredFile]:
        """See ``StoreFiles``."""
        with self._files.open(path, subject=subject, stage=stage) as file:
            yield _CountedFile(file=file, files=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedFile:
    """A file that is open."""

    file: StoredFile
    files: _CountedFiles

    @property
    def byte_count(self) -> int:
        """See ``StoredFile``."""
        return self.file.byte_count

    def read_at(self, offset: int, *, memory: memoryview) -> int:
        """See ``StoredFile``."""
        got = self.file.read_at(offset, memory=memory)
        self.files.count(got)
        return got


def _refusals_told(problems: Iterator[Problem], *, folder: PurePosixPath) -> Iterator[Problem]:
    """A folder that cannot be listed is one more problem, and what was seen of it before stands."""
    try:
        yield from problems
    except FormatError as error:
        yield Problem(
            code=ProblemCode.FOLDER_UNREADABLE,
            path=str(folder),
            stage=Stage.METADATA,
            expected=error.expected,
            found=error.found,
        )


def _is_debris(item: FolderItem, *, suffix: str) -> bool:
    """A regular file under the temporary name of one that would belong here (store-format §2)."""
    final = item.temporary_of
    if final is None or item.kind is not FileKind.FILE:
        return False
    return final.endswith(suffix) and parse_name(final.removesuffix(suffix)) is not None


def _check_lock(item: FolderItem) -> Iterator[Problem]:
    """The lock file is a regular one and always empty (store-format §2)."""
    if item.kind is not FileKind.FILE or item.byte_count:
        yield _name_problem(item, path=_ROOT, code=ProblemCode.LOCK_UNSOUND, expected="an empty regular file")


def _name_problem(item: FolderItem, *, path: PurePosixPath, code: ProblemCode, expected: str) -> Problem:
    found = f"{item.kind}, {item.byte_count} bytes" if item.kind is FileKind.FILE else str(item.kind)
    return Problem(
        code=code, path=shown_path(path / item.name), stage=Stage.METADATA, expected=expected, found=found
    )
