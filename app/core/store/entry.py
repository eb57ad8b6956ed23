"""An entry as its documents give it: root document or alias, and the chunk list that follows (§10, §13.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from app.core.digest import Digest
from app.core.errors import AbsentError, FormatError
from app.core.store.files import StoreFiles, read_whole
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName, segment_path
from app.core.store.manifest import (
    ChunkDescriptor,
    ChunkPayload,
    DescriptorSegment,
    FlatSnapshotManifest,
    LegacyManifest,
    ObjectDescriptor,
    PageDeltaManifest,
    PageRoot,
    PrefixAlias,
    RootDocument,
    RootKind,
    RowTailManifest,
    StorageMode,
    chain_of,
    follow_chain,
    parse_alias,
    parse_manifest,
    parse_segment,
    terminal_base_of,
)

FileDescriptor: TypeAlias = ObjectDescriptor | ChunkDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was found under an identity and a context digest; none of its objects has been looked at.

    Attributes:
        document: the root document or alias.
        chunks: the chunk list of a legacy entry, a row tail or an alias; empty for page streams in extents.
    """

    document: RootDocument | PrefixAlias
    chunks: tuple[ChunkDescriptor, ...] = ()

    @property
    def kind(self) -> RootKind:
        """What a lookup reports (store-format §7)."""
        return self.document.kind

    @property
    def sha256(self) -> Digest:
        """Digest of the file the answer came from: of the alias, where it is one."""
        return self.document.sha256

    @property
    def identity(self) -> CacheIdentity:
        """The identity the entry is filed under."""
        return self.document.identity

    @property
    def committed_tokens(self) -> int:
        """The span of the prefix."""
        return self.document.committed_tokens

    @property
    def references(self) -> Iterator[FileDescriptor]:
        """Every object the entry needs, those of embedded bases first (store-format §15, last lines)."""
        if isinstance(self.document, FlatSnapshotManifest | PageDeltaManifest):
            return _references(self.document)
        return iter(self.chunks)


def find_entry(
    files: StoreFiles, *, identity: CacheIdentity, context_digest: Digest, mode: StorageMode | None = None
) -> Entry:
    """Find the entry that answers a question, at the level *metadata* (store-format §13.1).

    Args:
        files: the root.
        identity: the asked identity.
        context_digest: the asked digest.
        mode: in row mode an alias is tried where no exact document exists (§10.3).

    Raises:
        AbsentError: nothing is filed there, or a file below an alias is missing.
        FormatError, IntegrityError: corrupt.
        IncompatibleError: an entry of another identity, ABI, mode or context.
        ResourceError: out of descriptors or memory.
    """
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    try:
        raw = read_whole(files, name.path, subject=f"root document {name.path}")
    except AbsentError:
        if mode is not StorageMode.ROWS:
            raise
        return _find_alias(files, name=name, identity=identity)
    return judge_root(files, raw=raw, name=name, identity=identity)


def judge_root(files: StoreFiles, *, raw: bytes, name: DocumentName, identity: CacheIdentity | None) -> Entry:
    """Judge a root document that was read, and resolve a row tail's segments (store-format §13.1).

    Args:
        files: the root, for segments.
        raw: the document.
        name: where it is filed.
        identity: the asked identity, or ``None`` to ask for the one that is filed under this name.

    Raises:
        FormatError, IntegrityError, IncompatibleError, ResourceError: as ``find_entry``.
    """
    document = parse_manifest(
        raw, identity=identity, context_digest=name.context_digest, storage_key=name.storage_key
    )
    if isinstance(document, LegacyManifest):
        return Entry(document=document, chunks=document.chunks)
    if isinstance(document, RowTailManifest):
        return Entry(document=document, chunks=_resolve_tail(files, tail=document, name=name))
    return Entry(document=document)


def judge_alias(
    files: StoreFiles, *, raw: bytes, name: DocumentName, identity: CacheIdentity | None
) -> Entry:
    """Judge an alias that was read, and resolve its segments (store-format §10.3).

    Raises:
        AbsentError: a segment is missing.
        FormatError, IntegrityError, IncompatibleError, ResourceError: as ``find_entry``.
    """
    alias = parse_alias(
        raw, identity=identity, context_digest=name.context_digest, storage_key=name.storage_key
    )
    chunks = follow_chain(
        alias.tail_segment_sha256,
        chunk_count=alias.chunk_count,
        read=lambda digest: _read_segment(files, digest=digest, storage_key=name.storage_key),
    )
    alias.verify_chunks(chunks)
    return Entry(document=alias, chunks=chunks)


def _find_alias(files: StoreFiles, *, name: DocumentName, identity: CacheIdentity) -> Entry:
    raw = read_whole(files, name.alias_path, subject=f"prefix alias {name.alias_path}")
    return judge_alias(files, raw=raw, name=name, identity=identity)


def _resolve_tail(
    files: StoreFiles, *, tail: RowTailManifest, name: DocumentName
) -> tuple[ChunkDescriptor, ...]:
    """Reused descriptors and own ones; unlike below an alias a missing segment is corrupt (§10.1)."""
    reused: tuple[ChunkDescriptor, ...] = ()
    if tail.base_tail_segment_sha256 is not None:
        try:
            reused = follow_chain(
                tail.base_tail_segment_sha256,
                chunk_count=tail.base_chunk_count,
                read=lambda digest: _read_segment(files, digest=digest, storage_key=name.storage_key),
            )
        except AbsentError as error:
            raise FormatError(error.subject, expected=error.expected, found=error.found) from None
    chunks = (*reused, *tail.tail_chunks)
    tail.verify_chunks(chunks)
    return chunks


def _read_segment(files: StoreFiles, *, digest: Digest, storage_key: Digest) -> DescriptorSegment:
    raw = read_whole(
        files, segment_path(digest, storage_key=storage_key), subject=f"descriptor segment {digest}"
    )
    return parse_segment(raw, storage_key=storage_key, name=digest)


def _references(root: PageRoot) -> Iterator[FileDescriptor]:
    base = terminal_base_of(root)
    yield from base.chunks if isinstance(base, LegacyManifest) else base.objects
    for stage in chain_of(root):
        payload = stage.payload
        yield from payload.chunks if isinstance(payload, ChunkPayload) else payload.objects
