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
    layout, span_tokens = design_layout(bytes_per_rank)
    design = SnapshotDesign(
        layout=layout,
        span_tokens=span_tokens,
        stream_bytes=bytes_per_rank,
        ranks=ranks,
        object_bytes=object_bytes,
    )
    return publish_ranks(
        path,
        design=design,
        context_digest=prompt_digest(
            page_identity(layout, ranks=ranks, rank=0), span_tokens=span_tokens, seed=seed
        ),
        stream=lambda rank: stream_parts(layout, span_tokens=span_tokens, rank=rank, seed=seed),
        progress=progress,
        new_id=new_id,
    )


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
class SnapshotDesign:
    """What all ranks of a snapshot have in common; ``stream_bytes`` is the length of each one's stream."""

    layout: PageLayout
    span_tokens: int
    stream_bytes: int
    ranks: int
    object_bytes: int


def publish_ranks(
    path: Path,
    *,
    design: SnapshotDesign,
    context_digest: Digest,
    stream: Callable[[int], Iterator[memoryview]],
    progress: Callable[[int], None] | None = None,
    new_id: Callable[[], str] | None = None,
) -> SynthesizedSnapshot:
    """Publish a flat snapshot of every rank, ``rank0`` … below ``path``.

    Args:
        path: folder of the ranks' roots; equal content is adopted, different content is never overwritten.
        context_digest: of the prompt, equal on all ranks.
        stream: of a rank, in parts, header first.
        progress: told the bytes written so far, over all ranks.
        new_id: 32 hexadecimal characters nobody else uses, for temporary names; else from process and count.

    Raises:
        IntegrityError: something different exists already.
        ResourceError: the file system refused.
    """
    told, names = _Told(progress), new_id or numbered_names(os.getpid())
    roots = tuple(path / f"rank{rank}" for rank in range(design.ranks))
    identities = tuple(
        page_identity(design.layout, ranks=design.ranks, rank=rank) for rank in range(design.ranks)
    )
    published = tuple(
        publish_flat(
            root,
            identity=identities[rank],
            context_digest=context_digest,
            committed_tokens=design.span_tokens,
            object_bytes=design.object_bytes,
            batches=told.watch(
                fill(stream(rank), stream_bytes=design.stream_bytes, object_bytes=design.object_bytes)
            ),
            new_id=names,
        )
        for rank, root in enumerate(roots)
    )
    return SynthesizedSnapshot(
        path=path,
        context_digest=context_digest,
        layout=design.layout,
        span_tokens=design.span_tokens,
        bytes_per_rank=published[0].encoded_bytes,
        objects_per_rank=published[0].objects,
        roots=roots,
        identities=identities,
        published=published,
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
