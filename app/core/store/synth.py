"""Make a valid tensor-parallel store of any size, so that every measurement can be repeated anywhere.

The stream is not random and not meant to be: one seeded block is repeated, and every page starts with a stamp
of its rank and number, so no two pages and no two ranks are equal while a core writes far over 300 MB/s.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from app.core.digest import Digest, sha256, squeeze
from app.core.errors import PlanError
from app.core.store.context import context_digest, salt_v3
from app.core.store.identity import BoundaryHiddenPolicy, CacheIdentity, DraftKvPolicy, RecordKind
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import (
    LayerSpan,
    PageGroup,
    PageLayer,
    PageLayout,
    ReusePolicy,
    encode_stream_header,
    layer_spans,
)
from app.core.store.writer import BATCH_OBJECTS, PublishedSnapshot, publish_flat

# Object 0 must hold the header and a page byte; the header of every layout made here is shorter.
MIN_OBJECT_BYTES = 512

_CHUNK_TOKENS = 256
_BLOCK_TOKENS = 64
_SLIDING_BLOCK_TOKENS = 32
_SLIDING_WINDOW_TOKENS = 129
_RECURRENT_BLOCK_TOKENS = 512
_VOCABULARY = 151_552
_BLOCK_BYTES = 1024 * 1024
# Rank, page number within the stream, part of the page; every page holds at least one stamp.
_STAMP = struct.Struct("<4sIQQ")
_STAMP_MAGIC = b"SYNT"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """How large a model the layout imitates: bytes per page of its parts, spans from small to large."""

    attention_bytes: int
    indexer_bytes: int
    sliding_bytes: int
    state_bytes: int
    spans_tokens: tuple[int, ...]


# Largest first. The first is a GLM-like TP4 shard: 576 and 132 bytes per token and layer.
_SCALES = (
    _Scale(
        attention_bytes=36_864,
        indexer_bytes=8_448,
        sliding_bytes=16_384,
        state_bytes=1_048_576,
        spans_tokens=(131_072, 65_536, 32_768, 16_384, 8_192, 4_096),
    ),
    _Scale(
        attention_bytes=1_536,
        indexer_bytes=640,
        sliding_bytes=512,
        state_bytes=8_192,
        spans_tokens=(16_384, 4_096, 1_024, 512),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedSnapshot:
    """What was made: one root per rank, ``rank0`` … below ``path``.

    Attributes:
        bytes_per_rank: encoded bytes of each rank's stream, over ``objects_per_rank`` objects.
        roots: rank-local roots, by rank.
        published: what each rank's root now holds.
    """

    path: Path
    context_digest: Digest
    layout: PageLayout
    span_tokens: int
    bytes_per_rank: int
    objects_per_rank: int
    roots: tuple[Path, ...]
    published: tuple[PublishedSnapshot, ...]


def synthesize_store(
    path: Path,
    *,
    ranks: int,
    bytes_per_rank: int,
    object_bytes: int = MAX_OBJECT_BYTES,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    new_id: Callable[[], str] | None = None,
) -> SynthesizedSnapshot:
    """Write a flat v2 snapshot of exactly ``bytes_per_rank`` encoded bytes for each rank.

    Args:
        path: folder of the ranks' roots; equal content is adopted, different content is never overwritten.
        ranks: tensor-parallel degree, ≥ 1.
        bytes_per_rank: length of the stream, header included.
        object_bytes: size of every object but the last.
        seed: varies tokens and payload.
        progress: told the bytes written so far, over all ranks.
        new_id: 32 hexadecimal characters nobody else uses, for temporary names; else from process and count.

    Raises:
        PlanError: the size, the ranks or the object size are too small or too large.
        IntegrityError: something different exists already.
        ResourceError: the file system refused.
    """
    _check_request(ranks=ranks, object_bytes=object_bytes)
    layout, span_tokens = design_layout(bytes_per_rank)
    context = _context(layout, span_tokens=span_tokens, ranks=ranks, seed=seed)
    told = _Told(progress)
    numbers = count()
    published = tuple(
        publish_flat(
            path / f"rank{rank}",
            identity=_identity(layout, ranks=ranks, rank=rank),
            context_digest=context,
            committed_tokens=span_tokens,
            object_bytes=object_bytes,
            batches=_batches(
                layout, span_tokens=span_tokens, rank=rank, seed=seed, object_bytes=object_bytes, told=told
            ),
            new_id=new_id or (lambda: f"{os.getpid():016x}{next(numbers):016x}"),
        )
        for rank in range(ranks)
    )
    return SynthesizedSnapshot(
        path=path,
        context_digest=context,
        layout=layout,
        span_tokens=span_tokens,
        bytes_per_rank=published[0].encoded_bytes,
        objects_per_rank=published[0].objects,
        roots=tuple(path / f"rank{rank}" for rank in range(ranks)),
        published=published,
    )


def design_layout(bytes_per_rank: int) -> tuple[PageLayout, int]:
    """A realistic layout and a span in tokens whose stream has exactly this many bytes, header included.

    Full attention takes most of it, one sliding layer and recurrent states take the rest; the last state's
    page size makes it exact.

    Raises:
        PlanError: fewer bytes than the smallest layout needs.
    """
    for scale in _SCALES:
        for span_tokens in scale.spans_tokens:
            layout = _fill(scale, span_tokens=span_tokens, bytes_per_rank=bytes_per_rank)
            if layout is not None:
                return layout, span_tokens
    raise PlanError("bytes per rank", expected=f"at least {minimum_bytes()}", found=str(bytes_per_rank))


def minimum_bytes() -> int:
    """The smallest stream ``design_layout`` can make, in bytes."""
    scale, span_tokens = _SCALES[-1], _SCALES[-1].spans_tokens[-1]
    smallest = _layout(scale, pairs=1, states=(_STAMP.size,))
    return _stream_bytes(smallest, span_tokens=span_tokens)


def _check_request(*, ranks: int, object_bytes: int) -> None:
    if ranks < 1:
        raise PlanError("ranks", expected="at least 1", found=str(ranks))
    if not MIN_OBJECT_BYTES <= object_bytes <= MAX_OBJECT_BYTES:
        raise PlanError(
            "object size", expected=f"{MIN_OBJECT_BYTES} … {MAX_OBJECT_BYTES} bytes", found=str(object_bytes)
        )


def _fill(scale: _Scale, *, span_tokens: int, bytes_per_rank: int) -> PageLayout | None:
    """As many pairs of full layers as leave room for states, then states; ``None`` if not even one fits."""
    blocks = span_tokens // _BLOCK_TOKENS
    pair_bytes = blocks * (scale.attention_bytes + scale.indexer_bytes)
    fixed = _stream_bytes(_layout(scale, pairs=1, states=(1,)), span_tokens=span_tokens) - 1 - pair_bytes
    room = bytes_per_rank - fixed
    pairs = (room - _STAMP.size) // pair_bytes
    if pairs < 1:
        return None
    rest = room - pairs * pair_bytes
    whole = max(0, (rest - _STAMP.size) // scale.state_bytes)
    states = (scale.state_bytes,) * whole + (rest - whole * scale.state_bytes,)
    return _layout(scale, pairs=pairs, states=states)


def _layout(scale: _Scale, *, pairs: int, states: tuple[int, ...]) -> PageLayout:
    full = [
        _layer(f"model.layers.{number:03}.self_attn.attn", size=scale.attention_bytes)
        for number in range(pairs)
    ]
    full += [
        _layer(f"model.layers.{number:03}.self_attn.indexer.k_cache", size=scale.indexer_bytes)
        for number in range(pairs)
    ]
    sliding = [_layer(f"model.layers.{pairs:03}.self_attn.attn", size=scale.sliding_bytes)]
    recurrent = [
        _layer(f"model.layers.{pairs + 1 + number:03}.linear_attn.state", size=size)
        for number, size in enumerate(states)
    ]
    return PageLayout(
        groups=(
            _group(_BLOCK_TOKENS, policy=ReusePolicy.FULL, layers=full),
            _group(_SLIDING_BLOCK_TOKENS, policy=ReusePolicy.SLIDING, layers=sliding),
            _group(_RECURRENT_BLOCK_TOKENS, policy=ReusePolicy.RECURRENT_ALIGN, layers=recurrent),
        )
    )


def _group(block_tokens: int, *, policy: ReusePolicy, layers: list[PageLayer]) -> PageGroup:
    return PageGroup(
        block_size=block_tokens,
        reuse_policy=policy,
        reuse_window_tokens=_SLIDING_WINDOW_TOKENS if policy is ReusePolicy.SLIDING else None,
        layers=tuple(sorted(layers, key=lambda layer: layer.name)),
    )


def _layer(name: str, *, size: int) -> PageLayer:
    return PageLayer(name=name, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)


def _header(layout: PageLayout, *, span_tokens: int) -> bytes:
    return encode_stream_header(layout.sha256, block_counts=layout.block_counts(span_tokens))


def _stream_bytes(layout: PageLayout, *, span_tokens: int) -> int:
    counts = layout.block_counts(span_tokens)
    return len(_header(layout, span_tokens=span_tokens)) + layout.payload_bytes(block_counts=counts)


def _identity(layout: PageLayout, *, ranks: int, rank: int) -> CacheIdentity:
    return CacheIdentity(
        target_checkpoint=sha256(b"sparkgate synthetic target checkpoint"),
        draft_checkpoint=sha256(b"sparkgate synthetic draft checkpoint"),
        quantization_layout=f"sparkgate-synthetic-pages-v1:{layout.sha256}",
        rope_layout="sparkgate-synthetic-rope-v1",
        tp_degree=ranks,
        dcp_degree=1,
        cp_kv_cache_interleave_size=1,
        chunk_tokens=_CHUNK_TOKENS,
        dcp_shard_rank=0,
        tp_shard_rank=rank,
        boundary_hidden_policy=BoundaryHiddenPolicy.LIVE_FORWARD,
        draft_kv_policy=DraftKvPolicy.COLOCATED_TARGET,
        record_schema=(RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS),
    )


def _context(layout: PageLayout, *, span_tokens: int, ranks: int, seed: int) -> Digest:
    tokens = [(index * 7919 + 12345 + seed) % _VOCABULARY for index in range(span_tokens)]
    return context_digest(tokens, salt=salt_v3(_identity(layout, ranks=ranks, rank=0)))


class _Told:
    """Adds up bytes over all ranks for the progress callback."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._bytes = 0

    def add(self, byte_count: int) -> None:
        self._bytes += byte_count
        if self._progress is not None:
            self._progress(self._bytes)


