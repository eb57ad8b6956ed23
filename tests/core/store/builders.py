"""Entries of every kind, made in memory from nothing but bytes, and strategies that vary them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from app.core.digest import Digest, sha256, squeeze
from app.core.store.chunk import encode_chunk, encode_positions, owned_positions, part_lengths
from app.core.store.delta_stream import DeltaHeader, LayerTail, encode_delta_header
from app.core.store.identity import (
    BoundaryHiddenPolicy,
    CacheIdentity,
    DraftKvPolicy,
    IdentityForm,
    PublicationSchema,
    RecordKind,
)
from app.core.store.layout import MAX_OBJECT_BYTES, segment_path
from app.core.store.manifest import (
    SEGMENT_CHUNKS,
    ChunkDescriptor,
    ChunkPayload,
    DeltaStage,
    DeltaVersion,
    ExtentPayload,
    ObjectDescriptor,
    StageEnd,
    encode_flat_manifest,
    encode_legacy_manifest,
    encode_page_delta,
    encode_segment,
)
from app.core.store.snapshot import PageGroup, PageLayer, PageLayout, ReusePolicy, encode_stream_header

from .rig import MemoryFiles

Pages = dict[str, bytes]

PAGE_IDENTITY = CacheIdentity(
    target_checkpoint=sha256(b"target"),
    draft_checkpoint=sha256(b"draft"),
    quantization_layout="q",
    rope_layout="r",
    tp_degree=1,
    dcp_degree=1,
    cp_kv_cache_interleave_size=1,
    chunk_tokens=256,
    dcp_shard_rank=0,
    tp_shard_rank=0,
    boundary_hidden_policy=BoundaryHiddenPolicy.LIVE_FORWARD,
    draft_kv_policy=DraftKvPolicy.COLOCATED_TARGET,
    record_schema=(RecordKind.TARGET_CKV, RecordKind.LOGICAL_POSITIONS),
)
ROW_IDENTITY = replace(PAGE_IDENTITY, record_schema=None, dcp_degree=2, dcp_shard_rank=1)
SMALL_LAYOUT = (
    b'{"groups":[{"block_size":256,"layers":[{"bytes_per_page":4,"dtype":"u","name":"a",'
    b'"page_shape":[4]}],"reuse_policy":"full","reuse_window_tokens":null}]}'
)
PUBLICATIONS = {
    DeltaVersion.V1: PublicationSchema.PAGE_TAIL_COW_V1,
    DeltaVersion.V2: PublicationSchema.PAGE_TAIL_COW_V1,
    DeltaVersion.V3: PublicationSchema.PAGE_TAIL_COW_V2,
}


@dataclass(frozen=True, kw_only=True)
class Span:
    """A prefix with its pages, and how many of them per group the span before it has."""

    tokens: int
    pages: Pages
    reused: tuple[int, ...]

    @property
    def context_digest(self) -> Digest:
        return sha256(b"context %d" % self.tokens)


def stream_of(layout: PageLayout, span: Span) -> bytes:
    header = encode_stream_header(layout.sha256, block_counts=layout.block_counts(span.tokens))
    return header + b"".join(span.pages[layer.name] for group in layout.groups for layer in group.layers)


def delta_stream_of(layout: PageLayout, before: Span, span: Span) -> bytes:
    tails = [
        span.pages[layer.name][reused * layer.bytes_per_page :]
        for group, reused in zip(layout.groups, span.reused, strict=True)
        for layer in group.layers
    ]
    names = [layer.name for group in layout.groups for layer in group.layers]
    header = DeltaHeader(
        layout_sha256=layout.sha256,
        base_snapshot_sha256=sha256(stream_of(layout, before)),
        result_snapshot_sha256=sha256(stream_of(layout, span)),
        base_block_counts=layout.block_counts(before.tokens),
        result_block_counts=layout.block_counts(span.tokens),
        base_tokens=before.tokens,
        result_tokens=span.tokens,
        reused_pages=span.reused,
        tails=tuple(
            LayerTail(name=name, byte_count=len(tail), sha256=sha256(tail))
            for name, tail in zip(names, tails, strict=True)
        ),
    )
    return encode_delta_header(header) + b"".join(tails)


def put_extents(files: MemoryFiles, stream: bytes, *, object_bytes: int) -> tuple[ObjectDescriptor, ...]:
    return tuple(
        ObjectDescriptor(
            sha256=files.put_object(stream[at : at + object_bytes]),
            start=at,
            end=min(at + object_bytes, len(stream)),
        )
        for at in range(0, len(stream), object_bytes)
    )


def put_parts(
    files: MemoryFiles, stream: bytes, *, tokens: int, chunk_tokens: int = 256
) -> tuple[ChunkDescriptor, ...]:
    chunks, at = [], 0
    for index, length in enumerate(part_lengths(len(stream), parts=tokens // chunk_tokens)):
        start = index * chunk_tokens
        records = {
            RecordKind.TARGET_CKV: stream[at : at + length],
            RecordKind.LOGICAL_POSITIONS: encode_positions(range(start, start + chunk_tokens)),
        }
        chunks.append(put_chunk(files, records, start=start, end=start + chunk_tokens))
        at += length
    return tuple(chunks)


def put_chunk(
    files: MemoryFiles, records: dict[RecordKind, bytes], *, start: int, end: int
) -> ChunkDescriptor:
    raw = encode_chunk(records, start=start, end=end)
    return ChunkDescriptor(sha256=files.put_object(raw), byte_count=len(raw), start=start, end=end)


def put_rows(files: MemoryFiles, identity: CacheIdentity, *, tokens: int) -> tuple[ChunkDescriptor, ...]:
    """Row chunks with two bytes a row, whatever the kind."""
    chunks = []
    for start in range(0, tokens, identity.chunk_tokens):
        end = min(start + identity.chunk_tokens, tokens)
        positions = owned_positions(identity, start=start, end=end)
        records = {
            kind: squeeze(f"{kind}/{start}".encode(), byte_count=2 * len(positions))
            for kind in identity.required_records
        }
        records[RecordKind.LOGICAL_POSITIONS] = encode_positions(positions)
        chunks.append(put_chunk(files, records, start=start, end=end))
    return tuple(chunks)


def put_chain(files: MemoryFiles, identity: CacheIdentity, chunks: Sequence[ChunkDescriptor]) -> Digest:
    """Descriptor segments over all chunks; returns the name of the last."""
    parent: Digest | None = None
    for first in range(0, len(chunks), SEGMENT_CHUNKS):
        raw = encode_segment(
            storage_key=identity.storage_key,
            parent_sha256=parent,
            first_chunk_index=first,
            chunks=chunks[first : first + SEGMENT_CHUNKS],
        )
        parent = sha256(raw)
        files.contents[str(segment_path(parent, storage_key=identity.storage_key))] = raw
    assert parent is not None
    return parent


def base_document(
    files: MemoryFiles,
    layout: PageLayout,
    span: Span,
    *,
    identity: CacheIdentity,
    flat: bool,
    object_bytes: int,
) -> bytes:
    stream = stream_of(layout, span)
    if not flat:
        return encode_legacy_manifest(
            identity=identity,
            context_digest=span.context_digest,
            committed_tokens=span.tokens,
            chunks=put_parts(files, stream, tokens=span.tokens),
        )
    return encode_flat_manifest(
        identity=identity,
        context_digest=span.context_digest,
        committed_tokens=span.tokens,
        object_bytes=object_bytes,
        objects=put_extents(files, stream, object_bytes=object_bytes),
        snapshot_sha256=sha256(stream),
    )


def stage_between(
    files: MemoryFiles,
    layout: PageLayout,
    before: Span,
    span: Span,
    *,
    version: DeltaVersion,
    object_bytes: int,
) -> DeltaStage:
    stream = delta_stream_of(layout, before, span)
    payload: ExtentPayload | ChunkPayload
    if version is DeltaVersion.V1:
        payload = ChunkPayload(chunks=put_parts(files, stream, tokens=span.tokens))
    else:
        size = MAX_OBJECT_BYTES if version is DeltaVersion.V3 else max(object_bytes, len(stream) // 2)
        payload = ExtentPayload(
            objects=put_extents(files, stream, object_bytes=size),
            encoded_bytes=len(stream),
            object_bytes=size,
            sha256=sha256(stream),
        )
    ends = [
        StageEnd(
            context_digest=end.context_digest,
            committed_tokens=end.tokens,
            block_counts=layout.block_counts(end.tokens),
        )
        for end in (before, span)
    ]
    return DeltaStage(base=ends[0], result=ends[1], payload=payload)


def put_page_entry(
    spans: Sequence[Span],
    *,
    layout: PageLayout,
    version: DeltaVersion,
    flat: bool = True,
    object_bytes: int = 4096,
) -> tuple[MemoryFiles, CacheIdentity]:
    """The last of ``spans`` as a delta over the ones before; a single one is no delta."""
    files = MemoryFiles()
    identity = replace(PAGE_IDENTITY, publication_schema=PUBLICATIONS[version])
    document = base_document(files, layout, spans[0], identity=identity, flat=flat, object_bytes=object_bytes)
    stages = [
        stage_between(files, layout, before, span, version=version, object_bytes=object_bytes)
        for before, span in pairwise(spans)
    ]
    steps = [stages] if version is DeltaVersion.V3 else [[stage] for stage in stages]
    for step in steps:
        if step:
            document = encode_page_delta(
                version, identity=identity, base_root=document, layout_sha256=layout.sha256, stages=step
            )
    files.put_document(document, identity=identity, context_digest=spans[-1].context_digest)
    return files, identity


@st.composite
def layouts(draw: st.DrawFn) -> PageLayout:
    groups = []
    for number in range(draw(st.integers(1, 3))):
        policy = draw(st.sampled_from(ReusePolicy))
        groups.append(
            PageGroup(
                block_size=draw(st.sampled_from([32, 64, 256, 512])),
                reuse_policy=policy,
                reuse_window_tokens=129 if policy is ReusePolicy.SLIDING else None,
                layers=tuple(
                    PageLayer(
                        name=f"layer.{number}.{index}",
                        dtype="torch.uint8",
                        page_shape=(1, size),
                        bytes_per_page=size,
                    )
                    for index, size in enumerate(draw(st.lists(st.integers(1, 90), min_size=1, max_size=3)))
                ),
            )
        )
    return PageLayout(groups=tuple(groups))


@st.composite
def span_chains(draw: st.DrawFn, layout: PageLayout, *, longest: int) -> list[Span]:
    """Spans that grow, each with some of the pages of the one before and otherwise new ones."""
    spans: list[Span] = []
    tokens = 0
    for number in range(draw(st.integers(1, longest))):
        tokens += 256 * draw(st.integers(1, 3))
        counts = layout.block_counts(tokens)
        most = layout.block_counts(spans[-1].tokens) if spans else (0,) * len(counts)
        reused = tuple(draw(st.integers(0, count)) for count in most)
        pages = {}
        for group, count, kept in zip(layout.groups, counts, reused, strict=True):
            for layer in group.layers:
                size = layer.bytes_per_page
                old = spans[-1].pages[layer.name][: kept * size] if spans else b""
                label = f"{number}/{layer.name}".encode()
                pages[layer.name] = old + squeeze(label, byte_count=(count - kept) * size)
        spans.append(Span(tokens=tokens, pages=pages, reused=reused))
    return spans


digests = st.binary(max_size=8).map(sha256)
texts = st.text(min_size=1, max_size=12)


@st.composite
def identities(draw: st.DrawFn, *, form: IdentityForm = IdentityForm.CURRENT) -> CacheIdentity:
    tp_degree, dcp_degree = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    kinds = st.permutations(list(RecordKind)).map(
        lambda order: (*order[: order.index(RecordKind.LOGICAL_POSITIONS)], RecordKind.LOGICAL_POSITIONS)
    )
    current = form is IdentityForm.CURRENT
    return CacheIdentity(
        target_checkpoint=draw(digests),
        draft_checkpoint=draw(digests),
        quantization_layout=draw(texts),
        rope_layout=draw(texts),
        tp_degree=tp_degree,
        dcp_degree=dcp_degree,
        cp_kv_cache_interleave_size=draw(st.integers(1, 4)) if current else 1,
        chunk_tokens=draw(st.integers(1, 512)),
        dcp_shard_rank=draw(st.integers(-1, dcp_degree - 1)),
        tp_shard_rank=draw(st.integers(-1, tp_degree - 1)),
        boundary_hidden_policy=draw(st.sampled_from(BoundaryHiddenPolicy)),
        draft_kv_policy=draw(st.sampled_from(DraftKvPolicy)),
        record_schema=draw(st.none() | kinds),
        publication_schema=draw(st.none() | st.sampled_from(PublicationSchema)) if current else None,
        form=form,
    )


@st.composite
def chunk_lists(draw: st.DrawFn, *, chunk_tokens: int, longest: int = 40) -> tuple[ChunkDescriptor, ...]:
    """Descriptors of whole chunks, the last one possibly narrower."""
    count = draw(st.integers(1, longest))
    narrower = draw(st.integers(0, chunk_tokens - 1))
    return tuple(
        ChunkDescriptor(
            sha256=draw(digests),
            byte_count=draw(st.integers(1, 2**40)),
            start=index * chunk_tokens,
            end=(index + 1) * chunk_tokens - (narrower if index == count - 1 else 0),
        )
        for index in range(count)
    )


@st.composite
def extents(draw: st.DrawFn, *, object_bytes: int) -> tuple[ObjectDescriptor, ...]:
    """Descriptors of full objects, the last one possibly smaller."""
    count, last = draw(st.integers(1, 12)), draw(st.integers(1, object_bytes))
    return tuple(
        ObjectDescriptor(
            sha256=draw(digests),
            start=index * object_bytes,
            end=index * object_bytes + (last if index == count - 1 else object_bytes),
        )
        for index in range(count)
    )
