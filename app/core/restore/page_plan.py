"""Every kind of page entry: which bytes of which stream are a layer's, before and after headers are read.

Source: restore-contract §3 (flat), §9 (deltas); store-format §8.4 – §8.7, §9.2, §11.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.core.digest import Digest
from app.core.errors import FormatError
from app.core.restore.content import StreamChunk
from app.core.restore.heads import DeltaHead, SnapshotHead
from app.core.restore.levels import Level, cut_layers, part_bytes, place_stream
from app.core.restore.plan import (
    CheckedStream,
    Filling,
    RangeDigest,
    RestoreLimits,
    Schedule,
    Source,
    fill_packed,
    fill_whole_objects,
    group_batches,
    require_object_sizes,
)
from app.core.restore.schedule import Reads, assign_reads
from app.core.store.decode import verify_page_layout
from app.core.store.delta_stream import DeltaHeader, verify_delta_header, verify_tails
from app.core.store.entry import FileDescriptor
from app.core.store.identity import CacheIdentity
from app.core.store.manifest import (
    ChunkDescriptor,
    ChunkPayload,
    DeltaStage,
    ExtentPayload,
    FlatSnapshotManifest,
    PageRoot,
    chain_of,
    terminal_base_of,
)
from app.core.store.objects import subject_of
from app.core.store.snapshot import LayerSpan, PageLayout, encode_stream_header, layer_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """One rank's restore before the first object is opened.

    Attributes:
        header: the only bytes the result's stream may start with.
        block_counts: pages per layer for each group.
        layers: destinations in stream order.
        base: head of the terminal base's stream; ``stages`` those of the delta streams, in order.
        sources: every object of the entry, those of the base first.
    """

    root: PageRoot
    layout: PageLayout
    limits: RestoreLimits
    header: bytes
    block_counts: tuple[int, ...]
    layers: tuple[LayerSpan, ...]
    base: SnapshotHead
    stages: tuple[DeltaHead, ...]
    sources: tuple[Source, ...]

    @property
    def heads(self) -> tuple[SnapshotHead | DeltaHead, ...]:
        """What must be read before a schedule can be made."""
        return (self.base, *self.stages)

    @property
    def flat(self) -> FlatSnapshotManifest | None:
        """The root document, where it is the simple case: one stream of extents, placed whole."""
        return self.root if isinstance(self.root, FlatSnapshotManifest) else None

    @property
    def beside_head(self) -> Source | None:
        """What may be read while object 0 is made sure of: a flat snapshot's object 1 (decision 0006)."""
        return self.sources[1] if self.flat is not None and len(self.sources) > 1 else None

    @property
    def payload_bytes(self) -> int:
        """Bytes of all pages."""
        return self.layout.payload_bytes(block_counts=self.block_counts)

    @property
    def early_streams(self) -> tuple[CheckedStream, ...]:
        """Streams whose digests can begin before any header is known: a flat snapshot's (§8)."""
        if self.flat is None:
            return ()
        return (CheckedStream(whole=_whole(self.flat.snapshot_sha256, byte_count=self.flat.encoded_bytes)),)

    def schedule(self, *, held: Collection[int], digested: Collection[int]) -> Schedule:
        """What to read, copy and submit, now that the heads have been read.

        Args:
            held: sources whose buffers were kept.
            digested: sources that were given to the digest of stream 0 already.

        Raises:
            FormatError: stage ``header``: the headers do not form the chain the root document names.
        """
        headers = _verify_chain(self)
        levels = self._levels(headers)
        pieces = cut_layers(levels, layers=self.layers)
        reads = Reads(
            sources=self.sources,
            part_bytes=[(size,) for level in levels for size in part_bytes(level)],
            stream_of=self._stream_of(),
            held=held,
            digested=digested,
            limits=self.limits,
        )
        if self.flat is not None:
            fillings = fill_whole_objects(pieces, sources=self.sources, limits=self.limits)
            batches = group_batches(fillings, sources=self.sources, limits=self.limits)
            return self._schedule(
                fillings, batches=batches, reads=reads, streams=self.early_streams, result=None
            )
        fillings = fill_packed(pieces, sources=self.sources, limits=self.limits)
        alone = tuple((number,) for number in range(len(fillings)))
        streams = self._streams(headers, levels=levels)
        result = len(streams) - 1 if headers else None
        return self._schedule(fillings, batches=alone, reads=reads, streams=streams, result=result)

    def _schedule(
        self,
        fillings: Sequence[Filling],
        *,
        batches: tuple[tuple[int, ...], ...],
        reads: Reads,
        streams: tuple[CheckedStream, ...],
        result: int | None,
    ) -> Schedule:
        submissions = assign_reads(fillings, reads=reads, stream=result)
        return Schedule(
            layout=self.layout,
            block_counts=self.block_counts,
            layers=self.layers,
            batches=tuple(tuple(submissions[number] for number in batch) for batch in batches),
            streams=streams,
            source_bytes=sum(filling.used_bytes for filling in fillings),
            payload_bytes=self.payload_bytes,
            object_count=len({take.fetch.source.index for one in submissions for take in one.takes}),
        )

    def _levels(self, headers: Sequence[DeltaHeader]) -> list[Level]:
        counts = self.layout.block_counts(terminal_base_of(self.root).committed_tokens)
        spans = layer_spans(self.layout, block_counts=counts, header_bytes=len(self.base.expected))
        levels = [
            place_stream(
                self.base,
                byte_count=spans[-1].end,
                layer_starts=tuple(span.start for span in spans),
                reused=(0,) * len(counts),
                counts=counts,
            )
        ]
        for head, header in zip(self.stages, headers, strict=True):
            sizes = [tail.byte_count for tail in header.tails]
            *starts, end = accumulate(sizes, initial=head.header_bytes)
            levels.append(
                place_stream(
                    head,
                    byte_count=end,
                    layer_starts=tuple(starts),
                    reused=header.reused_pages,
                    counts=header.result_block_counts,
                )
            )
        return levels

    def _stream_of(self) -> dict[int, int]:
        """Which sources go into which digest; a flat base below deltas states none that is needed (§9)."""
        heads = self.heads
        if self.stages and isinstance(terminal_base_of(self.root), FlatSnapshotManifest):
            heads = self.stages
        elif not self.stages and self.flat is None:
            return {}
        return {source.index: number for number, head in enumerate(heads) for source in head.sources}

    def _streams(
        self, headers: Sequence[DeltaHeader], *, levels: Sequence[Level]
    ) -> tuple[CheckedStream, ...]:
        """In the order of ``_stream_of``: a legacy base, the delta streams; then the result."""
        if not headers:
            return ()
        streams: list[CheckedStream] = []
        if not isinstance(terminal_base_of(self.root), FlatSnapshotManifest):
            base = headers[0].base_snapshot_sha256
            whole = _whole(base, byte_count=levels[0].byte_count, subject="base of delta stream 0")
            streams.append(CheckedStream(whole=whole))
        for head, stage, header, level in zip(
            self.stages, chain_of(self.root), headers, levels[1:], strict=True
        ):
            streams.append(_delta_stream(head, stage=stage, header=header, level=level))
        result = _whole(
            headers[-1].result_snapshot_sha256,
            byte_count=len(self.header) + self.payload_bytes,
            subject=f"result of {self.stages[-1].subject}",
        )
        return (*streams, CheckedStream(whole=result, prefix=self.header))


