"""One document during a check: judged by its name, then its segments, its objects, its streams."""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from app.core.digest import Digest
from app.core.errors import AbsentError, IncompatibleError, Stage, StoreError
from app.core.store.authenticate import authenticate_streams
from app.core.store.check.findings import EntryStanding, Problem, ProblemCode
from app.core.store.check.objects import Misfit, ObjectInventory
from app.core.store.check.segments import SegmentInventory
from app.core.store.entry import Entry, FileDescriptor
from app.core.store.files import StoreFiles, read_whole
from app.core.store.folders import shown_path
from app.core.store.layout import DocumentName
from app.core.store.lookup import Depth
from app.core.store.manifest import (
    ALIAS_SCHEMA,
    FLAT_SNAPSHOT_SCHEMA,
    TAIL_SCHEMA,
    ChunkDescriptor,
    FlatSnapshotManifest,
    LegacyManifest,
    PageDeltaManifest,
    PrefixAlias,
    RootDocument,
    RowTailManifest,
    follow_chain,
    parse_alias,
    parse_manifest,
)
from app.core.store.rows import decode_rows, why_positions_are_unknown

# How many obstacles of one entry are spelled out.
_SHOWN_OBSTACLES = 8
# What a document is told by to be filed under another key or context than its own.
_PLACE_SUBJECTS = frozenset(
    f"{what} {document}.{field}".lstrip()
    for document in ("root document", "prefix alias")
    for what, field in (("", "context_digest"), ("storage key of", "identity"))
)

_LEGACY_SCHEMA = "legacy"


class EntryCheck:
    """Judges the documents of one storage key.

    Args:
        files: the root.
        storage_key: of the folder the documents lie in.
        segments: of the same key.
        objects: of the root; ``None`` at depth *metadata*.
        depth: how far to look.
    """

    def __init__(
        self,
        files: StoreFiles,
        *,
        storage_key: Digest,
        segments: SegmentInventory,
        objects: ObjectInventory | None,
        depth: Depth,
    ) -> None:
        self._files = files
        self._key = storage_key
        self._segments = segments
        self._objects = objects
        self._depth = depth

    def check(self, context: Digest, *, alias: bool) -> Iterator[Problem | EntryStanding]:
        """All problems of one document and what it needs, then how the entry stands.

        A document that has vanished since it was listed was deleted: nothing is wrong with it or its objects.

        Raises:
            ResourceError: out of descriptors or memory.
        """
        name = DocumentName(storage_key=self._key, context_digest=context)
        path = name.alias_path if alias else name.path
        raw: bytes | None = None
        try:
            raw = read_whole(self._files, path, subject=f"document {path}")
            document = _parse(raw, name=name, alias=alias)
        except AbsentError:
            return
        except StoreError as error:
            self._segments.note_mentions(raw or b"")
            yield _document_problem(error, path=path, name=name, unread=raw is None)
            return
        try:
            entry = Entry(document=document, chunks=self._chunks(document))
        except StoreError as error:
            self._segments.note_mentions(raw)
            yield from self._chain_problem(error, path=path, name=name)
            yield _standing(name, document=document, descriptors=(), obstacles=[str(error)])
            return
        yield from self._check_entry(entry, name=name, path=path)

    def _chunks(self, document: RootDocument | PrefixAlias) -> tuple[ChunkDescriptor, ...]:
        """The chunk list of a document that has one (store-format §10.1, §10.3)."""
        self._segments.culprit = None
        if isinstance(document, LegacyManifest):
            return document.chunks
        if isinstance(document, PrefixAlias):
            chunks = self._follow(document.tail_segment_sha256, count=document.chunk_count)
            document.verify_chunks(chunks)
            return chunks
        if isinstance(document, RowTailManifest):
            reused = self._follow(document.base_tail_segment_sha256, count=document.base_chunk_count)
            chunks = (*reused, *document.tail_chunks)
            document.verify_chunks(chunks)
            return chunks
        return ()

    def _follow(self, last: Digest | None, *, count: int) -> tuple[ChunkDescriptor, ...]:
        return () if last is None else follow_chain(last, chunk_count=count, read=self._segments.read)

    def _chain_problem(
        self, error: StoreError, *, path: PurePosixPath, name: DocumentName
    ) -> Iterator[Problem]:
        """A segment's own fault is told at the segment; what only shows in the chain, at the document."""
        if self._segments.culprit is not None:
            yield from self._segments.tell_once(error, entry=name)
        else:
            yield _problem(error, code=ProblemCode.CHAIN_CORRUPT, path=path, name=name)

    def _check_entry(
        self, entry: Entry, *, name: DocumentName, path: PurePosixPath
    ) -> Iterator[Problem | EntryStanding]:
        descriptors = _distinct(entry.references)
        misfits: list[Misfit] = []
        fault: StoreError | None = None
        if self._objects is not None:
            misfits = _look_at(self._objects, descriptors=descriptors)
            if self._depth is Depth.FULL:
                misfits, fault = _read(
                    self._files, objects=self._objects, entry=entry, descriptors=descriptors, known=misfits
                )
            if (misfits or fault) and self._is_gone(path):
                return
            for misfit in misfits:
                yield from self._objects.tell_once(misfit, entry=name)
        if fault is not None:
            yield _problem(fault, code=ProblemCode.STREAM_CORRUPT, path=path, name=name)
        obstacles = [misfit.detail for misfit in misfits] + ([str(fault)] if fault else [])
        obstacles += _unknown_rules(entry)
        yield _standing(name, document=entry.document, descriptors=descriptors, obstacles=obstacles)

    def _is_gone(self, path: PurePosixPath) -> bool:
        """Whoever deletes an entry removes its document first, its objects later (store-format §15.5)."""
        try:
            with self._files.open(path, subject=str(path), stage=Stage.METADATA):
                return False
        except AbsentError:
            return True
        except StoreError:
            return False