def _batches(
    layout: PageLayout, *, span_tokens: int, rank: int, seed: int, object_bytes: int, told: _Told
) -> Iterator[list[memoryview]]:
    """The stream in pairs of objects, in buffers that are used again for the next pair."""
    buffers = [bytearray(object_bytes) for _ in range(BATCH_OBJECTS)]
    batch: list[memoryview] = []
    used = 0
    for part in _stream(layout, span_tokens=span_tokens, rank=rank, seed=seed):
        taken = 0
        while taken < len(part):
            target = buffers[len(batch)]
            size = min(object_bytes - used, len(part) - taken)
            target[used : used + size] = part[taken : taken + size]
            used += size
            taken += size
            if used == object_bytes:
                batch.append(memoryview(target))
                used = 0
            if len(batch) == BATCH_OBJECTS:
                yield batch
                told.add(object_bytes * BATCH_OBJECTS)
                batch = []
    if used:
        batch.append(memoryview(buffers[len(batch)])[:used])
    if batch:
        yield batch
        told.add(sum(map(len, batch)))


def _stream(layout: PageLayout, *, span_tokens: int, rank: int, seed: int) -> Iterator[memoryview]:
    header = _header(layout, span_tokens=span_tokens)
    yield memoryview(header)
    block = memoryview(squeeze(f"sparkgate synthetic block {seed}/{rank}".encode(), byte_count=_BLOCK_BYTES))
    counts = layout.block_counts(span_tokens)
    number = 0
    for span in layer_spans(layout, block_counts=counts, header_bytes=len(header)):
        for _ in range(span.pages):
            yield from _page(span, block=block, rank=rank, number=number)
            number += 1


def _page(span: LayerSpan, *, block: memoryview, rank: int, number: int) -> Iterator[memoryview]:
    """One page: a stamp, then the block from where the page number says; again for every further block."""
    left, part = span.bytes_per_page, 0
    while left:
        stamp = _STAMP.pack(_STAMP_MAGIC, rank, number, part)[:left]
        yield memoryview(stamp)
        left -= len(stamp)
        start = (number * 4_099) % (_BLOCK_BYTES // 2)
        body = block[start : start + left]
        yield body
        left -= len(body)
        part += 1
