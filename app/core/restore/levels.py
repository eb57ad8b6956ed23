"""The streams of a page entry side by side, and which bytes of which of them a layer is made of.

Source: store-format §8.4, §8.7, §9.2, §11.2; restore-contract §9.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.core.errors import FormatError, Stage
from app.core.restore.heads import DeltaHead, SnapshotHead
from app.core.restore.plan import Piece, Source
from app.core.store.chunk import part_lengths
from app.core.store.snapshot import LayerSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One stream and what of it survives into the result.

    Attributes:
        starts: for each source the first stream byte that lies in it.
        byte_count: length of the stream.
        layer_starts: for each layer the stream byte its pages begin at.
        reused: for each group, the pages that come from the level before.
        counts: for each group, the pages there are once this level is applied.
    """

    sources: tuple[Source, ...]
    starts: tuple[int, ...]
    byte_count: int
    layer_starts: tuple[int, ...]
    reused: tuple[int, ...]
    counts: tuple[int, ...]


def place_stream(
    head: SnapshotHead | DeltaHead,
    *,
    byte_count: int,
    layer_starts: tuple[int, ...],
    reused: tuple[int, ...],
    counts: tuple[int, ...],
) -> Level:
    """Place a stream's bytes in its sources; those that were read must have the lengths this gives."""
    sources = head.sources
    if sources[0].content is None:
        sizes = tuple(source.descriptor.byte_count for source in sources)
    else:
        sizes = part_lengths(byte_count, parts=len(sources))
    *starts, end = accumulate(sizes, initial=0)
    read = tuple(size for (size,) in head.parts)
    if end != byte_count or read != sizes[: len(read)]:
        raise FormatError(
            sources[0].subject if end == byte_count else "stream",
            expected=f"parts of {byte_count} bytes of header and pages",
            found=f"{end} bytes, the first parts {', '.join(map(str, read))}",
            stage=Stage.HEADER,
        )
    return Level(
        sources=sources,
        starts=tuple(starts),
        byte_count=byte_count,
        layer_starts=layer_starts,
        reused=reused,
        counts=counts,
    )


def part_bytes(level: Level) -> Iterator[int]:
    ends = (*level.starts[1:], level.byte_count)
    return (end - start for start, end in zip(level.starts, ends, strict=True))


def cut_layers(levels: Sequence[Level], *, layers: Sequence[LayerSpan]) -> Iterator[Piece]:
    """Layer after layer: of each level those pages that every later level keeps, cut at object borders."""
    for layer in layers:
        for number, level in enumerate(levels):
            first = level.reused[layer.group]
            kept = [level.counts[layer.group], *(later.reused[layer.group] for later in levels[number + 1 :])]
            pages = min(kept) - first
            if pages > 0:
                yield from _cut(level, layer=layer, first_page=first, pages=pages)


def _cut(level: Level, *, layer: LayerSpan, first_page: int, pages: int) -> Iterator[Piece]:
    at = level.layer_starts[layer.index]
    end = at + pages * layer.bytes_per_page
    destination = first_page * layer.bytes_per_page
    number = bisect_right(level.starts, at) - 1
    while at < end:
        border = level.starts[number + 1] if number + 1 < len(level.starts) else level.byte_count
        count = min(end, border) - at
        if count > 0:
            yield Piece(
                source=level.sources[number].index,
                part=0,
                offset=at - level.starts[number],
                byte_count=count,
                destination=layer.index,
                destination_offset=destination,
            )
        at += count
        destination += count
        number += 1
