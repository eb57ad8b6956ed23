"""Publish a page extension: read the base, store what is new, embed the base's document (§11)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.canonical_json import JsonObject, decode_canonical, encode_canonical, expect_object
from app.core.digest import Digest, sha256
from app.core.errors import PlanError
from app.core.store.decode import PageDecoding
from app.core.store.entry import Entry, judge_root
from app.core.store.files import RootFiles, read_whole
from app.core.store.identity import CacheIdentity
from app.core.store.layout import MAX_OBJECT_BYTES, DocumentName
from app.core.store.manifest import (
    ChunkPayload,
    DeltaStage,
    DeltaVersion,
    ExtentPayload,
    LegacyManifest,
    PageDeltaManifest,
    PageRoot,
    StageEnd,
    encode_page_delta,
    terminal_base_of,
)
from app.core.store.page_streams import page_root
from app.core.store.snapshot import PageLayout, encode_stream_header
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.chunks import page_chunks, store_chunks
from app.core.store.writer.documents import store_root
from app.core.store.writer.extents import fill, store_stream
from app.core.store.writer.page_tail import PageStream, PageTail, cut_tail, page_stream
from app.core.store.writer.publication import Publication, publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class PageExtension:
    """A longer span's pages, and the entry of the same root that they extend.

    Attributes:
        version: v1 and v2 need an identity published as ``page-tail-cow-v1``, v3 ``page-tail-cow-v2``.
        layout: of the pages, the base's and the new ones.
        base_context_digest: of the shorter prefix.
        context_digest: of the longer prefix, which spans ``committed_tokens``.
        stream: the whole encoded stream, as a flat snapshot would have it.
        object_bytes: size of every delta object but the last; 64 MiB in v3; not used in v1.
    """

    version: DeltaVersion
    identity: CacheIdentity
    layout: PageLayout
    base_context_digest: Digest
    context_digest: Digest
    committed_tokens: int
    stream: memoryview
    object_bytes: int = MAX_OBJECT_BYTES

    @property
    def name(self) -> DocumentName:
        """Where the entry is filed."""
        return DocumentName(storage_key=self.identity.storage_key, context_digest=self.context_digest)

    @property
    def base_name(self) -> DocumentName:
        """Where the base is filed."""
        return DocumentName(storage_key=self.identity.storage_key, context_digest=self.base_context_digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDelta:
    """What was published.

    Attributes:
        manifest_sha256: digest of the root document.
        base: where the new stage starts; not where it was asked to, if the entry was re-based.
        reused_pages: pages per group that are kept from there.
        delta_bytes: length of the delta stream.
    """

    name: DocumentName
    manifest_sha256: Digest
    base: StageEnd
    reused_pages: tuple[int, ...]
    delta_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What an extension stands on.

    Attributes:
        entry: whose pages are compared with the new ones.
        document: what is embedded; not the entry's own where its stages are taken over.
        stages: the steps from ``document`` to ``entry``.
    """

    entry: Entry
    document: bytes
    stages: tuple[DeltaStage, ...] = ()


