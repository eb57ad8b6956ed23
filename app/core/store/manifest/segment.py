"""``sparkcache-prefix-descriptor-segment/v1``: sixteen chunk descriptors in a content-named file (§10.2).

Segments form a chain: each names the one before it, and a reader walks from the last one to the first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.core.canonical_json import JsonObject, encode_canonical
from app.core.digest import Digest, sha256
from app.core.errors import FormatError, IntegrityError, shown
from app.core.store.manifest.descriptors import MAX_DESCRIPTORS, ChunkDescriptor, take_chunks
from app.core.store.manifest.document import Document, read_document

SEGMENT_SCHEMA = "sparkcache-prefix-descriptor-segment/v1"
SEGMENT_CHUNKS = 16

_KEYS = frozenset({"schema", "storage_key", "parent_sha256", "first_chunk_index", "descriptors"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorSegment:
    """One link of a chain.

    Attributes:
        parent_sha256: the segment before this one, or ``None`` for the first.
        first_chunk_index: 16 times the segment's place in the chain.
        sha256: digest of the file's bytes, which is its name.
    """

    storage_key: Digest
    parent_sha256: Digest | None
    first_chunk_index: int
    chunks: tuple[ChunkDescriptor, ...]
    sha256: Digest


def parse_segment(raw: bytes, *, storage_key: Digest, name: Digest) -> DescriptorSegment:
    """Judge one segment by itself (store-format §10.2, §20.3).

    Args:
        raw: the file as read.
        storage_key: of the identity it belongs to.
        name: the digest it is filed under.

    Raises:
        IntegrityError: the bytes are not those its name says.
        FormatError: corrupt in form, or of another schema or storage key.
    """
    subject = f"descriptor segment {name}"
    # Step 1: the bytes are those of the name.
    found = sha256(raw)
    if found != name:
        raise IntegrityError(subject, expected=name, found=found)
    # Step 2: exact keys, schema, storage key.
    document = read_document(raw, subject=subject)
    document.require_keys(_KEYS)
    document.require_constant("schema", wanted=SEGMENT_SCHEMA)
    document.require_constant("storage_key", wanted=storage_key)
    # Step 3: place, parent, descriptors.
    return DescriptorSegment(
        storage_key=storage_key,
        parent_sha256=document.take_optional_digest("parent_sha256"),
        first_chunk_index=document.take_int("first_chunk_index", minimum=0),
        chunks=take_chunks(document, key="descriptors", maximum=SEGMENT_CHUNKS),
        sha256=name,
    )


def encode_segment(
    *,
    storage_key: Digest,
    parent_sha256: Digest | None,
    first_chunk_index: int,
    chunks: Sequence[ChunkDescriptor],
) -> bytes:
    """The file of one segment (store-format §10.2)."""
    document: JsonObject = {
        "schema": SEGMENT_SCHEMA,
        "storage_key": storage_key,
        "parent_sha256": parent_sha256,
        "first_chunk_index": first_chunk_index,
        "descriptors": [chunk.to_wire() for chunk in chunks],
    }
    return encode_canonical(document)


def follow_chain(
    last: Digest, *, chunk_count: int, read: Callable[[Digest], DescriptorSegment]
) -> tuple[ChunkDescriptor, ...]:
    """The first ``chunk_count`` descriptors of a chain, walked from its last segment (store-format §10.2).

    A chain for ``n`` chunks has exactly ⌈n/16⌉ segments, so neither a cycle nor a surplus parent is followed:
    place and parent of a segment are judged before that parent is opened.

    Args:
        last: the chain's last segment.
        chunk_count: > 0.
        read: gives a parsed segment, or raises what stands in the way.

    Raises:
        FormatError: a segment out of place, too short, or with a parent too many or too few.
    """
    parts: list[tuple[ChunkDescriptor, ...]] = []
    name = last
    for place in range((chunk_count - 1) // SEGMENT_CHUNKS, -1, -1):
        segment = read(name)
        needed = min(SEGMENT_CHUNKS, chunk_count - place * SEGMENT_CHUNKS)
        _verify_place(segment, place=place, needed=needed)
        # Surplus descriptors of the last segment belong to longer entries (§20.3).
        parts.append(segment.chunks[:needed])
        if segment.parent_sha256 is not None:
            name = segment.parent_sha256
    return tuple(chunk for part in reversed(parts) for chunk in part)


def take_chunk_count(document: Document, *, key: str, minimum: int) -> int:
    """How many descriptors an entry takes from a chain; raises ``FormatError`` beyond the limit of §19."""
    return document.take_int(key, minimum=minimum, maximum=MAX_DESCRIPTORS)


def _verify_place(segment: DescriptorSegment, *, place: int, needed: int) -> None:
    subject = f"descriptor segment {segment.sha256}"
    if segment.first_chunk_index != place * SEGMENT_CHUNKS:
        raise FormatError(
            f"{subject}.first_chunk_index",
            expected=f"{place * SEGMENT_CHUNKS}, as its place in the chain demands",
            found=str(segment.first_chunk_index),
        )
    if (segment.parent_sha256 is None) != (place == 0):
        raise FormatError(
            f"{subject}.parent_sha256",
            expected="none for the first segment" if place == 0 else "the segment before",
            found=shown(segment.parent_sha256),
        )
    if len(segment.chunks) < needed:
        raise FormatError(
            f"{subject}.descriptors", expected=f"at least {needed}", found=str(len(segment.chunks))
        )
