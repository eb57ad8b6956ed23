"""Make a store whose pages are real attention state, and the question that they answer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.core.digest import Digest, squeeze
from app.core.errors import PlanError
from app.core.oracle.attention import prompt
from app.core.oracle.pages import OraclePages
from app.core.oracle.question import DTYPE_BYTES, OracleQuestion
from app.core.store.context import context_digest, salt_v3
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import PageLayer, PageLayout
from app.core.store.synth import SynthesizedSnapshot
from app.core.store.synth.design import BLOCK_TOKENS, design_layout, minimum_bytes
from app.core.store.synth.flat import SnapshotDesign, check_request, publish_ranks
from app.core.store.synth.inputs import page_identity

KEY_LAYER: Final = "model.layers.000.oracle_attn.k_cache"
VALUE_LAYER: Final = "model.layers.000.oracle_attn.v_cache"
WORDS: Final = ("red", "blue", "green", "black", "white", "spark")

_HEADS_PER_RANK: Final = 2
_HEAD_DIM: Final = 64
_DTYPE: Final = "float16"
_ROPE_BASE: Final = 10_000
# Marks of neighbouring lines score 0.44 of one in phase at most: with this a hundredth of a millionth of it.
_SHARPNESS: Final = 6
_WINDOW_TOKENS: Final = 1_024
_GENERATION: Final = 1
_NO_DIGEST: Final = Digest("0" * 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedOracle:
    """A snapshot that was made, and the question whose answer lies in its pages."""

    snapshot: SynthesizedSnapshot
    question: OracleQuestion


def synthesize_oracle(
    path: Path,
    *,
    ranks: int,
    bytes_per_rank: int | None = None,
    object_bytes: int = MAX_OBJECT_BYTES,
    seed: int = 0,
    dtype: str = _DTYPE,
    progress: Callable[[int], None] | None = None,
    new_id: Callable[[], str] | None = None,
) -> SynthesizedOracle:
    """Write a flat v2 snapshot for each rank with keys and values of one attention layer in it.

    Args:
        path: folder of the ranks' roots; equal content is adopted, different content is never overwritten.
        ranks: tensor-parallel degree, ≥ 1; each holds two heads.
        bytes_per_rank: length of the stream, header included, met exactly; else the least possible.
        object_bytes: size of every object but the last.
        seed: of prompt, weights and filler.
        dtype: of keys and values.
        progress: told the bytes written so far, over all ranks.
        new_id: as for ``publish_ranks``.

    Raises:
        PlanError: the size, the ranks, the seed or the object size are too small or too large.
        IntegrityError: something different exists already.
        ResourceError: the file system refused.
    """
    check_request(ranks=ranks, object_bytes=object_bytes)
    if not 0 <= seed < 2**63:
        raise PlanError("seed", expected="0 … 2^63 - 1", found=str(seed))
    layers = oracle_layers(dtype)
    stream_bytes = least_bytes(dtype) if bytes_per_rank is None else bytes_per_rank
    layout, span_tokens = design_layout(stream_bytes, beside=layers)
    question = pose_question(layout, span_tokens=span_tokens, ranks=ranks, seed=seed, dtype=dtype)
    design = SnapshotDesign(
        layout=layout,
        span_tokens=span_tokens,
        stream_bytes=stream_bytes,
        ranks=ranks,
        object_bytes=object_bytes,
    )
    snapshot = publish_ranks(
        path,
        design=design,
        context_digest=question.context_digest,
        stream=lambda rank: OraclePages(question, rank=rank).stream(layout),
        progress=progress,
        new_id=new_id,
    )
    return SynthesizedOracle(snapshot=snapshot, question=question)


def least_bytes(dtype: str = _DTYPE) -> int:
    """The shortest stream ``synthesize_oracle`` can make, in bytes.

    Raises:
        PlanError: a page cannot hold such numbers.
    """
    return minimum_bytes(beside=oracle_layers(dtype))


def oracle_layers(dtype: str = _DTYPE) -> tuple[PageLayer, ...]:
    """The layers with keys and values, as they stand in a layout.

    Raises:
        PlanError: a page cannot hold such numbers.
    """
    if dtype not in DTYPE_BYTES:
        raise PlanError("dtype", expected=" or ".join(DTYPE_BYTES), found=dtype)
    shape = (BLOCK_TOKENS, _HEADS_PER_RANK, _HEAD_DIM)
    size = BLOCK_TOKENS * _HEADS_PER_RANK * _HEAD_DIM * DTYPE_BYTES[dtype]
    return tuple(
        PageLayer(name=name, dtype=f"torch.{dtype}", page_shape=shape, bytes_per_page=size)
        for name in (KEY_LAYER, VALUE_LAYER)
    )


def pose_question(
    layout: PageLayout, *, span_tokens: int, ranks: int, seed: int, dtype: str = _DTYPE
) -> OracleQuestion:
    """The question of a seed about a layout that has the oracle's two layers.

    Raises:
        FormatError: the geometry is out of range.
    """
    drawn = squeeze(f"sparkgate oracle question {seed}".encode(), byte_count=8)
    lines = span_tokens // BLOCK_TOKENS
    unnamed = OracleQuestion(
        context_digest=_NO_DIGEST,
        layout_sha256=layout.sha256,
        span_tokens=span_tokens,
        block_tokens=BLOCK_TOKENS,
        seed=seed,
        generation=_GENERATION,
        ranks=ranks,
        heads=_HEADS_PER_RANK * ranks,
        head_dim=_HEAD_DIM,
        dtype=dtype,
        key_layer=KEY_LAYER,
        value_layer=VALUE_LAYER,
        rope_base=_ROPE_BASE,
        sharpness=_SHARPNESS,
        window_tokens=_WINDOW_TOKENS,
        mark_offset=int.from_bytes(drawn[:4], "little") % BLOCK_TOKENS,
        needle_line=int.from_bytes(drawn[4:], "little") % lines,
        words=WORDS,
        expected="red",
        control="blue",
        fallback="spark",
    )
    salt = salt_v3(page_identity(layout, ranks=ranks, rank=0))
    tokens = [int(token) for token in prompt(unnamed, word=unnamed.expected)]
    return replace(unnamed, context_digest=context_digest(tokens, salt=salt))
