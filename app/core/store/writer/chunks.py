"""Chunk files: rows of a span, or parts of a page stream, in batches of eight (store-format §9.2, §12)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from app.core.digest import ByteBuffer
from app.core.errors import FormatError, shown
from app.core.store.chunk import encode_chunk, encode_positions, owned_positions, part_lengths
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.manifest import ChunkDescriptor
from app.core.store.writer.publication import Publication

# Chunk files written at once, and therefore held in memory (store-format §12).
BATCH_CHUNKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """The records of tokens ``start … end``."""

    start: int
    end: int
    records: Mapping[RecordKind, ByteBuffer]


def row_chunk(
    identity: CacheIdentity, *, start: int, end: int, rows: Mapping[RecordKind, ByteBuffer]
) -> NewChunk:
    """A chunk in row mode: this rank's rows, and the positions they belong to (store-format §9.2).

    Args:
        identity: of the rank; its interleave size must be 1.
        start: first token.
        end: behind the last token.
        rows: per record kind, the rows of the owned positions; ``logical_positions`` is added.
    """
    positions = encode_positions(owned_positions(identity, start=start, end=end))
    return NewChunk(start=start, end=end, records={**rows, RecordKind.LOGICAL_POSITIONS: positions})


def page_chunks(stream: memoryview, *, committed_tokens: int, chunk_tokens: int) -> Iterator[NewChunk]:
    """A page stream cut over the ``target_ckv`` records of a whole span (store-format §9.2).

    Args:
        stream: the encoded pages, or a delta stream; at least a byte per chunk.
        committed_tokens: the span, whole chunks.
        chunk_tokens: width of a chunk.
    """
    at = 0
    lengths = part_lengths(len(stream), parts=committed_tokens // chunk_tokens)
    for index, length in enumerate(lengths):
        start = index * chunk_tokens
        end = start + chunk_tokens
        yield NewChunk(
            start=start,
            end=end,
            records={
                RecordKind.TARGET_CKV: stream[at : at + length],
                RecordKind.LOGICAL_POSITIONS: encode_positions(range(start, end)),
            },
        )
        at += length


def store_chunks(
    publication: Publication, *, chunks: Iterable[NewChunk], required: frozenset[RecordKind]
) -> tuple[ChunkDescriptor, ...]:
    """Publish chunk files and describe them in order.

    Raises:
        FormatError: a chunk lacks a required record, or one of its records is empty.
    """
    descriptors: list[ChunkDescriptor] = []
    source = iter(chunks)
    while batch := tuple(islice(source, BATCH_CHUNKS)):
        encoded = [_encode(chunk, required=required) for chunk in batch]
        digests = publication.store_objects(encoded)
        descriptors += (
            ChunkDescriptor(sha256=digest, byte_count=len(content), start=chunk.start, end=chunk.end)
            for chunk, content, digest in zip(batch, encoded, digests, strict=True)
        )
    return tuple(descriptors)


def _encode(chunk: NewChunk, *, required: frozenset[RecordKind]) -> bytes:
    kinds = {kind for kind, record in chunk.records.items() if len(record)}
    if not required <= kinds or len(kinds) != len(chunk.records):
        raise FormatError(
            f"chunk of tokens {chunk.start} … {chunk.end}",
            expected=f"bytes for {', '.join(sorted(required))}",
            found=shown({kind.value: len(record) for kind, record in sorted(chunk.records.items())}),
        )
    return encode_chunk(chunk.records, start=chunk.start, end=chunk.end)
