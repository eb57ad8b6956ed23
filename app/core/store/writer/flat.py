"""Publish a flat snapshot: its objects in batches of two, then the root document (store-format §8, §12)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.core.digest import Digest, sha256
from app.core.store.identity import CacheIdentity
from app.core.store.layout import DocumentName
from app.core.store.manifest import encode_flat_manifest
from app.core.store.writer.calls import SYSTEM_CALLS, FileCalls
from app.core.store.writer.documents import store_root
from app.core.store.writer.extents import StoredExtents, store_stream
from app.core.store.writer.publication import publishing


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSnapshot:
    """What was published.

    Attributes:
        manifest_sha256: digest of the root document.
        encoded_bytes: length of the stream over ``objects`` objects.
    """

    name: DocumentName
    manifest_sha256: Digest
    snapshot_sha256: Digest
    encoded_bytes: int
    objects: int


def publish_flat(
    root: Path,
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    object_bytes: int,
    batches: Iterable[Sequence[memoryview]],
    new_id: Callable[[], str],
    calls: FileCalls = SYSTEM_CALLS,
) -> PublishedSnapshot:
    """Publish one rank's snapshot into a root, which is created if it is missing.

    Args:
        root: the rank-local root; its shared lock is held for the whole publication (store-format §14).
        identity: of the rank; with ``context_digest`` it names the entry.
        committed_tokens: span of the prefix.
        object_bytes: size of every object but the last, 1 … 64 MiB.
        batches: the stream cut into objects, two at a time; unchanged until the next batch is asked for.
        new_id: a source of 32 hexadecimal characters nobody else uses.

    Raises:
        FormatError, IncompatibleError: the objects make no valid entry; no document was written.
        IntegrityError: something else stands under a name; nothing was overwritten.
        ResourceError: the file system refused (full, read-only, no permission).
    """
    name = DocumentName(storage_key=identity.storage_key, context_digest=context_digest)
    with publishing(root, new_id=new_id, calls=calls) as publication:
        stream = store_stream(publication, batches=batches)
        document = encode_flat_manifest(
            identity=identity,
            context_digest=context_digest,
            committed_tokens=committed_tokens,
            object_bytes=object_bytes,
            objects=stream.objects,
            snapshot_sha256=stream.sha256,
        )
        store_root(publication, identity=identity, name=name, document=document)
    return _published(name, document=document, stream=stream)


def _published(name: DocumentName, *, document: bytes, stream: StoredExtents) -> PublishedSnapshot:
    return PublishedSnapshot(
        name=name,
        manifest_sha256=sha256(document),
        snapshot_sha256=stream.sha256,
        encoded_bytes=stream.byte_count,
        objects=len(stream.objects),
    )
