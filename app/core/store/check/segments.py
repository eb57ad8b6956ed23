"""The descriptor segments of one storage key during a check (store-format §10.2)."""

from collections.abc import Iterator
from typing import Final

from app.core.digest import Digest
from app.core.errors import AbsentError, FormatError, Stage, StoreError
from app.core.store.check.findings import Problem, ProblemCode
from app.core.store.check.objects import ObjectInventory, mentions_in
from app.core.store.digest_table import DigestTable
from app.core.store.files import StoreFiles, read_whole
from app.core.store.layout import DocumentName, segment_path
from app.core.store.manifest import DescriptorSegment, parse_segment

_NEEDED: Final = 1
_SOUND: Final = 2
_REPORTED: Final = 4

# As many digests of missing segments are kept, so that each is told once.
_MAX_REMEMBERED = 16_384


class SegmentInventory:
    """What lies in one folder of ``prefix-index``, and the marks that chains leave on it.

    Args:
        files: the root.
        storage_key: of the folder.
        table: the segments in it.
        objects: where mentions of objects are noted; ``None`` where nobody looks at objects.
    """

    def __init__(
        self, files: StoreFiles, *, storage_key: Digest, table: DigestTable, objects: ObjectInventory | None
    ) -> None:
        self._files = files
        self._key = storage_key
        self._table = table
        self._objects = objects
        self._missing: set[Digest] = set()
        self.culprit: Digest | None = None

    def read(self, digest: Digest) -> DescriptorSegment:
        """One link of a chain; if it raises, ``culprit`` says which segment was to blame.

        Raises:
            AbsentError: it is missing.
            FormatError, IntegrityError: it is corrupt.
            ResourceError: out of descriptors or memory.
        """
        row = self._table.find(digest)
        if row is not None:
            self._table.mark(row, bit=_NEEDED)
        self.culprit = digest
        segment = parse_segment(self._raw(digest), storage_key=self._key, name=digest)
        self.culprit = None
        if row is not None:
            self._table.mark(row, bit=_SOUND)
        return segment

    def tell_once(self, error: StoreError, *, entry: DocumentName) -> Iterator[Problem]:
        """The problem of the segment that is to blame, unless it was told with another entry."""
        digest = self.culprit
        if digest is None:
            return
        row = self._table.find(digest)
        if row is None:
            told = digest in self._missing
            if len(self._missing) < _MAX_REMEMBERED:
                self._missing.add(digest)
        else:
            told = self._table.mark(row, bit=_REPORTED)
        if not told:
            yield self._problem(digest, error=error, entry=entry)

    def note_mentions(self, raw: bytes) -> None:
        """Spare what a document names that could not be understood, and what those segments name in turn."""
        left = self._take_mentions(raw)
        while left:
            left += self._take_mentions(self._raw_or_nothing(left.pop()))

    def leftovers(self) -> Iterator[Problem]:
        """Every segment that is corrupt or that no entry needs, in order of names.

        Raises:
            ResourceError: out of descriptors or memory.
        """
        for row in range(len(self._table)):
            if self._table.has(row, bit=_REPORTED):
                continue
            digest = self._table.digest(row)
            needed = self._table.has(row, bit=_NEEDED)
            if needed and self._table.has(row, bit=_SOUND):
                continue
            try:
                self.read(digest)
            except AbsentError:
                continue
            except StoreError as error:
                yield self._problem(digest, error=error, entry=None)
                continue
            if not needed:
                unneeded = FormatError(str(digest), expected="an entry that names it", found="none")
                yield self._problem(digest, error=unneeded, entry=None, code=ProblemCode.SEGMENT_UNREFERENCED)

    def _take_mentions(self, raw: bytes) -> list[Digest]:
        """The segments a text names, each once: neither a cycle nor a crowd of them goes on for ever."""
        if self._objects is not None:
            self._objects.note_mentions(raw)
        rows = ((digest, self._table.find(digest)) for digest in mentions_in(raw))
        return [digest for digest, row in rows if row is not None and not self._table.mark(row, bit=_NEEDED)]

    def _raw(self, digest: Digest) -> bytes:
        path = segment_path(digest, storage_key=self._key)
        return read_whole(self._files, path, subject=f"descriptor segment {digest}")

    def _raw_or_nothing(self, digest: Digest) -> bytes:
        try:
            return self._raw(digest)
        except StoreError:
            return b""

    def _problem(
        self,
        digest: Digest,
        *,
        error: StoreError,
        entry: DocumentName | None,
        code: ProblemCode | None = None,
    ) -> Problem:
        missing = isinstance(error, AbsentError)
        return Problem(
            code=code or (ProblemCode.SEGMENT_MISSING if missing else ProblemCode.SEGMENT_CORRUPT),
            path=str(segment_path(digest, storage_key=self._key)),
            stage=Stage.METADATA,
            expected=error.expected,
            found=error.found,
            entry=entry,
        )
