"""The encoded streams of a page entry, opened: its terminal base's, each delta stage's (§8.4, §11.2)."""

from app.core.digest import Digest
from app.core.errors import FormatError, IntegrityError, Stage
from app.core.store.delta_stream import (
    DELTA_PREFIX_BYTES,
    DeltaHeader,
    parse_delta_header,
    parse_delta_prefix,
)
from app.core.store.entry import Entry
from app.core.store.files import StoreFiles
from app.core.store.identity import CacheIdentity
from app.core.store.manifest import (
    ChunkPayload,
    DeltaStage,
    FlatSnapshotManifest,
    LegacyManifest,
    PageDeltaManifest,
    PageRoot,
    parse_manifest,
)
from app.core.store.stored_stream import StoredStream, chunk_parts, extent_parts


def page_root(entry: Entry) -> PageRoot:
    """The document of an entry that holds pages.

    Raises:
        FormatError: stage ``header``: the entry holds rows.
    """
    document = entry.document
    if isinstance(document, FlatSnapshotManifest | PageDeltaManifest):
        return document
    if isinstance(document, LegacyManifest) and document.identity.stores_pages:
        return document
    raise FormatError("entry", expected="pages", found="per-token rows", stage=Stage.HEADER)


def parse_page_root(raw: bytes, *, context_digest: Digest) -> PageRoot:
    """A root document of pages of any kind, its identity judged by itself.

    Raises:
        FormatError, IntegrityError, IncompatibleError: as ``parse_manifest``; also a document of rows.
    """
    return page_root(Entry(document=parse_manifest(raw, identity=None, context_digest=context_digest)))


def open_base(files: StoreFiles, *, base: FlatSnapshotManifest | LegacyManifest) -> StoredStream:
    """The snapshot stream at the bottom of an entry.

    Raises:
        FormatError: a legacy entry's chunks are no parts of a stream (store-format §9.2).
        ResourceError: out of descriptors or memory.
    """
    if isinstance(base, FlatSnapshotManifest):
        return StoredStream(files, parts=extent_parts(base.objects), subject="stream")
    parts = chunk_parts(files, chunks=base.chunks, identity=base.identity)
    return StoredStream(files, parts=parts, subject="stream")


def open_stage(
    files: StoreFiles, *, stage: DeltaStage, identity: CacheIdentity, subject: str
) -> tuple[StoredStream, DeltaHeader]:
    """A delta stream, with its header already taken from it (store-format §11.2, §20.6).

    Raises:
        FormatError: stage ``header``: the header is none, reaches out of object 0, or tells another length;
            also as ``open_base``.
        ResourceError: out of descriptors or memory.
    """
    payload = stage.payload
    if isinstance(payload, ChunkPayload):
        parts = chunk_parts(files, chunks=payload.chunks, identity=identity)
        stream = StoredStream(files, parts=parts, subject=subject)
        reach = stream.byte_count
    else:
        stream = StoredStream(files, parts=extent_parts(payload.objects), subject=subject)
        reach = payload.objects[0].byte_count
    try:
        return stream, _take_header(stream, reach=reach)
    except BaseException:
        stream.close()
        raise


def require_digest(found: Digest | None, *, wanted: Digest | None, subject: str) -> None:
    """Compare a digest over a stream with the one that is stated, if one is.

    Raises:
        IntegrityError: stage ``stream``.
    """
    if wanted is not None and found != wanted:
        raise IntegrityError(subject, expected=wanted, found=str(found), stage=Stage.STREAM)


def _take_header(stream: StoredStream, *, reach: int) -> DeltaHeader:
    subject = stream.subject
    if reach < DELTA_PREFIX_BYTES:
        raise FormatError(subject, expected="a header", found=f"{reach} bytes", stage=Stage.HEADER)
    length = parse_delta_prefix(
        stream.take_bytes(DELTA_PREFIX_BYTES), available=reach - DELTA_PREFIX_BYTES, subject=subject
    )
    header = parse_delta_header(stream.take_bytes(length), subject=subject)
    wanted = DELTA_PREFIX_BYTES + length + header.tail_bytes
    if stream.byte_count != wanted:
        raise FormatError(
            subject,
            expected=f"{wanted} bytes of header and tails",
            found=f"{stream.byte_count} bytes",
            stage=Stage.HEADER,
        )
    return header