def plan_restore(root: PageRoot, *, layout: PageLayout, limits: RestoreLimits | None = None) -> PagePlan:
    """Plan the restore of a page entry of any kind into pages of ``layout``.

    Raises:
        FormatError: the entry cannot be one of this layout (length, counts, header outside object 0), or is
            longer than the operator allows (store-format §8.4, §11.1, §19).
        PlanError: an object larger than a buffer, or, in a flat snapshot, than an arena.
    """
    limits = limits or RestoreLimits()
    verify_page_layout(root, layout=layout)
    base = terminal_base_of(root)
    counts = layout.block_counts(base.committed_tokens)
    header = encode_stream_header(layout.sha256, block_counts=counts)
    if isinstance(base, FlatSnapshotManifest):
        _check_length(base, pages_bytes=layout.payload_bytes(block_counts=counts), header=header)
    streams = list(_sources(root))
    sources = tuple(source for stream in streams for source in stream)
    _check_sizes(sources, limits=limits, is_flat=isinstance(root, FlatSnapshotManifest))
    result = layout.block_counts(root.committed_tokens)
    result_header = encode_stream_header(layout.sha256, block_counts=result)
    return PagePlan(
        root=root,
        layout=layout,
        limits=limits,
        header=result_header,
        block_counts=result,
        layers=layer_spans(layout, block_counts=result, header_bytes=len(result_header)),
        base=SnapshotHead(sources=streams[0], expected=header),
        stages=tuple(_delta_head(stream, number=number) for number, stream in enumerate(streams[1:])),
        sources=sources,
    )


