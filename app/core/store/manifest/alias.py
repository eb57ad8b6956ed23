"""``sparkcache-prefix-alias/v1``: a shorter prefix of a row entry, under its own context digest (§10.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.store.identity import CacheIdentity
from app.core.store.manifest.descriptors import ChunkDescriptor, verify_ranges
from app.core.store.manifest.document import (
    FORMAT_ABI,
    Asked,
    RootKind,
    StorageMode,
    encode_signed,
    read_document,
)
from app.core.store.manifest.segment import take_chunk_count

ALIAS_SCHEMA = "sparkcache-prefix-alias/v1"

_SUBJECT = "prefix alias"
_KEYS = frozenset(
    {
        "schema",
        "format_abi",
        "storage_mode",
        "identity",
        "context_digest",
        "committed_tokens",
        "chunk_count",
        "tail_segment_sha256",
        "source_manifest_digest",
        "metadata_sha256",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixAlias:
    """An alias that passed every check it can pass without its segments.

    Attributes:
        chunk_count: how many descriptors of the chain it takes.
        tail_segment_sha256: the chain's last segment.
        source_manifest_sha256: digest of the entry it was cut from; not followed.
        sha256: digest of the document's own bytes.
    """

    kind: ClassVar[RootKind] = RootKind.PREFIX_ALIAS

    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    chunk_count: int
    tail_segment_sha256: Digest
    source_manifest_sha256: Digest
    metadata_sha256: Digest
    sha256: Digest

    def verify_chunks(self, chunks: Sequence[ChunkDescriptor]) -> None:
        """The chain's descriptors are this entry's chunk list; raises ``FormatError`` if not (§9.1)."""
        verify_ranges(
            chunks,
            chunk_tokens=self.identity.chunk_tokens,
            committed_tokens=self.committed_tokens,
            subject=f"{_SUBJECT}.chunks",
        )


def parse_alias(
    raw: bytes,
    *,
    identity: CacheIdentity | None,
    context_digest: Digest,
    storage_key: Digest | None = None,
) -> PrefixAlias:
    """Judge an alias; unlike elsewhere the identity comes before the metadata digest (§10.3, §20.2). The
    arguments are those of ``parse_manifest``.

    Raises:
        FormatError: corrupt in form.
        IntegrityError: the metadata digest does not cover these bytes.
        IncompatibleError: another ABI, storage mode, identity or context.
    """
    document = read_document(raw, subject=_SUBJECT)
    asked = Asked(identity=identity, context_digest=context_digest, storage_key=storage_key)
    # Step 1: exact keys, the schema, digest syntax.
    document.require_keys(_KEYS)
    document.require_constant("schema", wanted=ALIAS_SCHEMA)
    document.take_digest("metadata_sha256")
    tail_segment_sha256 = document.take_digest("tail_segment_sha256")
    source_manifest_sha256 = document.take_digest("source_manifest_digest")
    # Step 2: is it the entry that was asked for?
    document.require_equal("format_abi", wanted=FORMAT_ABI)
    document.require_equal("storage_mode", wanted=StorageMode.ROWS)
    identity = document.take_identity(asked=asked)
    document.require_equal("context_digest", wanted=asked.context_digest)
    # Step 3: the document's own digest.
    metadata_sha256 = document.verify_metadata_digest()
    # Step 4: geometry.
    return PrefixAlias(
        identity=identity,
        context_digest=asked.context_digest,
        committed_tokens=document.take_int("committed_tokens", minimum=1),
        chunk_count=take_chunk_count(document, key="chunk_count", minimum=1),
        tail_segment_sha256=tail_segment_sha256,
        source_manifest_sha256=source_manifest_sha256,
        metadata_sha256=metadata_sha256,
        sha256=document.sha256,
    )


def encode_alias(
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    chunk_count: int,
    tail_segment_sha256: Digest,
    source_manifest_sha256: Digest,
) -> bytes:
    """The document of an alias over the first ``chunk_count`` chunks of a chain (store-format §10.3)."""
    document: JsonObject = {
        "schema": ALIAS_SCHEMA,
        "format_abi": FORMAT_ABI,
        "storage_mode": StorageMode.ROWS,
        "identity": identity.to_wire(),
        "context_digest": context_digest,
        "committed_tokens": committed_tokens,
        "chunk_count": chunk_count,
        "tail_segment_sha256": tail_segment_sha256,
        "source_manifest_digest": source_manifest_sha256,
    }
    return encode_signed(document)
