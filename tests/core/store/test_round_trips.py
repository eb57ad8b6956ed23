"""What is encoded is parsed to the same value, for every kind of document, chunk and header."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.core.canonical_json import encode_canonical
from app.core.digest import Digest, sha256, squeeze
from app.core.store.chunk import CHUNK_PREFIX_BYTES, encode_chunk, parse_chunk_header, parse_chunk_prefix
from app.core.store.delta_stream import (
    DELTA_PREFIX_BYTES,
    DeltaHeader,
    LayerTail,
    encode_delta_header,
    parse_delta_header,
    parse_delta_prefix,
)
from app.core.store.identity import CacheIdentity, IdentityForm, PublicationSchema, RecordKind, parse_identity
from app.core.store.layout import MAX_OBJECT_BYTES
from app.core.store.manifest import (
    ChunkDescriptor,
    ChunkPayload,
    DeltaStage,
    DeltaVersion,
    ExtentPayload,
    FlatSnapshotManifest,
    LegacyManifest,
    PageDeltaManifest,
    RowTailManifest,
    StageEnd,
    encode_alias,
    encode_flat_manifest,
    encode_legacy_manifest,
    encode_page_delta,
    encode_row_tail,
    encode_segment,
    parse_alias,
    parse_manifest,
    parse_segment,
)

from .builders import PAGE_IDENTITY, PUBLICATIONS, chunk_lists, digests, extents, identities

forms = st.sampled_from(IdentityForm)
counts = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(data=st.data(), form=forms)
def test_an_identity(data: st.DataObject, form: IdentityForm) -> None:
    identity = data.draw(identities(form=form))
    assert parse_identity(identity.to_wire(), form=form) == identity


@given(data=st.data(), form=forms)
def test_a_legacy_manifest(data: st.DataObject, form: IdentityForm) -> None:
    identity = data.draw(identities(form=form))
    chunks = data.draw(chunk_lists(chunk_tokens=identity.chunk_tokens))
    context = data.draw(digests)
    raw = encode_legacy_manifest(
        identity=identity, context_digest=context, committed_tokens=chunks[-1].end, chunks=chunks
    )
    found = parse_manifest(raw, identity=identity, context_digest=context)
    assert found == LegacyManifest(
        identity=identity,
        context_digest=context,
        committed_tokens=chunks[-1].end,
        chunks=chunks,
        sha256=sha256(raw),
    )
    assert parse_manifest(raw, identity=None, context_digest=context) == found


@given(data=st.data())
def test_a_flat_snapshot(data: st.DataObject) -> None:
    identity, context = data.draw(page_identities()), data.draw(digests)
    object_bytes = data.draw(st.integers(1, MAX_OBJECT_BYTES))
    objects = data.draw(extents(object_bytes=object_bytes))
    tokens = identity.chunk_tokens * data.draw(st.integers(1, 9))
    raw = encode_flat_manifest(
        identity=identity,
        context_digest=context,
        committed_tokens=tokens,
        object_bytes=object_bytes,
        objects=objects,
        snapshot_sha256=sha256(b"s"),
    )
    found = parse_manifest(raw, identity=identity, context_digest=context)
    assert isinstance(found, FlatSnapshotManifest)
    assert (found.objects, found.object_bytes, found.committed_tokens) == (objects, object_bytes, tokens)
    assert (found.encoded_bytes, found.snapshot_sha256) == (objects[-1].end, sha256(b"s"))
    assert parse_manifest(raw, identity=None, context_digest=context) == found


@given(data=st.data())
def test_an_alias(data: st.DataObject) -> None:
    values = {
        "identity": data.draw(identities()),
        "context_digest": data.draw(digests),
        "committed_tokens": data.draw(st.integers(1, 10**6)),
        "chunk_count": data.draw(st.integers(1, 65_536)),
        "tail_segment_sha256": data.draw(digests),
        "source_manifest_sha256": data.draw(digests),
    }
    raw = encode_alias(**values)
    found = parse_alias(raw, identity=values["identity"], context_digest=values["context_digest"])
    assert {key: getattr(found, key) for key in values} == values
    assert found.sha256 == sha256(raw)


@given(data=st.data())
def test_a_segment(data: st.DataObject) -> None:
    key, parent = data.draw(digests), data.draw(st.none() | digests)
    first = data.draw(st.integers(0, 10**6))
    chunks = data.draw(chunk_lists(chunk_tokens=256, longest=16))
    raw = encode_segment(storage_key=key, parent_sha256=parent, first_chunk_index=first, chunks=chunks)
    found = parse_segment(raw, storage_key=key, name=sha256(raw))
    assert (found.parent_sha256, found.first_chunk_index, found.chunks) == (parent, first, chunks)


@given(data=st.data())
def test_a_row_tail(data: st.DataObject) -> None:
    identity = replace(data.draw(identities()), publication_schema=PublicationSchema.TAIL_COW_V1)
    chunks = data.draw(chunk_lists(chunk_tokens=identity.chunk_tokens))
    kept = data.draw(st.integers(0, len(chunks) - 1))
    reused = kept * identity.chunk_tokens
    base = data.draw(st.integers(max(reused, 1), max(chunks[-1].end - 1, 1)))
    if base >= chunks[-1].end:
        return
    values = {
        "identity": identity,
        "context_digest": data.draw(digests),
        "committed_tokens": chunks[-1].end,
        "base_context_digest": data.draw(digests),
        "base_manifest_sha256": data.draw(digests),
        "base_committed_tokens": base,
        "reused_tokens": reused,
        "base_tail_segment_sha256": data.draw(digests) if kept else None,
        "tail_chunks": chunks[kept:],
    }
    raw = encode_row_tail(**values)
    found = parse_manifest(raw, identity=identity, context_digest=values["context_digest"])
    assert isinstance(found, RowTailManifest)
    assert {key: getattr(found, key) for key in values} == values
    assert found.base_chunk_count == kept


@given(data=st.data(), version=st.sampled_from(DeltaVersion))
def test_a_page_delta(data: st.DataObject, version: DeltaVersion) -> None:
    identity = replace(PAGE_IDENTITY, publication_schema=PUBLICATIONS[version])
    ends = data.draw(stage_ends(longest=6 if version is DeltaVersion.V3 else 2))
    base = encode_flat_manifest(
        identity=identity,
        context_digest=ends[0].context_digest,
        committed_tokens=ends[0].committed_tokens,
        object_bytes=9,
        objects=data.draw(extents(object_bytes=9)),
        snapshot_sha256=sha256(b"s"),
    )
    stages = tuple(
        DeltaStage(base=ends[at], result=ends[at + 1], payload=data.draw(payloads(version, ends[at + 1])))
        for at in range(len(ends) - 1)
    )
    layout_sha256 = data.draw(digests)
    raw = encode_page_delta(
        version, identity=identity, base_root=base, layout_sha256=layout_sha256, stages=stages
    )
    found = parse_manifest(raw, identity=identity, context_digest=ends[-1].context_digest)
    assert isinstance(found, PageDeltaManifest)
    assert (found.version, found.stages, found.layout_sha256) == (version, stages, layout_sha256)
    assert found.base == parse_manifest(base, identity=identity, context_digest=ends[0].context_digest)
    assert (found.base_sha256, found.sha256) == (sha256(base), sha256(raw))
    assert parse_manifest(raw, identity=None, context_digest=ends[-1].context_digest) == found


@given(
    records=st.dictionaries(st.sampled_from(RecordKind), st.binary(min_size=1, max_size=40), min_size=1),
    start=st.integers(0, 2**40),
    tokens=st.integers(1, 256),
)
def test_a_chunk(records: dict[RecordKind, bytes], start: int, tokens: int) -> None:
    raw = encode_chunk(records, start=start, end=start + tokens)
    chunk = ChunkDescriptor(sha256=sha256(raw), byte_count=len(raw), start=start, end=start + tokens)
    length = parse_chunk_prefix(raw[:CHUNK_PREFIX_BYTES], file_bytes=len(raw), subject="chunk")
    body = raw[CHUNK_PREFIX_BYTES : CHUNK_PREFIX_BYTES + length]
    header = parse_chunk_header(body, descriptor=chunk, required=frozenset(records), subject="chunk")
    assert {record.kind: raw[record.start : record.end] for record in header.records} == records
    assert [record.kind for record in header.records] == sorted(records)
    assert header.sha256 == sha256(raw[: header.payload_start])


@given(data=st.data())
def test_a_delta_header(data: st.DataObject) -> None:
    groups = data.draw(counts)
    header = DeltaHeader(
        layout_sha256=data.draw(digests),
        base_snapshot_sha256=data.draw(digests),
        result_snapshot_sha256=data.draw(digests),
        base_block_counts=tuple(groups),
        result_block_counts=tuple(count + 1 for count in groups),
        base_tokens=data.draw(st.integers(1, 10**9)),
        result_tokens=data.draw(st.integers(1, 10**9)),
        reused_pages=tuple(data.draw(st.integers(0, count)) for count in groups),
        tails=tuple(
            LayerTail(name=f"layer {index}", byte_count=index, sha256=data.draw(digests))
            for index in range(data.draw(st.integers(1, 9)))
        ),
    )
    raw = encode_delta_header(header)
    length = parse_delta_prefix(raw[:DELTA_PREFIX_BYTES], available=len(raw), subject="delta")
    assert DELTA_PREFIX_BYTES + length == len(raw)
    assert parse_delta_header(raw[DELTA_PREFIX_BYTES:], subject="delta") == header


@st.composite
def page_identities(draw: st.DrawFn) -> CacheIdentity:
    publications = [None, PublicationSchema.PAGE_TAIL_COW_V1, PublicationSchema.PAGE_TAIL_COW_V2]
    return replace(
        draw(identities()),
        record_schema=draw(st.permutations(PAGE_IDENTITY.record_schema or ()).map(tuple)),
        publication_schema=draw(st.sampled_from(publications)),
    )


@st.composite
def stage_ends(draw: st.DrawFn, *, longest: int) -> list[StageEnd]:
    block_counts, tokens = draw(counts), 0
    ends: list[StageEnd] = []
    for _ in range(draw(st.integers(2, longest))):
        tokens += 256 * draw(st.integers(1, 4))
        block_counts = [count + draw(st.integers(0, 2)) for count in block_counts]
        context = Digest(squeeze(b"%d" % tokens, byte_count=32).hex())
        ends.append(
            StageEnd(context_digest=context, committed_tokens=tokens, block_counts=tuple(block_counts))
        )
    return ends


@st.composite
def payloads(draw: st.DrawFn, version: DeltaVersion, end: StageEnd) -> ExtentPayload | ChunkPayload:
    if version is DeltaVersion.V1:
        starts = range(0, end.committed_tokens, 256)
        return ChunkPayload(
            chunks=tuple(
                ChunkDescriptor(sha256=draw(digests), byte_count=7, start=at, end=at + 256) for at in starts
            )
        )
    size = MAX_OBJECT_BYTES if version is DeltaVersion.V3 else draw(st.integers(1, MAX_OBJECT_BYTES))
    objects = draw(extents(object_bytes=size))
    return ExtentPayload(
        objects=objects, encoded_bytes=objects[-1].end, object_bytes=size, sha256=draw(digests)
    )


def test_canonical_is_what_is_encoded() -> None:
    assert encode_canonical(PAGE_IDENTITY.to_wire()) == encode_canonical(
        parse_identity(PAGE_IDENTITY.to_wire()).to_wire()
    )
