"""Page streams, made as fast as they are written: one seeded block again and again, a stamp on each page.

No two pages and no two ranks are equal, except where a longer span keeps a shorter one's pages.
"""

import struct
from collections.abc import Iterator

from app.core.digest import squeeze
from app.core.store.snapshot import (
    PageLayout,
    ReusePolicy,
    encode_stream_header,
    layer_spans,
)

_BLOCK_BYTES = 1024 * 1024
# Rank, page number, part of the page; every page holds at least one stamp.
_STAMP = struct.Struct("<4sIQQ")
_STAMP_MAGIC = b"SYNT"
STAMP_BYTES = _STAMP.size
# Room for a layer's pages, and above it for its place and for the span that a page belongs to.
_LAYER_SHIFT = 24
_SPAN_SHIFT = 40


def stream_parts(layout: PageLayout, *, span_tokens: int, rank: int, seed: int) -> Iterator[memoryview]:
    """The encoded stream of a span in parts, its pages numbered through."""
    header = _header(layout, span_tokens=span_tokens)
    yield memoryview(header)
    block = filler_block(rank=rank, seed=seed)
    counts = layout.block_counts(span_tokens)
    number = 0
    for span in layer_spans(layout, block_counts=counts, header_bytes=len(header)):
        for _ in range(span.pages):
            yield from filler_page(block, rank=rank, number=number, byte_count=span.bytes_per_page)
            number += 1


def growing_stream(layout: PageLayout, *, span_tokens: int, rank: int, seed: int) -> memoryview:
    """The encoded stream of a span, in memory, whose full groups keep their pages in any longer span."""
    header = _header(layout, span_tokens=span_tokens)
    parts: list[bytes | memoryview] = [header]
    block = filler_block(rank=rank, seed=seed)
    counts = layout.block_counts(span_tokens)
    for span in layer_spans(layout, block_counts=counts, header_bytes=len(header)):
        kept = layout.groups[span.group].reuse_policy is ReusePolicy.FULL
        first = (span.index << _LAYER_SHIFT) + (0 if kept else span_tokens << _SPAN_SHIFT)
        for page in range(span.pages):
            parts += filler_page(block, rank=rank, number=first + page, byte_count=span.bytes_per_page)
    return memoryview(b"".join(parts))


def filler_block(*, rank: int, seed: int) -> memoryview:
    """The bytes that a rank's pages are cut from."""
    return memoryview(squeeze(f"sparkgate synthetic block {seed}/{rank}".encode(), byte_count=_BLOCK_BYTES))


def filler_page(block: memoryview, *, rank: int, number: int, byte_count: int) -> Iterator[memoryview]:
    """One page: a stamp, then the block from where the page number says; again for every further block."""
    left, part = byte_count, 0
    while left:
        stamp = _STAMP.pack(_STAMP_MAGIC, rank, number, part)[:left]
        yield memoryview(stamp)
        left -= len(stamp)
        start = (number * 4_099) % (_BLOCK_BYTES // 2)
        body = block[start : start + left]
        yield body
        left -= len(body)
        part += 1


def _header(layout: PageLayout, *, span_tokens: int) -> bytes:
    return encode_stream_header(layout.sha256, block_counts=layout.block_counts(span_tokens))