def publish_page_delta(
    root: Path, *, extension: PageExtension, new_id: Callable[[], str], calls: FileCalls = SYSTEM_CALLS
) -> PublishedDelta:
    """Extend a page entry of this root by the pages that a longer span has more, or has others.

    The base's pages and the new ones are both in memory. A third delta on two stacked ones of v1 or v2 is
    based on the entry at the bottom instead (store-format §11.1); one of v3 takes over the stages of its base
    (§11.4).

    Args:
        root: the rank-local root; its shared lock is held from reading the base to the end, so maintenance
            cannot take the base away meanwhile (§14).
        extension: what to publish.
        new_id: a source of 32 hexadecimal characters nobody else uses.
        calls: the system calls to write with.

    Raises:
        PlanError: the delta's header does not fit into its first object.
        AbsentError: the base is not there.
        FormatError, IncompatibleError, IntegrityError: the base is corrupt or another one, the stream is not
            of this layout and span, or they make no valid entry, and no document was written; or something
            else stands under a name and was left alone.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    result = page_stream(
        extension.stream,
        layout=extension.layout,
        context_digest=extension.context_digest,
        committed_tokens=extension.committed_tokens,
    )
    with publishing(root, new_id=new_id, calls=calls) as publication:
        return _extend(publication, files=RootFiles(root=root), extension=extension, result=result)


def _extend(
    publication: Publication, *, files: RootFiles, extension: PageExtension, result: PageStream
) -> PublishedDelta:
    base = _read_base(files, extension=extension)
    pages = _read_pages(files, entry=base.entry, layout=extension.layout)
    tail = cut_tail(extension.layout, base=pages, result=result)
    payload = _store_tail(publication, tail=tail, extension=extension)
    document = encode_page_delta(
        extension.version,
        identity=extension.identity,
        base_root=base.document,
        layout_sha256=extension.layout.sha256,
        stages=(*base.stages, DeltaStage(base=pages.end, result=result.end, payload=payload)),
    )
    store_root(publication, identity=extension.identity, name=extension.name, document=document)
    return PublishedDelta(
        name=extension.name,
        manifest_sha256=sha256(document),
        base=pages.end,
        reused_pages=tail.reused_pages,
        delta_bytes=tail.byte_count,
    )


def _read_base(files: RootFiles, *, extension: PageExtension) -> _Base:
    """The entry to extend, or the one below it (store-format §11.1, §11.4)."""
    name = extension.base_name
    raw = read_whole(files, name.path, subject=f"root document {name.path}")
    entry = judge_root(files, raw=raw, name=name, identity=extension.identity)
    document = page_root(entry)
    if not isinstance(document, PageDeltaManifest):
        return _Base(entry=entry, document=raw)
    if extension.version is DeltaVersion.V3:
        return _Base(entry=entry, document=_terminal_document(raw, root=document), stages=document.stages)
    if not isinstance(document.base, PageDeltaManifest):
        return _Base(entry=entry, document=raw)
    bottom = terminal_base_of(document)
    chunks = bottom.chunks if isinstance(bottom, LegacyManifest) else ()
    return _Base(entry=Entry(document=bottom, chunks=chunks), document=_terminal_document(raw, root=document))


def _terminal_document(raw: bytes, *, root: PageRoot) -> bytes:
    """The root document at the bottom of a stack of deltas, as it is embedded."""
    value: JsonObject = expect_object(decode_canonical(raw, subject="base"), subject="base")
    while isinstance(root, PageDeltaManifest):
        value = expect_object(value["base_root"], subject="base")
        root = root.base
    return encode_canonical(value)


def _read_pages(files: RootFiles, *, entry: Entry, layout: PageLayout) -> PageStream:
    """The base's whole stream, every digest verified."""
    decoding = PageDecoding(files, entry=entry, layout=layout)
    counts = layout.block_counts(entry.committed_tokens)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    encoded = bytearray(len(header) + layout.payload_bytes(block_counts=counts))
    encoded[: len(header)] = header
    for block in decoding.blocks():
        at = block.layer.start + block.offset
        encoded[at : at + len(block.memory)] = block.memory
    return page_stream(
        memoryview(encoded),
        layout=layout,
        context_digest=entry.document.context_digest,
        committed_tokens=entry.committed_tokens,
    )


def _store_tail(
    publication: Publication, *, tail: PageTail, extension: PageExtension
) -> ExtentPayload | ChunkPayload:
    """The delta stream as raw extents, or in v1 cut over chunks of the whole span (store-format §11.1)."""
    identity, size = extension.identity, extension.object_bytes
    if extension.version is DeltaVersion.V1:
        chunks = page_chunks(
            memoryview(b"".join(tail.parts)),
            committed_tokens=extension.committed_tokens,
            chunk_tokens=identity.chunk_tokens,
        )
        return ChunkPayload(
            chunks=store_chunks(publication, chunks=chunks, required=identity.required_records)
        )
    if len(tail.parts[0]) > size:
        raise PlanError("delta object size", expected=f"at least {len(tail.parts[0])}", found=str(size))
    batches = fill(tail.parts, stream_bytes=tail.byte_count, object_bytes=size)
    stored = store_stream(publication, batches=batches)
    return ExtentPayload(
        objects=stored.objects, encoded_bytes=stored.byte_count, object_bytes=size, sha256=stored.sha256
    )
