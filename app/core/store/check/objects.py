"""The objects of a root during a check: what lies there, who needs it, what is known of it.

50 bytes are kept per object file: its digest, its two sizes, its kind and eight marks.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.core.digest import Digest
from app.core.errors import FormatError, IntegrityError, Stage, StoreError
from app.core.store.check.findings import CheckTotals, Problem, ProblemCode
from app.core.store.digest_table import DigestTable, DigestTableBuilder
from app.core.store.entry import FileDescriptor
from app.core.store.files import MissingObjectError, StoreFiles, open_object
from app.core.store.folders import FileKind, FolderItem
from app.core.store.identity import RecordKind
from app.core.store.layout import DocumentName, object_path
from app.core.store.manifest import ChunkDescriptor, ObjectDescriptor
from app.core.store.objects import read_chunk_header, verify_contents

_NEEDED: Final = 1
_MENTIONED: Final = 2
_REPORTED: Final = 4
_SOUND: Final = 8

_EXTRA = struct.Struct(">QQB")
_KINDS = tuple(FileKind)

# Digests of missing objects that are kept, so that each is told once: 25 MB. Beyond that one may be told
# again with another entry.
_MAX_REMEMBERED = 131_072

_MENTION = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """What stands against one reference of an entry; an error itself would keep the frames it crossed.

    Attributes:
        detail: the whole of it as one sentence.
    """

    descriptor: FileDescriptor
    code: ProblemCode
    stage: Stage
    expected: str
    found: str
    detail: str


class ObjectBuilder:
    """Takes what lies in the objects' folder."""

    def __init__(self) -> None:
        self._rows = DigestTableBuilder(extra_bytes=_EXTRA.size)

    def add(self, digest: Digest, *, item: FolderItem) -> None:
        """Take one file that is named like an object."""
        extra = _EXTRA.pack(item.byte_count, item.stored_bytes, _KINDS.index(item.kind))
        self._rows.add(digest, extra=extra)

    def build(self, files: StoreFiles) -> "ObjectInventory":
        """Everything that was taken."""
        return ObjectInventory(files, table=self._rows.build())


