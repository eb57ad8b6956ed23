"""Page layouts that look real and whose stream has exactly the bytes that are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.errors import PlanError
from app.core.store.snapshot import (
    PageGroup,
    PageLayer,
    PageLayout,
    ReusePolicy,
    encode_stream_header,
)
from app.core.store.synth.pages import STAMP_BYTES

BLOCK_TOKENS = 64
_SLIDING_BLOCK_TOKENS = 32
_SLIDING_WINDOW_TOKENS = 129
_RECURRENT_BLOCK_TOKENS = 512


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


def design_layout(bytes_per_rank: int, *, beside: Sequence[PageLayer] = ()) -> tuple[PageLayout, int]:
    """A realistic layout and a span in tokens whose stream has exactly this many bytes, header included.

    Full attention takes most of it, one sliding layer and recurrent states take the rest; the last state's
    page size makes it exact.

    Args:
        bytes_per_rank: length of the stream.
        beside: layers that must be in the group of full attention too, whose blocks have ``BLOCK_TOKENS``.

    Raises:
        PlanError: fewer bytes than the smallest layout needs.
    """
    for scale in _SCALES:
        for span_tokens in scale.spans_tokens:
            layout = _fill(scale, span_tokens=span_tokens, bytes_per_rank=bytes_per_rank, beside=beside)
            if layout is not None:
                return layout, span_tokens
    least = minimum_bytes(beside=beside)
    raise PlanError("bytes per rank", expected=f"at least {least}", found=str(bytes_per_rank))


def minimum_bytes(*, beside: Sequence[PageLayer] = ()) -> int:
    """The smallest stream ``design_layout`` can make, in bytes."""
    scale, span_tokens = _SCALES[-1], _SCALES[-1].spans_tokens[-1]
    smallest = _layout(scale, pairs=1, states=(STAMP_BYTES,), beside=beside)
    return stream_bytes(smallest, span_tokens=span_tokens)


def stream_bytes(layout: PageLayout, *, span_tokens: int) -> int:
    """Length of a span's encoded stream, header included."""
    counts = layout.block_counts(span_tokens)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    return len(header) + layout.payload_bytes(block_counts=counts)


def _fill(
    scale: _Scale, *, span_tokens: int, bytes_per_rank: int, beside: Sequence[PageLayer]
) -> PageLayout | None:
    """As many pairs of full layers as leave room for states, then states; ``None`` if not even one fits."""
    blocks = span_tokens // BLOCK_TOKENS
    pair_bytes = blocks * (scale.attention_bytes + scale.indexer_bytes)
    one = _layout(scale, pairs=1, states=(1,), beside=beside)
    fixed = stream_bytes(one, span_tokens=span_tokens) - 1 - pair_bytes
    room = bytes_per_rank - fixed
    pairs = (room - STAMP_BYTES) // pair_bytes
    if pairs < 1:
        return None
    rest = room - pairs * pair_bytes
    whole = max(0, (rest - STAMP_BYTES) // scale.state_bytes)
    states = (scale.state_bytes,) * whole + (rest - whole * scale.state_bytes,)
    return _layout(scale, pairs=pairs, states=states, beside=beside)


def _layout(scale: _Scale, *, pairs: int, states: tuple[int, ...], beside: Sequence[PageLayer]) -> PageLayout:
    full = [*beside, *_pairs(scale, pairs=pairs)]
    sliding = [_layer(f"model.layers.{pairs:03}.self_attn.attn", size=scale.sliding_bytes)]
    recurrent = [
        _layer(f"model.layers.{pairs + 1 + number:03}.linear_attn.state", size=size)
        for number, size in enumerate(states)
    ]
    return PageLayout(
        groups=(
            _group(BLOCK_TOKENS, policy=ReusePolicy.FULL, layers=full),
            _group(_SLIDING_BLOCK_TOKENS, policy=ReusePolicy.SLIDING, layers=sliding),
            _group(_RECURRENT_BLOCK_TOKENS, policy=ReusePolicy.RECURRENT_ALIGN, layers=recurrent),
        )
    )


def _pairs(scale: _Scale, *, pairs: int) -> list[PageLayer]:
    attention = [
        _layer(f"model.layers.{number:03}.self_attn.attn", size=scale.attention_bytes)
        for number in range(pairs)
    ]
    return attention + [
        _layer(f"model.layers.{number:03}.self_attn.indexer.k_cache", size=scale.indexer_bytes)
        for number in range(pairs)
    ]


def _group(block_tokens: int, *, policy: ReusePolicy, layers: list[PageLayer]) -> PageGroup:
    return PageGroup(
        block_size=block_tokens,
        reuse_policy=policy,
        reuse_window_tokens=_SLIDING_WINDOW_TOKENS if policy is ReusePolicy.SLIDING else None,
        layers=tuple(sorted(layers, key=lambda layer: layer.name)),
    )


def _layer(name: str, *, size: int) -> PageLayer:
    return PageLayer(name=name, dtype="torch.uint8", page_shape=(1, size), bytes_per_page=size)
