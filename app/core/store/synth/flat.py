"""Make a valid tensor-parallel store of any size, so that every measurement can be repeated anywhere."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.core.digest import Digest
from app.core.errors import PlanError
from app.core.store.identity import CacheIdentity
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.snapshot import PageLayout
from app.core.store.synth.design import design_layout
from app.core.store.synth.inputs import numbered_names, page_identity, prompt_digest
from app.core.store.synth.pages import stream_parts
from app.core.store.writer import PublishedSnapshot, fill, publish_flat

# Object 0 must hold the header and a page byte; the header of every layout made here is shorter.
MIN_OBJECT_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesizedSnapshot:
    """What was made: one root per rank, ``rank0`` … below ``path``.

    Attributes:
        bytes_per_rank: encoded bytes of each rank's stream, over ``objects_per_rank`` objects.
        roots: rank-local roots, by rank.
        identities: by rank.
        published: what each rank's root now holds.
    """

    path: Path
    context_digest: Digest
    layout: PageLayout
    span_tokens: int
    bytes_per_rank: int
    objects_per_rank: int
    roots: tuple[Path, ...]
    identities: tuple[CacheIdentity, ...]
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
        bytes_per_rank: length of the stream, header included; all objects but the last have ``object_bytes``.
        seed: varies tokens and payload.
        progress: told the bytes written so far, over all ranks.
        new_id: 32 hexadecimal characters nobody else uses, for temporary names; else from process and count.

    Raises:
        PlanError: the size, the ranks or the object size are too small or too large.
        IntegrityError: something different exists already.
        ResourceError: the file system refused.
    """
    check_request(ranks=ranks, object_bytes=object_bytes)
    shape = _design(bytes_per_rank, ranks=ranks, object_bytes=object_bytes, seed=seed)
    told, names = _Told(progress), new_id or numbered_names(os.getpid())
    published = tuple(
        _synthesize_rank(path / f"rank{rank}", rank=rank, shape=shape, told=told, new_id=names)
        for rank in range(ranks)
    )
    return _snapshot(path, shape=shape, published=published)


def check_request(*, ranks: int, object_bytes: int) -> None:
    """Refuse what no store can be made of.

    Raises:
        PlanError: no rank, or an object size out of range.
    """
    if ranks < 1:
        raise PlanError("ranks", expected="at least 1", found=str(ranks))
    if not MIN_OBJECT_BYTES <= object_bytes <= MAX_OBJECT_BYTES:
        raise PlanError(
            "object size", expected=f"{MIN_OBJECT_BYTES} … {MAX_OBJECT_BYTES} bytes", found=str(object_bytes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What all ranks of a snapshot have in common."""

    layout: PageLayout
    span_tokens: int
    stream_bytes: int
    ranks: int
    object_bytes: int
    seed: int


def _design(bytes_per_rank: int, *, ranks: int, object_bytes: int, seed: int) -> _Shape:
    layout, span_tokens = design_layout(bytes_per_rank)
    return _Shape(
        layout=layout,
        span_tokens=span_tokens,
        stream_bytes=bytes_per_rank,
        ranks=ranks,
        object_bytes=object_bytes,
        seed=seed,
    )


def _snapshot(path: Path, *, shape: _Shape, published: tuple[PublishedSnapshot, ...]) -> SynthesizedSnapshot:
    ranks = range(shape.ranks)
    return SynthesizedSnapshot(
        path=path,
        context_digest=published[0].name.context_digest,
        layout=shape.layout,
        span_tokens=shape.span_tokens,
        bytes_per_rank=published[0].encoded_bytes,
        objects_per_rank=published[0].objects,
        roots=tuple(path / f"rank{rank}" for rank in ranks),
        identities=tuple(page_identity(shape.layout, ranks=shape.ranks, rank=rank) for rank in ranks),
        published=published,
    )


def _synthesize_rank(
    root: Path, *, rank: int, shape: _Shape, told: "_Told", new_id: Callable[[], str]
) -> PublishedSnapshot:
    identity = page_identity(shape.layout, ranks=shape.ranks, rank=rank)
    parts = stream_parts(shape.layout, span_tokens=shape.span_tokens, rank=rank, seed=shape.seed)
    batches = fill(parts, stream_bytes=shape.stream_bytes, object_bytes=shape.object_bytes)
    return publish_flat(
        root,
        identity=identity,
        context_digest=prompt_digest(identity, span_tokens=shape.span_tokens, seed=shape.seed),
        committed_tokens=shape.span_tokens,
        object_bytes=shape.object_bytes,
        batches=told.watch(batches),
        new_id=new_id,
    )


class _Told:
    """Adds up bytes over all ranks for the progress callback."""

    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self._progress = progress
        self._bytes = 0

    def add(self, byte_count: int) -> None:
        self._bytes += byte_count
        if self._progress is not None:
            self._progress(self._bytes)

    def watch(self, batches: Iterator[list[memoryview]]) -> Iterator[list[memoryview]]:
        """The batches; each is told once it is written, when the next one is asked for."""
        for batch in batches:
            yield batch
            self.add(sum(map(len, batch)))