class ObjectInventory:
    """The objects' folder as it was listed, and the marks that entries leave on it."""

    def __init__(self, files: StoreFiles, *, table: DigestTable) -> None:
        self._files = files
        self._table = table
        self._remembered: set[Digest] = set()

    def look_at(self, descriptor: FileDescriptor) -> Misfit | None:
        """Whether a needed object is there, a regular file and of the declared size: the level *size*.

        What the listing does not show is looked for once more: it may have come later.

        Raises:
            ResourceError: out of descriptors or memory.
        """
        row = self._table.find(descriptor.sha256)
        kind, byte_count = None, None
        if row is not None:
            self._table.mark(row, bit=_NEEDED)
            byte_count, _, kind = self._facts(row)
            if kind is FileKind.FILE and byte_count == descriptor.byte_count:
                return None
        subject = f"object {descriptor.sha256}"
        try:
            with open_object(
                self._files, descriptor.sha256, byte_count=descriptor.byte_count, subject=subject
            ):
                return None
        except MissingObjectError as error:
            return _misfit(error, descriptor=descriptor, code=ProblemCode.OBJECT_MISSING)
        except FormatError as error:
            sized = kind is FileKind.FILE and byte_count != descriptor.byte_count
            code = ProblemCode.OBJECT_SIZE if sized else ProblemCode.OBJECT_UNREADABLE
            return _misfit(error, descriptor=descriptor, code=code)

    def read(self, descriptor: FileDescriptor, *, required: frozenset[RecordKind]) -> Misfit | None:
        """Whether a needed object holds what its name says, and a chunk what its header says: *full*.

        An object that was found sound is not hashed again for another entry.

        Raises:
            ResourceError: out of descriptors or memory.
        """
        row = self._table.find(descriptor.sha256)
        try:
            if row is None or not self._table.has(row, bit=_SOUND):
                verify_contents(self._files, descriptors=[descriptor], required=required)
                self.note_sound(descriptor)
            elif isinstance(descriptor, ChunkDescriptor):
                self._read_header(descriptor, required=required)
        except (FormatError, IntegrityError) as error:
            return _misfit(error, descriptor=descriptor, code=_code_of(error))
        return None

    def note_sound(self, descriptor: FileDescriptor) -> None:
        """Remember that every byte of an object was made sure of."""
        row = self._table.find(descriptor.sha256)
        if row is not None:
            self._table.mark(row, bit=_SOUND)

    def note_mentions(self, raw: bytes) -> None:
        """Spare what a document names that could not be understood: nobody knows that it is not needed."""
        for digest in mentions_in(raw):
            row = self._table.find(digest)
            if row is not None:
                self._table.mark(row, bit=_MENTIONED)

    def tell_once(self, misfit: Misfit, *, entry: DocumentName) -> Iterator[Problem]:
        """The problem of an object, unless it was told with another entry."""
        digest = misfit.descriptor.sha256
        row = self._table.find(digest)
        if row is None:
            told = digest in self._remembered
            if len(self._remembered) < _MAX_REMEMBERED:
                self._remembered.add(digest)
        else:
            told = self._table.mark(row, bit=_REPORTED)
        if not told:
            yield _problem(misfit, entry=entry)

    def leftovers(self, totals: CheckTotals, *, full: bool) -> Iterator[Problem]:
        """Every object that no entry needs, in order of names; sums up those that are needed.

        Raises:
            ResourceError: out of descriptors or memory.
        """
        for row in range(len(self._table)):
            byte_count, stored_bytes, kind = self._facts(row)
            if self._table.has(row, bit=_NEEDED):
                totals.referenced_objects += 1
                totals.referenced_bytes += byte_count
                continue
            mentioned = self._table.has(row, bit=_MENTIONED)
            if not mentioned:
                totals.unreferenced.add(byte_count=byte_count, stored_bytes=stored_bytes)
            digest = self._table.digest(row)
            misfit = self._look_at_leftover(digest, kind=kind, byte_count=byte_count, full=full)
            if misfit is not None:
                yield _problem(misfit)
            elif not mentioned:
                yield _unneeded(digest)

    def _look_at_leftover(
        self, digest: Digest, *, kind: FileKind, byte_count: int, full: bool
    ) -> Misfit | None:
        whole = ObjectDescriptor(sha256=digest, start=0, end=byte_count)
        if kind is not FileKind.FILE:
            error = FormatError(str(digest), expected="a regular file", found=kind, stage=Stage.SIZE)
            return _misfit(error, descriptor=whole, code=ProblemCode.OBJECT_UNREADABLE)
        return self.read(whole, required=frozenset()) if full else None

    def _read_header(self, chunk: ChunkDescriptor, *, required: frozenset[RecordKind]) -> None:
        subject = f"chunk {chunk.sha256}"
        with open_object(self._files, chunk.sha256, byte_count=chunk.byte_count, subject=subject) as file:
            read_chunk_header(file, descriptor=chunk, required=required, subject=subject)

    def _facts(self, row: int) -> tuple[int, int, FileKind]:
        byte_count, stored_bytes, kind = _EXTRA.unpack(self._table.extra(row))
        return byte_count, stored_bytes, _KINDS[kind]


def mentions_in(raw: bytes) -> Iterator[Digest]:
    """Every digest text in a document, whatever else is wrong with it, UTF-16 and upper case included."""
    for match in _MENTION.finditer(raw.replace(b"\0", b"").lower()):
        yield Digest(match[0].decode("ascii"))


def _code_of(error: StoreError) -> ProblemCode:
    if error.stage is Stage.HEADER:
        return ProblemCode.CHUNK_CORRUPT
    if isinstance(error, IntegrityError):
        return ProblemCode.OBJECT_CONTENT
    if isinstance(error, MissingObjectError):
        return ProblemCode.OBJECT_MISSING
    return ProblemCode.OBJECT_UNREADABLE


def _misfit(error: StoreError, *, descriptor: FileDescriptor, code: ProblemCode) -> Misfit:
    return Misfit(
        descriptor=descriptor,
        code=code,
        stage=error.stage,
        expected=error.expected,
        found=error.found,
        detail=str(error),
    )


def _problem(misfit: Misfit, *, entry: DocumentName | None = None) -> Problem:
    return Problem(
        code=misfit.code,
        path=str(object_path(misfit.descriptor.sha256)),
        stage=misfit.stage,
        expected=misfit.expected,
        found=misfit.found,
        entry=entry,
    )


def _unneeded(digest: Digest) -> Problem:
    return Problem(
        code=ProblemCode.OBJECT_UNREFERENCED,
        path=str(object_path(digest)),
        stage=Stage.SIZE,
        expected="an entry that names it",
        found="none",
    )
