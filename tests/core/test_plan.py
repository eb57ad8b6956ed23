"""Spans, batches and limits (restore-contract §2, §4.2)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.errors import FormatError, PlanError
from app.core.restore.page_plan import plan_restore
from app.core.restore.plan import (
    CopySpan,
    Filling,
    Piece,
    RestoreLimits,
    Source,
    encode_spans,
    fill_packed,
    fill_whole_objects,
    group_batches,
)
from app.core.store.manifest import FlatSnapshotManifest, ObjectDescriptor, parse_flat_manifest
from app.core.store.snapshot import LayerSpan

from .rig import Vector


@st.composite
def layer_lists(draw: st.DrawFn) -> tuple[int, list[LayerSpan]]:
    header_bytes = draw(st.integers(0, 40))
    start = header_bytes
    layers = []
    for index in range(draw(st.integers(1, 6))):
        pages, size = draw(st.integers(1, 5)), draw(st.integers(1, 30))
        end = start + pages * size
        layers.append(
            LayerSpan(
                index=index, group=0, name=str(index), pages=pages, bytes_per_page=size, start=start, end=end
            )
        )
        start = end
    return header_bytes, layers


@given(layer_lists(), st.integers(1, 200), st.integers(1, 200), st.integers(1, 20))
def test_packed_fillings_cover_every_payload_byte_exactly_once(
    case: tuple[int, list[LayerSpan]], object_bytes: int, arena_bytes: int, most: int
) -> None:
    """Whatever the object and arena sizes, source bytes meet (layer, offset) one to one, in order."""
    sources, pieces = cut_case(case, object_bytes=object_bytes)
    limits = RestoreLimits(arena_bytes=arena_bytes, submission_spans=most)
    placed: list[tuple[int, int, int]] = []
    for filling in fill_packed(pieces, sources=sources, limits=limits):
        assert 0 < filling.used_bytes <= arena_bytes
        assert len(filling.spans) <= most
        arena: dict[int, int] = {}
        for source, copies in filling.copies.items():
            for copy in copies:
                start = sources[source].descriptor.start + copy.offset
                arena |= {copy.arena_offset + i: start + i for i in range(copy.byte_count)}
        assert sorted(arena) == list(range(filling.used_bytes))
        for span in filling.spans:
            assert span.snapshot_offset == len(placed)
            placed += [
                (arena[span.arena_offset + i], span.destination, span.destination_offset + i)
                for i in range(span.byte_count)
            ]
    assert placed == every_byte(case)


@given(layer_lists(), st.integers(41, 200))
def test_whole_objects_cover_every_payload_byte_exactly_once(
    case: tuple[int, list[LayerSpan]], object_bytes: int
) -> None:
    sources, pieces = cut_case(case, object_bytes=object_bytes)
    placed: list[tuple[int, int, int]] = []
    fillings = fill_whole_objects(pieces, sources=sources, limits=RestoreLimits())
    for source, filling in zip(sources, fillings, strict=True):
        assert list(filling.copies) == [source.index]
        assert filling.used_bytes == source.descriptor.byte_count
        for span in filling.spans:
            assert span.snapshot_offset == len(placed)
            placed += [
                (
                    source.descriptor.start + span.arena_offset + i,
                    span.destination,
                    span.destination_offset + i,
                )
                for i in range(span.byte_count)
            ]
    assert placed == every_byte(case)


def cut_case(case: tuple[int, list[LayerSpan]], *, object_bytes: int) -> tuple[list[Source], list[Piece]]:
    """One stream of extents, and its layers' pieces cut at object borders."""
    _, layers = case
    total = layers[-1].end
    borders = [*range(0, total, object_bytes), total]
    sources = [source(index, start=start, end=end) for index, (start, end) in enumerate(pairwise(borders))]
    pieces = [
        Piece(
            source=item.index,
            part=0,
            offset=max(item.descriptor.start, layer.start) - item.descriptor.start,
            byte_count=min(item.descriptor.end, layer.end) - max(item.descriptor.start, layer.start),
            destination=layer.index,
            destination_offset=max(item.descriptor.start, layer.start) - layer.start,
        )
        for layer in layers
        for item in sources
        if max(item.descriptor.start, layer.start) < min(item.descriptor.end, layer.end)
    ]
    return sources, pieces


def every_byte(case: tuple[int, list[LayerSpan]]) -> list[tuple[int, int, int]]:
    return [(at, layer.index, at - layer.start) for layer in case[1] for at in range(layer.start, layer.end)]


def source(index: int, *, start: int, end: int) -> Source:
    descriptor = ObjectDescriptor(sha256=sha256(b""), start=start, end=end)
    return Source(index=index, descriptor=descriptor, subject=f"object {index}", content=None)


