"""Every kind of page entry to pages per layer, in bounded memory (store-format §8.4, §9.2, §11.2).

Any page entry is a terminal base stream and a chain of delta stages, possibly none. A layer of the result is
the first pages of the base, then the first of those stage 1 adds, and so on: every stream is read once, in
order, and all of them side by side. Each block goes into the digest of every span it survives in, so that
each stage's result is made sure of, not only the last. Nothing is authentic before the iteration has ended.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from app.core.digest import Digest, RunningDigest
from app.core.errors import FormatError, Stage, shown
from app.core.store.delta_stream import LayerTail, verify_delta_header, verify_tails
from app.core.store.entry import Entry
from app.core.store.files import StoreFiles
from app.core.store.manifest import (
    DeltaStage,
    ExtentPayload,
    FlatSnapshotManifest,
    PageDeltaManifest,
    PageRoot,
    chain_of,
    terminal_base_of,
)
from app.core.store.page_streams import open_base, open_stage, page_root, require_digest
from app.core.store.snapshot import (
    LayerSpan,
    PageLayout,
    encode_stream_header,
    layer_spans,
    verify_stream_header,
)
from app.core.store.stored_stream import StoredStream


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBlock:
    """Bytes of one layer, page after page.

    Attributes:
        offset: of the first byte within the layer.
        memory: overwritten by the next block; copy what is to be kept.
    """

    layer: LayerSpan
    offset: int
    memory: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """One span of the chain and the stream that brings the pages the span before does not have.

    Attributes:
        counts: pages per group; the first ``reused`` of them come from the level before.
        stream_sha256: stated digest of ``stream``, where one is.
        tails: of a delta stream, per layer.
        base_sha256: stated digest of the span's base; ``result_sha256`` of the span itself.
        running: over the span's whole stream; the base's is that of ``stream``.
    """

    stream: StoredStream
    counts: tuple[int, ...]
    reused: tuple[int, ...]
    stream_sha256: Digest | None
    tails: tuple[LayerTail, ...] = ()
    base_sha256: Digest | None = None
    result_sha256: Digest | None = None
    running: RunningDigest | None = None

    @property
    def stated_sha256(self) -> Digest | None:
        """The digest this span's stream must have, where one is stated."""
        return self.stream_sha256 if self.running is None else self.result_sha256


class PageDecoding:
    """The pages of one entry, iterated once.

    Args:
        files: the root.
        entry: one that holds pages; it should have passed a lookup at level *full*, since a header is judged
            here when it is read, before the last byte of its object is.
        layout: of the serving runtime.

    Attributes:
        layers: destinations in stream order.
        stream_sha256: digest of the entry's encoded stream, once the iteration has ended.
    """

    def __init__(self, files: StoreFiles, *, entry: Entry, layout: PageLayout) -> None:
        self._files = files
        self._root = page_root(entry)
        self._layout = layout
        counts = layout.block_counts(self._root.committed_tokens)
        header = encode_stream_header(layout.sha256, block_counts=counts)
        self.layers = layer_spans(layout, block_counts=counts, header_bytes=len(header))
        self.stream_sha256: Digest | None = None

    def blocks(self) -> Iterator[PageBlock]:
        """All bytes of all layers in order; whoever reaches the end without an error has sound pages.

        Raises:
            FormatError: stage ``size`` or ``header``.
            IntegrityError: stage ``content``, ``header`` or ``stream``.
            ResourceError: out of descriptors or memory.
        """
        with ExitStack() as opened:
            levels = self._open_levels(opened)
            for layer in self.layers:
                yield from _layer_blocks(levels, layer=layer)
            self.stream_sha256 = _finish(levels)

    def _open_levels(self, opened: ExitStack) -> list[_Level]:
        """All headers, before the first page (store-format §8.4, §11.2)."""
        verify_page_layout(self._root, layout=self._layout)
        levels = [self._open_base(opened)]
        for index, stage in enumerate(chain_of(self._root)):
            levels.append(self._open_stage(opened, stage=stage, index=index, before=levels[-1]))
        return levels

    def _open_base(self, opened: ExitStack) -> _Level:
        base = terminal_base_of(self._root)
        counts = self._layout.block_counts(base.committed_tokens)
        header = encode_stream_header(self._layout.sha256, block_counts=counts)
        stream = open_base(self._files, base=base)
        opened.callback(stream.close)
        verify_stream_header(stream.take_bytes(min(len(header), stream.byte_count)), expected=header)
        _verify_length(stream, wanted=len(header) + self._layout.payload_bytes(block_counts=counts))
        stated: Digest | None = None
        if isinstance(base, FlatSnapshotManifest):
            _verify_object_0(base, header_bytes=len(header))
            stated = base.snapshot_sha256
        return _Level(stream=stream, counts=counts, reused=(0,) * len(counts), stream_sha256=stated)

    def _open_stage(self, opened: ExitStack, *, stage: DeltaStage, index: int, before: _Level) -> _Level:
        subject = f"delta stream {index}"
        stream, header = open_stage(self._files, stage=stage, identity=self._root.identity, subject=subject)
        opened.callback(stream.close)
        verify_delta_header(
            header,
            stage=stage,
            layout_sha256=self._layout.sha256,
            base_sha256=before.stated_sha256,
            subject=subject,
        )
        verify_tails(header, layout=self._layout, subject=subject)
        counts = stage.result.block_counts
        payload = stage.payload
        return _Level(
            stream=stream,
            counts=counts,
            reused=header.reused_pages,
            stream_sha256=payload.sha256 if isinstance(payload, ExtentPayload) else None,
            tails=header.tails,
            base_sha256=header.base_snapshot_sha256,
            result_sha256=header.result_snapshot_sha256,
            running=RunningDigest(encode_stream_header(self._layout.sha256, block_counts=counts)),
        )