def schema_of(document: RootDocument | PrefixAlias) -> str:
    """The name of a document's kind, ``legacy`` for the one without (store-format §7)."""
    if isinstance(document, PageDeltaManifest):
        return document.version.value
    if isinstance(document, FlatSnapshotManifest):
        return FLAT_SNAPSHOT_SCHEMA
    if isinstance(document, RowTailManifest):
        return TAIL_SCHEMA
    return ALIAS_SCHEMA if isinstance(document, PrefixAlias) else _LEGACY_SCHEMA


def _parse(raw: bytes, *, name: DocumentName, alias: bool) -> RootDocument | PrefixAlias:
    parse = parse_alias if alias else parse_manifest
    return parse(raw, identity=None, context_digest=name.context_digest, storage_key=name.storage_key)


def _distinct(references: Iterable[FileDescriptor]) -> list[FileDescriptor]:
    """Each object once, with each size or range it is declared with."""
    return list(dict.fromkeys(_without_place(item) for item in references))


def _without_place(item: FileDescriptor) -> FileDescriptor:
    """An extent is the same wherever in the stream it stands; a chunk says its place itself."""
    if isinstance(item, ChunkDescriptor) or item.start == 0:
        return item
    return type(item)(sha256=item.sha256, start=0, end=item.byte_count)


def _look_at(objects: ObjectInventory, *, descriptors: Iterable[FileDescriptor]) -> list[Misfit]:
    found = (objects.look_at(descriptor) for descriptor in descriptors)
    return [misfit for misfit in found if misfit is not None]