def sources_of(sizes: Sequence[int]) -> list[Source]:
    ends = list(accumulate(sizes, initial=0))
    return [source(index, start=start, end=end) for index, (start, end) in enumerate(pairwise(ends))]


def whole(sources: Sequence[Source]) -> list[Filling]:
    return [
        Filling(start=0, used_bytes=item.descriptor.byte_count, copies={item.index: []}) for item in sources
    ]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 4), st.integers(100, 300))
def test_batches_keep_order_and_bounds(sizes: list[int], most: int, held_bytes: int) -> None:
    sources = sources_of(sizes)
    limits = RestoreLimits(batch_objects=most, batch_bytes=held_bytes)
    batches = group_batches(whole(sources), sources=sources, limits=limits)
    assert [number for batch in batches for number in batch] == list(range(len(sizes)))
    assert len(batches[0]) == 1
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert sum(sizes[number] for number in batch) <= held_bytes


def test_a_filling_ends_before_its_objects_exceed_the_bound_on_retained_payload() -> None:
    """Restore-contract §9: the distinct objects a submission needs stay within 256 MiB."""
    sources = sources_of([60, 60, 60])
    pieces = [
        Piece(source=at, part=0, offset=0, byte_count=1, destination=0, destination_offset=number)
        for number, at in enumerate([0, 1, 0, 2, 1, 2])
    ]
    fillings = fill_packed(pieces, sources=sources, limits=RestoreLimits(batch_bytes=120))
    assert [list(filling.copies) for filling in fillings] == [[0, 1], [2, 1]]


@pytest.fixture(scope="module")
def manifest(vectors: dict[str, Vector]) -> FlatSnapshotManifest:
    vector = vectors["flat-v2-tp4-rank0"]
    raw = (vector.root / vector.entry["manifest"]).read_bytes()
    return parse_flat_manifest(raw, identity=None, context_digest=vector.order().context_digest)


@pytest.fixture(scope="module")
def vector0(vectors: dict[str, Vector]) -> Vector:
    return vectors["flat-v2-tp4-rank0"]


def test_nine_objects_make_three_batches(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    plan = plan_restore(manifest, layout=vector0.layout)
    (head,) = plan.heads
    head.parts.append((8191,))
    schedule = plan.schedule(held={0}, digested={0})
    assert [len(batch) for batch in schedule.batches] == [1, 4, 4]
    assert schedule.object_count == schedule.submissions == 9
    assert schedule.source_bytes == 66_599
    assert schedule.payload_bytes == plan.payload_bytes == 66_599 - 156
    assert [one.arena for batch in schedule.batches for one in batch] == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    fetches = [take.fetch for batch in schedule.batches for one in batch for take in one.takes]
    assert [fetch.held for fetch in fetches] == [True] + 8 * [False]
    assert [fetch.stream for fetch in fetches] == [None] + 8 * [0]
    assert {fetch.uses for fetch in fetches} == {1}


def test_four_full_objects_fill_a_batch_exactly() -> None:
    sources = sources_of(13 * [64 * 1024 * 1024])
    batches = group_batches(whole(sources), sources=sources, limits=RestoreLimits())
    assert [len(batch) for batch in batches] == [1, 4, 4, 4]


def test_an_object_larger_than_an_arena(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    with pytest.raises(PlanError, match=r"object 0 \(.*: expected at most 8190 bytes"):
        plan_restore(manifest, layout=vector0.layout, limits=RestoreLimits(object_bytes=8190))


def test_more_copies_than_a_submission_takes(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    plan = plan_restore(manifest, layout=vector0.layout, limits=RestoreLimits(submission_spans=1))
    with pytest.raises(PlanError, match="at most 1 copies"):
        plan.schedule(held=(), digested=())


def test_a_snapshot_over_the_operators_limit(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    with pytest.raises(FormatError, match="operator's limit of 66598 bytes"):
        plan_restore(manifest, layout=vector0.layout, limits=RestoreLimits(snapshot_bytes=66_598))


def test_another_layout_than_the_stored_one(
    manifest: FlatSnapshotManifest, vectors: dict[str, Vector]
) -> None:
    with pytest.raises(FormatError, match="as layout and span demand"):
        plan_restore(manifest, layout=vectors["flat-v2-single"].layout)


def test_an_object_0_without_payload(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    first = replace(manifest.objects[0], end=156)
    with pytest.raises(FormatError, match="object 0: expected the 156 header bytes and at least one more"):
        plan_restore(replace(manifest, objects=(first, *manifest.objects[1:])), layout=vector0.layout)


def test_a_span_is_a_record_of_forty_bytes() -> None:
    span = CopySpan(arena_offset=1, snapshot_offset=2, destination_offset=3, byte_count=4, destination=5)
    assert encode_spans([span, span]) == 2 * bytes.fromhex(
        "0100000000000000 0200000000000000 0300000000000000 0400000000000000 05000000 00000000"
    )
