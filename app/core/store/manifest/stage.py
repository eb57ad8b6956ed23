"""One step of a page delta: from one span's pages to a longer span's (store-format §11)."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.canonical_json import JsonObject
from app.core.digest import Digest
from app.core.errors import FormatError, shown
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.manifest.descriptors import (
    ChunkDescriptor,
    ObjectDescriptor,
    take_chunks,
    take_objects,
    verify_ranges,
)
from app.core.store.manifest.document import Document
from app.core.store.manifest.flat import take_aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentPayload:
    """A delta stream as raw extents (v2, v3).

    Attributes:
        sha256: digest of the whole delta stream.
    """

    objects: tuple[ObjectDescriptor, ...]
    encoded_bytes: int
    object_bytes: int
    sha256: Digest

    def to_wire(self) -> JsonObject:
        """The four keys it takes in a document or stage (store-format §11.1, §11.4)."""
        return {
            "delta_encoded_bytes": self.encoded_bytes,
            "delta_object_bytes": self.object_bytes,
            "delta_objects": [item.to_wire() for item in self.objects],
            "delta_sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPayload:
    """A delta stream cut over the ``target_ckv`` records of legacy chunks (v1)."""

    chunks: tuple[ChunkDescriptor, ...]

    def to_wire(self) -> JsonObject:
        """The key it takes in a document (store-format §11.1)."""
        return {"delta_chunks": [chunk.to_wire() for chunk in self.chunks]}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnd:
    """A place in a chain of deltas: a prefix, and how many pages per group it has."""

    context_digest: Digest
    committed_tokens: int
    block_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaStage:
    """Where a delta starts, where it ends, and the stream that leads there."""

    base: StageEnd
    result: StageEnd
    payload: ExtentPayload | ChunkPayload

    def to_wire(self) -> JsonObject:
        """The stage as it stands in a v3 document (store-format §11.4)."""
        return {
            "context_digest": self.result.context_digest,
            "committed_tokens": self.result.committed_tokens,
            "base_context_digest": self.base.context_digest,
            "base_committed_tokens": self.base.committed_tokens,
            "base_block_counts": list(self.base.block_counts),
            "result_block_counts": list(self.result.block_counts),
            **self.payload.to_wire(),
        }


def take_ends(document: Document, *, context_digest: Digest, chunk_tokens: int) -> tuple[StageEnd, StageEnd]:
    """Base and result of a delta or of one of its stages: whole chunks, strictly growing (§11.1, §20.5).

    Raises:
        FormatError: a token or page count of another type or size, or a result not above its base.
    """
    base_tokens = take_aligned(document, key="base_committed_tokens", minimum=1, chunk_tokens=chunk_tokens)
    tokens = take_aligned(
        document, key="committed_tokens", minimum=base_tokens + 1, chunk_tokens=chunk_tokens
    )
    base_counts = document.take_counts("base_block_counts")
    counts = document.take_counts("result_block_counts")
    _verify_growth(base_counts, counts, subject=document.named("result_block_counts"))
    return (
        StageEnd(
            context_digest=document.take_digest("base_context_digest"),
            committed_tokens=base_tokens,
            block_counts=base_counts,
        ),
        StageEnd(context_digest=context_digest, committed_tokens=tokens, block_counts=counts),
    )


def take_extents(document: Document, *, smallest: int = 1) -> ExtentPayload:
    """The delta stream of a v2 document or of a v3 stage (store-format §11.1, §11.4).

    Args:
        document: what holds the four keys.
        smallest: the least ``delta_object_bytes``; v3 allows 64 MiB only.

    Raises:
        FormatError: a size or descriptor of another type or value.
    """
    object_bytes = document.take_int("delta_object_bytes", minimum=smallest, maximum=MAX_OBJECT_BYTES)
    encoded_bytes = document.take_int("delta_encoded_bytes", minimum=1)
    return ExtentPayload(
        objects=take_objects(
            document, key="delta_objects", object_bytes=object_bytes, encoded_bytes=encoded_bytes
        ),
        encoded_bytes=encoded_bytes,
        object_bytes=object_bytes,
        sha256=document.take_digest("delta_sha256"),
    )


def take_delta_chunks(document: Document, *, chunk_tokens: int, committed_tokens: int) -> ChunkPayload:
    """The chunks of a v1 document, which cover the whole span (store-format §11.1).

    Raises:
        FormatError: a descriptor of another shape, a gap, or wrong coverage.
    """
    chunks = take_chunks(document, key="delta_chunks")
    verify_ranges(
        chunks,
        chunk_tokens=chunk_tokens,
        committed_tokens=committed_tokens,
        subject=document.named("delta_chunks"),
    )
    return ChunkPayload(chunks=chunks)


def _verify_growth(base: Sequence[int], result: Sequence[int], *, subject: str) -> None:
    if len(base) != len(result) or any(old > new for old, new in zip(base, result, strict=True)):
        raise FormatError(
            subject,
            expected=f"as many counts as the base, none below {shown(list(base))}",
            found=shown(list(result)),
        )
