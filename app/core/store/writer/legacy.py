"""Publish a legacy entry: chunk files in batches of eight, then the root document (store-format §9, §12)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from app.core.digest import Digest, sha256
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import ChunkDescriptor, encode_legacy_manifest
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.chunks import NewChunk, store_chunks
from app.core.store.writer.documents import store_root
from app.core.store.writer.publication import publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedChunks:
    """What was published.

    Attributes:
        manifest_sha256: digest of the root document.
        chunks: the chunks this publication wrote, or found equal.
    """

    name: DocumentName
    manifest_sha256: Digest
    committed_tokens: int
    chunks: tuple[ChunkDescriptor, ...]


def publish_legacy(
    root: Path,
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    chunks: Iterable[NewChunk],
    new_id: Callable[[], str],
    calls: FileCalls = SYSTEM_CALLS,
) -> PublishedChunks:
    """Publish an entry of chunk files, rows or pages, into a root, which is created if it is missing.

    Args:
        root: the rank-local root; its shared lock is held for the whole publication (store-format §14).
        identity: of the rank, in the form its readers ask with; release 0.1.0a2 has its own (§5.4).
        context_digest: of the prefix.
        chunks: from token 0 on, without gap; only the last may be narrower than a chunk. Eight are held in
            memory at a time.
        new_id: a source of 32 hexadecimal characters nobody else uses.
        calls: the system calls to use.

    Raises:
        FormatError: the chunks do not follow each other or lack a record; no document was written.
        IntegrityError: another root document, or something that is no file, stands under a name; nothing
            was overwritten.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    with publishing(root, new_id=new_id, calls=calls) as publication:
        stored = store_chunks(publication, chunks=chunks, required=identity.required_records)
        committed_tokens = stored[-1].end if stored else 0
        document = encode_legacy_manifest(
            identity=identity,
            context_digest=context_digest,
            committed_tokens=committed_tokens,
            chunks=stored,
        )
        store_root(publication, identity=identity, name=name, document=document)
    return PublishedChunks(
        name=name, manifest_sha256=sha256(document), committed_tokens=committed_tokens, chunks=stored
    )
