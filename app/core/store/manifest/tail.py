"""``sparkcache-tail-manifest/v1``: a row entry that reuses whole chunks of a shorter one (§10.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.errors import FormatError, IncompatibleError, shown
from app.core.store.identity import CacheIdentity, PublicationSchema
from app.core.store.manifest.descriptors import ChunkDescriptor, take_chunks, verify_ranges
from app.core.store.manifest.document import FORMAT_ABI, Asked, Document, RootKind, encode_signed
from app.core.store.manifest.segment import take_chunk_count

TAIL_SCHEMA = "sparkcache-tail-manifest/v1"

_KEYS = frozenset(
    {
        "schema",
        "format_abi",
        "identity",
        "context_digest",
        "committed_tokens",
        "base_context_digest",
        "base_manifest_sha256",
        "base_committed_tokens",
        "reused_tokens",
        "base_chunk_count",
        "base_tail_segment_sha256",
        "tail_chunks",
        "metadata_sha256",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTailManifest:
    """A row tail that passed every check it can pass without its segments.

    Attributes:
        base_manifest_sha256: digest of the base's file, which is not opened.
        reused_tokens: tokens of the base that are kept, whole chunks.
        base_tail_segment_sha256: the chain's last segment, or ``None`` where nothing is reused.
        tail_chunks: what follows the reused chunks.
        sha256: digest of the document's own bytes.
    """

    kind: ClassVar[RootKind] = RootKind.MANIFEST

    identity: CacheIdentity
    context_digest: Digest
    committed_tokens: int
    base_context_digest: Digest
    base_manifest_sha256: Digest
    base_committed_tokens: int
    reused_tokens: int
    base_chunk_count: int
    base_tail_segment_sha256: Digest | None
    tail_chunks: tuple[ChunkDescriptor, ...]
    metadata_sha256: Digest
    sha256: Digest

    def verify_chunks(self, chunks: Sequence[ChunkDescriptor]) -> None:
        """Reused and own descriptors together are a chunk list; raises ``FormatError`` if not (§9.1)."""
        verify_ranges(
            chunks,
            chunk_tokens=self.identity.chunk_tokens,
            committed_tokens=self.committed_tokens,
            subject="root document.chunks",
        )


def parse_tail_document(document: Document, *, asked: Asked) -> RowTailManifest:
    """Judge a row tail, in the order that decides its reason (store-format §10.1, §20.1).

    Raises:
        FormatError: corrupt in form.
        IntegrityError: the metadata digest does not cover these bytes.
        IncompatibleError: another ABI, identity, publication schema or context.
    """
    # Step 1: exact keys.
    document.require_keys(_KEYS)
    # Step 2: digest syntax.
    document.take_digest("metadata_sha256")
    base_context_digest = document.take_digest("base_context_digest")
    base_manifest_sha256 = document.take_digest("base_manifest_sha256")
    base_tail_segment_sha256 = document.take_optional_digest("base_tail_segment_sha256")
    # Step 3: the document's own digest.
    metadata_sha256 = document.verify_metadata_digest()
    # Step 4: is it the entry that was asked for?
    identity = _take_compatible(document, asked=asked)
    # Step 5: geometry.
    committed_tokens = document.take_int("committed_tokens", minimum=1)
    base_committed_tokens = document.take_int(
        "base_committed_tokens", minimum=1, maximum=committed_tokens - 1
    )
    reused_tokens = document.take_int("reused_tokens", minimum=0, maximum=base_committed_tokens)
    base_chunk_count = _take_base_chunks(document, reused_tokens=reused_tokens, identity=identity)
    return RowTailManifest(
        identity=identity,
        context_digest=asked.context_digest,
        committed_tokens=committed_tokens,
        base_context_digest=base_context_digest,
        base_manifest_sha256=base_manifest_sha256,
        base_committed_tokens=base_committed_tokens,
        reused_tokens=reused_tokens,
        base_chunk_count=base_chunk_count,
        base_tail_segment_sha256=base_tail_segment_sha256,
        tail_chunks=take_chunks(document, key="tail_chunks"),
        metadata_sha256=metadata_sha256,
        sha256=document.sha256,
    )


def encode_row_tail(
    *,
    identity: CacheIdentity,
    context_digest: Digest,
    committed_tokens: int,
    base_context_digest: Digest,
    base_manifest_sha256: Digest,
    base_committed_tokens: int,
    reused_tokens: int,
    base_tail_segment_sha256: Digest | None,
    tail_chunks: Sequence[ChunkDescriptor],
) -> bytes:
    """The root document of an extension of a row entry (store-format §10.1)."""
    document: JsonObject = {
        "schema": TAIL_SCHEMA,
        "format_abi": FORMAT_ABI,
        "identity": identity.to_wire(),
        "context_digest": context_digest,
        "committed_tokens": committed_tokens,
        "base_context_digest": base_context_digest,
        "base_manifest_sha256": base_manifest_sha256,
        "base_committed_tokens": base_committed_tokens,
        "reused_tokens": reused_tokens,
        "base_chunk_count": reused_tokens // identity.chunk_tokens,
        "base_tail_segment_sha256": base_tail_segment_sha256,
        "tail_chunks": [chunk.to_wire() for chunk in tail_chunks],
    }
    return encode_signed(document)


def _take_compatible(document: Document, *, asked: Asked) -> CacheIdentity:
    document.require_equal("format_abi", wanted=FORMAT_ABI)
    identity = document.take_identity(asked=asked)
    if identity.publication_schema is not PublicationSchema.TAIL_COW_V1:
        raise IncompatibleError(
            document.named("identity"),
            expected=f"published as {PublicationSchema.TAIL_COW_V1}",
            found=str(identity.publication_schema),
        )
    document.require_equal("context_digest", wanted=asked.context_digest)
    return identity


def _take_base_chunks(document: Document, *, reused_tokens: int, identity: CacheIdentity) -> int:
    """The reused part is whole chunks, and there is a chain exactly if there is such a part (§10.1)."""
    if reused_tokens % identity.chunk_tokens:
        raise FormatError(
            document.named("reused_tokens"),
            expected=f"a multiple of {identity.chunk_tokens}",
            found=str(reused_tokens),
        )
    wanted = reused_tokens // identity.chunk_tokens
    count = take_chunk_count(document, key="base_chunk_count", minimum=0)
    chain = document.fields["base_tail_segment_sha256"]
    if count != wanted or (chain is None) != (count == 0):
        raise FormatError(
            document.named("base_chunk_count"),
            expected=f"{wanted}, and a segment chain unless it is 0",
            found=f"{count}, {shown(chain)}",
        )
    return count