def _check_length(base: FlatSnapshotManifest, *, pages_bytes: int, header: bytes) -> None:
    if base.encoded_bytes != len(header) + pages_bytes:
        raise FormatError(
            "root document.snapshot_encoded_bytes",
            expected=f"{len(header)} header + {pages_bytes} page bytes, as layout and span demand",
            found=f"{base.encoded_bytes} bytes",
        )
    first = base.objects[0].byte_count
    if first <= len(header):
        raise FormatError(
            "object 0",
            expected=f"the {len(header)} header bytes and at least one more",
            found=f"{first} bytes",
        )


def _check_sizes(sources: Sequence[Source], *, limits: RestoreLimits, is_flat: bool) -> None:
    total = sum(source.descriptor.byte_count for source in sources)
    if total > limits.snapshot_bytes:
        raise FormatError(
            "entry",
            expected=f"at most the operator's limit of {limits.snapshot_bytes} bytes",
            found=str(total),
        )
    largest = min(limits.object_bytes, limits.batch_bytes)
    if is_flat:
        largest = min(largest, limits.arena_bytes)
    takers = "an arena and a buffer take" if is_flat else "a buffer takes"
    require_object_sizes(sources, largest=largest, takers=takers)


def _sources(root: PageRoot) -> Iterator[tuple[Source, ...]]:
    """The objects of every stream, numbered through."""
    base = terminal_base_of(root)
    streams: list[Sequence[FileDescriptor]] = [
        base.objects if isinstance(base, FlatSnapshotManifest) else base.chunks
    ]
    for stage in chain_of(root):
        payload = stage.payload
        streams.append(payload.chunks if isinstance(payload, ChunkPayload) else payload.objects)
    number = 0
    for descriptors in streams:
        yield tuple(
            _source(item, number=number + index, index=index, identity=root.identity)
            for index, item in enumerate(descriptors)
        )
        number += len(descriptors)


def _source(descriptor: FileDescriptor, *, number: int, index: int, identity: CacheIdentity) -> Source:
    content = None
    if isinstance(descriptor, ChunkDescriptor):
        content = StreamChunk(descriptor=descriptor, identity=identity)
    return Source(
        index=number,
        descriptor=descriptor,
        subject=subject_of(descriptor, index=index),
        content=content,
    )


def _delta_head(sources: tuple[Source, ...], *, number: int) -> DeltaHead:
    """A header lies in object 0; below chunks, whose parts end anywhere, in the whole stream (§20.6)."""
    reaching = sources[:1] if sources[0].content is None else sources
    reach = sum(source.descriptor.byte_count for source in reaching)
    return DeltaHead(sources=sources, subject=f"delta stream {number}", reach=reach)


def _verify_chain(plan: PagePlan) -> list[DeltaHeader]:
    """Every delta fits its stage, the layout, and the stream before it (restore-contract §9)."""
    base = terminal_base_of(plan.root)
    before: Digest | None = base.snapshot_sha256 if isinstance(base, FlatSnapshotManifest) else None
    headers = []
    for head, stage in zip(plan.stages, chain_of(plan.root), strict=True):
        header = head.header
        if header is None:
            raise RuntimeError(f"{head.subject}: scheduled before its header was read")
        verify_delta_header(
            header, stage=stage, layout_sha256=plan.layout.sha256, base_sha256=before, subject=head.subject
        )
        verify_tails(header, layout=plan.layout, subject=head.subject)
        before = header.result_snapshot_sha256
        headers.append(header)
    return headers


def _delta_stream(head: DeltaHead, *, stage: DeltaStage, header: DeltaHeader, level: Level) -> CheckedStream:
    """A delta stream's stated digest, and one for each of its tails (restore-contract §9)."""
    payload = stage.payload
    whole = None
    if isinstance(payload, ExtentPayload):
        whole = _whole(payload.sha256, byte_count=level.byte_count, subject=head.subject)
    tails = tuple(
        RangeDigest(
            start=start,
            end=start + tail.byte_count,
            sha256=tail.sha256,
            subject=f"{head.subject} tail of {tail.name}",
        )
        for start, tail in zip(level.layer_starts, header.tails, strict=True)
    )
    return CheckedStream(whole=whole, tails=tails)


def _whole(sha256: Digest, *, byte_count: int, subject: str = "stream") -> RangeDigest:
    return RangeDigest(start=0, end=byte_count, sha256=sha256, subject=subject)