def verify_page_layout(root: PageRoot, *, layout: PageLayout) -> None:
    """What a delta's document says of layout and counts is what the layout gives (store-format §11.1).

    Raises:
        FormatError: stage ``header``: another layout, or other counts.
    """
    if not isinstance(root, PageDeltaManifest):
        return
    if root.layout_sha256 != layout.sha256:
        raise FormatError(
            "root document.layout_sha256",
            expected=layout.sha256,
            found=root.layout_sha256,
            stage=Stage.HEADER,
        )
    chain = chain_of(root)
    for end in (chain[0].base, *(stage.result for stage in chain)):
        wanted = layout.block_counts(end.committed_tokens)
        if end.block_counts != wanted:
            raise FormatError(
                f"block counts at {end.committed_tokens} tokens",
                expected=shown(list(wanted)),
                found=shown(list(end.block_counts)),
                stage=Stage.HEADER,
            )


def _verify_length(stream: StoredStream, *, wanted: int) -> None:
    if stream.byte_count != wanted:
        raise FormatError(
            stream.subject,
            expected=f"{wanted} bytes of header and pages",
            found=f"{stream.byte_count} bytes",
            stage=Stage.HEADER,
        )


def _verify_object_0(base: FlatSnapshotManifest, *, header_bytes: int) -> None:
    """Object 0 holds the whole header and a page byte; legacy parts are exempt (store-format §8.4)."""
    found = base.objects[0].byte_count
    if found <= header_bytes:
        raise FormatError(
            "object 0",
            expected=f"the {header_bytes} header bytes and at least one more",
            found=f"{found} bytes",
            stage=Stage.HEADER,
        )


def _layer_blocks(levels: Sequence[_Level], *, layer: LayerSpan) -> Iterator[PageBlock]:
    """One layer's bytes: of each level those pages that every later level keeps."""
    for number, level in enumerate(levels):
        first = level.reused[layer.group]
        kept_to = _survival(levels[number:], layer=layer)
        at = first * layer.bytes_per_page
        tail = RunningDigest()
        for block in level.stream.take((level.counts[layer.group] - first) * layer.bytes_per_page):
            if level.tails:
                tail.update(block)
            kept = _spread(block, levels=levels[number:], kept_to=kept_to, at=at)
            if kept:
                yield PageBlock(layer=layer, offset=at, memory=kept)
            at += len(block)
        if level.tails:
            subject = f"{level.stream.subject} tail of {layer.name}"
            require_digest(tail.digest(), wanted=level.tails[layer.index].sha256, subject=subject)


def _survival(levels: Sequence[_Level], *, layer: LayerSpan) -> list[int]:
    """Up to which byte of the layer the pages of ``levels[0]`` are kept, by itself and each later level."""
    pages = levels[0].counts[layer.group]
    kept_to = [pages * layer.bytes_per_page]
    for later in levels[1:]:
        pages = min(pages, later.reused[layer.group])
        kept_to.append(pages * layer.bytes_per_page)
    return kept_to


def _spread(block: memoryview, *, levels: Sequence[_Level], kept_to: Sequence[int], at: int) -> memoryview:
    """Hash a block, which begins at byte ``at`` of its layer, into every span it is part of.

    Returns:
        What of it is part of the last span, possibly nothing.
    """
    kept = block
    for level, end in zip(levels, kept_to, strict=True):
        kept = block[: max(0, end - at)]
        if not kept:
            break
        if level.running is not None:
            level.running.update(kept)
    return kept


def _finish(levels: Sequence[_Level]) -> Digest | None:
    """Make sure of every stream and every span; returns the last span's digest (store-format §8.4, §11.2)."""
    found: Digest | None = None
    for level in levels:
        subject = level.stream.subject
        require_digest(found, wanted=level.base_sha256, subject=f"base of {subject}")
        stream = level.stream.finish()
        require_digest(stream, wanted=level.stream_sha256, subject=subject)
        found = stream if level.running is None else level.running.digest()
        require_digest(found, wanted=level.result_sha256, subject=f"result of {subject}")
    return found
