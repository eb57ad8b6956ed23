"""What the shared vectors were made from, by their README: tokens by a formula, bytes by labels."""

from collections.abc import Sequence
from typing import Any

from app.core.digest import Digest, squeeze
from app.core.store.chunk import owned_positions
from app.core.store.context import context_digest
from app.core.store.identity import CacheIdentity, RecordKind
from app.core.store.snapshot import PageLayout, ReusePolicy, encode_stream_header
from app.core.store.writer import NewChunk, row_chunk

ROW_KINDS = (RecordKind.TARGET_CKV, RecordKind.SPARSE_INDEXER, RecordKind.MTP_DRAFT_KV)


def tokens_of(count: int) -> list[int]:
    """The first tokens of the vectors' one prompt."""
    return [(index * 7919 + 12345) % 151552 for index in range(count)]


def digest_of(entry: dict[str, Any], *, span_tokens: int | None = None) -> Digest:
    """The context digest of an entry's prompt, or of a shorter prefix of it."""
    return context_digest(tokens_of(span_tokens or entry["span_tokens"]), salt=entry["salt"])


def page_stream(layout: PageLayout, *, label: str, counts: Sequence[int]) -> memoryview:
    """A stream whose every layer has one label."""
    parts = [encode_stream_header(layout.sha256, block_counts=counts)]
    for group, count in zip(layout.groups, counts, strict=True):
        parts += [
            _filler(f"{label}/{layer.name}", size=count * layer.bytes_per_page) for layer in group.layers
        ]
    return memoryview(b"".join(parts))


def growing_stream(layout: PageLayout, *, label: str, counts: Sequence[int], span: int) -> memoryview:
    """A stream whose pages in full groups stay the same when the span grows, and all others change."""
    parts = [encode_stream_header(layout.sha256, block_counts=counts)]
    for group, count in zip(layout.groups, counts, strict=True):
        for layer in group.layers:
            if group.reuse_policy is ReusePolicy.FULL:
                pages = range(count)
                parts += [
                    _filler(f"{label}/{layer.name}/page{page}", size=layer.bytes_per_page) for page in pages
                ]
            else:
                parts.append(_filler(f"{label}/{layer.name}/at{span}", size=count * layer.bytes_per_page))
    return memoryview(b"".join(parts))


def row_chunks(
    identity: CacheIdentity, *, label: str, start: int, end: int, row_bytes: dict[str, int]
) -> list[NewChunk]:
    """Chunks of rows from ``start`` to ``end``, each record with a label of its own."""
    chunks = []
    for first in range(start, end, identity.chunk_tokens):
        last = min(first + identity.chunk_tokens, end)
        owned = len(owned_positions(identity, start=first, end=last))
        rows = {
            kind: _filler(f"{label}/{kind}/{first}-{last}", size=owned * row_bytes[kind])
            for kind in ROW_KINDS
        }
        chunks.append(row_chunk(identity, start=first, end=last, rows=rows))
    return chunks


def _filler(label: str, *, size: int) -> bytes:
    return squeeze(label.encode("ascii"), byte_count=size)
