"""``sparkcache-page-snapshot-manifest/v2``: one page stream as raw extents (store-format §8.1 – §8.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.errors import FormatError, IncompatibleError, shown
from app.core.store.identity import PAGE_RECORDS, CacheIdentity, PublicationSchema
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.manifest.descriptors import ObjectDescriptor, take_objects
from app.core.store.manifest.document import (
    FORMAT_ABI,
    Asked,
    Document,
    RootKind,
    StorageMode,
    encode_signed,
)

FLAT_SNAPSHOT_SCHEMA = "sparkcache-page-snapshot-manifest/v2"

_KEYS = frozenset(
    {
        "schema",
        "format_abi",
        "storage_mode",
        "identity",
        "context_digest",
        "committed_tokens",
        "snapshot_encoded_bytes",
        "snapshot_object_bytes",
        "snapshot_objects",
        "snapshot_sha256",
        "logical_chunk_tokens",
        "logical_chunk_count",
        "metadata_sha256",
    }
)
_PUBLICATIONS = frozenset({None, PublicationSchema.PAGE_TAIL_COW_V1, PublicationSchema.PAGE_TAIL_COW_V2})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatSnapshotManifest:
    """A flat snapshot's document that passed every check of §8.3.

    Attributes:
        committed_tokens: the span of the prefix.
        encoded_bytes: length of the whole stream, header included.
        object_bytes: size of every object but the last.
        snapshot_sha256: digest of the whole stream.
        sha256: digest of the document's own bytes.
    """

    kind: ClassVar[RootKind] = RootKind.PAGE_SNAPSHOT

    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    encoded_bytes: int
    object_bytes: int
    objects: tuple[ObjectDescriptor, ...]
    snapshot_sha256: Digest
    metadata_sha256: Digest
    sha256: Digest


def parse_flat_document(document: Document, *, asked: Asked) -> FlatSnapshotManifest:
    """Judge a flat snapshot's document; the steps are those of §8.3, in the order that decides its reason.

    Raises:
        FormatError: corrupt in form.
        IntegrityError: the metadata digest does not cover these bytes.
        IncompatibleError: another ABI, storage mode, identity, record set or context.
    """
    # Step 2: exact keys.
    document.require_keys(_KEYS)
    # Step 3: digest syntax.
    document.take_digest("metadata_sha256")
    snapshot_sha256 = document.take_digest("snapshot_sha256")
    # Step 4: the document's own digest.
    metadata_sha256 = document.verify_metadata_digest()
    # Step 5: is it the entry that was asked for?
    identity = _take_compatible(document, asked=asked)
    # Step 6: tokens and sizes.
    committed_tokens = _take_tokens(document, identity=identity)
    object_bytes = document.take_int("snapshot_object_bytes", minimum=1, maximum=MAX_OBJECT_BYTES)
    encoded_bytes = document.take_int("snapshot_encoded_bytes", minimum=1)
    # Steps 7 and 8: descriptors, coverage.
    objects = take_objects(
        document, key="snapshot_objects", object_bytes=object_bytes, encoded_bytes=encoded_bytes
    )
    return FlatSnapshotManifest(
        identity=identity,
        context_digest=asked.context_digest,
        committed_tokens=committed_tokens,
        encoded_bytes=encoded_bytes,
        object_bytes=object_bytes,
        objects=objects,
        snapshot_sha256=snapshot_sha256,
        metadata_sha256=metadata_sha256,
        sha256=document.sha256,
    )


def encode_flat_manifest(
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    object_bytes: int,
    objects: Sequence[ObjectDescriptor],
    snapshot_sha256: Digest,
) -> bytes:
    """The root document of a flat snapshot whose objects cover the stream in order (store-format §8.1)."""
    document: JsonObject = {
        "schema": FLAT_SNAPSHOT_SCHEMA,
        "format_abi": FORMAT_ABI,
        "storage_mode": StorageMode.PAGES,
        "identity": identity.to_wire(),
        "context_digest": context_digest,
        "committed_tokens": committed_tokens,
        "snapshot_encoded_bytes": objects[-1].end,
        "snapshot_object_bytes": object_bytes,
        "snapshot_objects": [item.to_wire() for item in objects],
        "snapshot_sha256": snapshot_sha256,
        "logical_chunk_tokens": identity.chunk_tokens,
        "logical_chunk_count": committed_tokens // identity.chunk_tokens,
    }
    return encode_signed(document)


def require_pages(
    document: Document, *, identity: CacheIdentity, publications: frozenset[PublicationSchema | None]
) -> None:
    """Pages have exactly two records, and each kind of document its own ways of publication (§4, §8.1).

    Raises:
        IncompatibleError: other records or another publication schema.
    """
    if identity.publication_schema not in publications or identity.required_records != PAGE_RECORDS:
        raise IncompatibleError(
            document.named("identity"),
            expected="the records target_ckv and logical_positions, published as pages",
            found=f"{shown(sorted(identity.required_records))}, {identity.publication_schema}",
        )


def take_aligned(document: Document, *, key: str, minimum: int, chunk_tokens: int) -> int:
    """A span of whole chunks.

    Raises:
        FormatError: no integer ≥ ``minimum``, or no multiple of ``chunk_tokens``.
    """
    tokens = document.take_int(key, minimum=minimum)
    if tokens % chunk_tokens:
        raise FormatError(document.named(key), expected=f"a multiple of {chunk_tokens}", found=str(tokens))
    return tokens


def _take_compatible(document: Document, *, asked: Asked) -> CacheIdentity:
    document.require_equal("format_abi", wanted=FORMAT_ABI)
    document.require_equal("storage_mode", wanted=StorageMode.PAGES)
    identity = document.take_identity(asked=asked)
    require_pages(document, identity=identity, publications=_PUBLICATIONS)
    document.require_equal("context_digest", wanted=asked.context_digest)
    return identity


def _take_tokens(document: Document, *, identity: CacheIdentity) -> int:
    chunk_tokens = identity.chunk_tokens
    tokens = take_aligned(document, key="committed_tokens", minimum=1, chunk_tokens=chunk_tokens)
    document.take_int("logical_chunk_tokens", minimum=chunk_tokens, maximum=chunk_tokens)
    chunks = tokens // chunk_tokens
    document.take_int("logical_chunk_count", minimum=chunks, maximum=chunks)
    return tokens