def _read(
    files: StoreFiles,
    *,
    objects: ObjectInventory,
    entry: Entry,
    descriptors: list[FileDescriptor],
    known: list[Misfit],
) -> tuple[list[Misfit], StoreError | None]:
    """Everything the bytes of an entry's objects show: what each one's do, then what all together do.

    A sound entry in extents is read once: its streams authenticate their objects. Only where they do not, or
    where chunks have insides to look at, is each object read for itself, so that every one is told of.
    """
    chunked = bool(entry.chunks) or any(isinstance(item, ChunkDescriptor) for item in descriptors)
    fault: StoreError | None = None
    if not known and not chunked:
        fault = _stream_fault(files, entry=entry)
        if fault is None:
            for descriptor in descriptors:
                objects.note_sound(descriptor)
            return known, None
    bad = {misfit.descriptor for misfit in known}
    required = entry.identity.required_records
    read = (objects.read(item, required=required) for item in descriptors if item not in bad)
    misfits = known + [misfit for misfit in read if misfit is not None]
    if misfits:
        return misfits, None
    return [], fault or _stream_fault(files, entry=entry)


def _stream_fault(files: StoreFiles, *, entry: Entry) -> StoreError | None:
    """What is wrong with an entry's streams or rows as a whole, every object by itself being sound."""
    document = entry.document
    if isinstance(document, FlatSnapshotManifest | PageDeltaManifest):
        return _fault_of_pages(files, entry=entry)
    if not isinstance(document, LegacyManifest) or not document.identity.stores_pages:
        return _fault_of_rows(files, entry=entry)
    # Two records may be pages or rows, and the document does not say which (store-format §4).
    fault = _fault_of_pages(files, entry=entry)
    return None if fault is None or _fault_of_rows(files, entry=entry) is None else fault


def _fault_of_pages(files: StoreFiles, *, entry: Entry) -> StoreError | None:
    try:
        authenticate_streams(files, entry=entry)
    except StoreError as error:
        return error
    return None


def _fault_of_rows(files: StoreFiles, *, entry: Entry) -> StoreError | None:
    try:
        for _ in decode_rows(files, entry=entry):
            pass
    except StoreError as error:
        return error
    return None


def _unknown_rules(entry: Entry) -> list[str]:
    """Sound, and yet nobody knows where its rows belong (store-format §20.4); pages have no such rule."""
    document = entry.document
    rows = isinstance(document, RowTailManifest | PrefixAlias) or (
        isinstance(document, LegacyManifest) and not document.identity.stores_pages
    )
    unknown = why_positions_are_unknown(document.identity) if rows else None
    return [] if unknown is None else [unknown]


def _document_problem(error: StoreError, *, path: PurePosixPath, name: DocumentName, unread: bool) -> Problem:
    if isinstance(error, IncompatibleError):
        misplaced = error.subject in _PLACE_SUBJECTS
        code = ProblemCode.DOCUMENT_MISPLACED if misplaced else ProblemCode.DOCUMENT_INCOMPATIBLE
    else:
        code = ProblemCode.DOCUMENT_UNREADABLE if unread else ProblemCode.DOCUMENT_CORRUPT
    return _problem(error, code=code, path=path, name=name)


def _problem(error: StoreError, *, code: ProblemCode, path: PurePosixPath, name: DocumentName) -> Problem:
    return Problem(
        code=code,
        path=shown_path(path),
        stage=error.stage,
        expected=f"{error.subject}: {error.expected}",
        found=error.found,
        entry=name,
    )


def _standing(
    name: DocumentName,
    *,
    document: RootDocument | PrefixAlias,
    descriptors: Iterable[FileDescriptor],
    obstacles: list[str],
) -> EntryStanding:
    sizes = {item.sha256: item.byte_count for item in descriptors}
    return EntryStanding(
        name=name,
        kind=document.kind,
        schema=schema_of(document),
        committed_tokens=document.committed_tokens,
        rank=document.identity.rank,
        rank_count=document.identity.rank_count,
        objects=len(sizes),
        byte_count=sum(sizes.values()),
        obstacles=tuple(obstacles[:_SHOWN_OBSTACLES]),
        obstacle_count=len(obstacles),
    )
