"""Publish a row extension: descriptor segments, the tail's chunks, the root document (store-format §10.1)."""

from collections.abc import Callable, Iterable
from pathlib import Path

from app.core.digest import Digest, sha256
from app.core.store.entry import Entry, find_entry
from app.core.store.files import RootFiles
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.lookup import Depth, verify_entry
from app.core.store.manifest import StorageMode, encode_row_tail
from app.core.store.manifest.descriptors import verify_ranges
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.chunks import NewChunk, store_chunks
from app.core.store.writer.documents import store_root
from app.core.store.writer.legacy import PublishedChunks
from app.core.store.writer.publication import Publication, publishing
from app.core.store.writer.segments import store_chain


def publish_row_tail(
    root: Path,
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    base_context_digest: Digest,
    tail_chunks: Iterable[NewChunk],
    new_id: Callable[[], str],
    calls: FileCalls = SYSTEM_CALLS,
) -> PublishedChunks:
    """Extend a row entry of this root: its whole chunks are reused, what follows is new (store-format §10.1).

    Args:
        root: the rank-local root; its shared lock is held from reading the base to the end, so maintenance
            cannot take the base away meanwhile (§14).
        identity: of the rank, published as ``tail-cow-v1``.
        context_digest: of the longer prefix.
        base_context_digest: of the shorter prefix, whose entry is verified in full.
        tail_chunks: from the end of the base's last whole chunk on.
        new_id: a source of 32 hexadecimal characters nobody else uses.
        calls: the system calls to use.

    Raises:
        AbsentError: the base is not there.
        IncompatibleError: the base is of another identity, or the identity is not published this way.
        FormatError, IntegrityError: the base is corrupt, the chunks do not extend it, or something else
            stands under a name; no document was written or replaced.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    with publishing(root, new_id=new_id, calls=calls) as publication:
        base = _read_base(root, identity=identity, context_digest=base_context_digest)
        return _extend(publication, name=name, base=base, tail_chunks=tail_chunks)


def _read_base(root: Path, *, identity: CacheIdentity, context_digest: Digest) -> Entry:
    """The base, verified in full: its objects become those of the extension (store-format §13.1, levels)."""
    files = RootFiles(root=root)
    base = find_entry(files, identity=identity, context_digest=context_digest, mode=StorageMode.ROWS)
    verify_entry(files, entry=base, depth=Depth.FULL)
    return base


def _extend(
    publication: Publication, *, name: DocumentName, base: Entry, tail_chunks: Iterable[NewChunk]
) -> PublishedChunks:
    identity = base.identity
    chunk_count = base.committed_tokens // identity.chunk_tokens
    reused = base.chunks[:chunk_count]
    segments = store_chain(publication, storage_key=name.storage_key, chunks=reused)
    stored = store_chunks(publication, chunks=tail_chunks, required=identity.required_records)
    committed_tokens = stored[-1].end if stored else 0
    verify_ranges(
        (*reused, *stored),
        chunk_tokens=identity.chunk_tokens,
        committed_tokens=committed_tokens,
        subject="chunks",
    )
    document = encode_row_tail(
        identity=identity,
        context_digest=name.context_digest,
        committed_tokens=committed_tokens,
        base_context_digest=base.document.context_digest,
        base_manifest_sha256=base.sha256,
        base_committed_tokens=base.committed_tokens,
        reused_tokens=chunk_count * identity.chunk_tokens,
        base_tail_segment_sha256=segments[-1] if segments else None,
        tail_chunks=stored,
    )
    store_root(publication, identity=identity, name=name, document=document)
    return PublishedChunks(
        name=name, manifest_sha256=sha256(document), committed_tokens=committed_tokens, chunks=stored
    )
