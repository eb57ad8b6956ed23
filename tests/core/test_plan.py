"""Spans, batches and limits (restore-contract §2, §4.2)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.errors import FormatError, PlanError
from app.core.restore.plan import (
    CopySpan,
    PlannedObject,
    RestoreLimits,
    cut_batches,
    cut_spans,
    encode_spans,
    plan_restore,
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


@given(layer_lists(), st.integers(1, 200), st.integers(1, 200))
def test_spans_cover_every_payload_byte_exactly_once(
    case: tuple[int, list[LayerSpan]], object_bytes: int, arena_bytes: int
) -> None:
    """Whatever the object and arena sizes, stream offsets meet (layer, offset) one to one."""
    header_bytes, layers = case
    total = layers[-1].end
    placed: list[tuple[int, int, int]] = []
    expected_payload = 0
    for start in range(0, total, object_bytes):
        end = min(start + object_bytes, total)
        fillings = cut_spans(layers, start=start, end=end, header_bytes=header_bytes, arena_bytes=arena_bytes)
        for number, spans in enumerate(fillings):
            base = start + number * arena_bytes
            for span in spans:
                assert span.byte_count > 0
                assert span.arena_offset + span.byte_count <= min(arena_bytes, end - base)
                assert span.snapshot_offset == expected_payload
                assert base + span.arena_offset - header_bytes == span.snapshot_offset
                expected_payload += span.byte_count
                placed += [
                    (base + span.arena_offset + i, span.destination, span.destination_offset + i)
                    for i in range(span.byte_count)
                ]
    assert placed == [
        (at, layer.index, at - layer.start) for layer in layers for at in range(layer.start, layer.end)
    ]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 4), st.integers(100, 300))
def test_batches_keep_order_and_bounds(sizes: list[int], most: int, held_bytes: int) -> None:
    objects, start = [], 0
    for index, size in enumerate(sizes):
        descriptor = ObjectDescriptor(sha256=sha256(b""), start=start, end=start + size)
        objects.append(PlannedObject(index=index, descriptor=descriptor, arena=index % 2, spans=()))
        start += size
    batches = cut_batches(objects, limits=RestoreLimits(batch_objects=most, batch_bytes=held_bytes))
    assert [item for batch in batches for item in batch] == objects
    assert len(batches[0]) == 1
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert sum(item.descriptor.byte_count for item in batch) <= held_bytes


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
    assert [len(batch) for batch in plan.batches] == [1, 4, 4]
    assert plan.object_count == 9
    assert plan.source_bytes == 66_599
    assert plan.payload_bytes == 66_599 - 156
    assert [item.arena for batch in plan.batches for item in batch] == [0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_four_full_objects_fill_a_batch_exactly() -> None:
    size = 64 * 1024 * 1024
    objects = [
        PlannedObject(
            index=index,
            descriptor=ObjectDescriptor(sha256=sha256(b""), start=index * size, end=(index + 1) * size),
            arena=index % 2,
            spans=(),
        )
        for index in range(13)
    ]
    assert [len(batch) for batch in cut_batches(objects, limits=RestoreLimits())] == [1, 4, 4, 4]


def test_an_object_larger_than_an_arena(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    with pytest.raises(PlanError, match="object 0: expected at most 8190 bytes"):
        plan_restore(manifest, layout=vector0.layout, limits=RestoreLimits(object_bytes=8190))


def test_more_copies_than_a_submission_takes(manifest: FlatSnapshotManifest, vector0: Vector) -> None:
    with pytest.raises(PlanError, match="at most 1 copies"):
        plan_restore(manifest, layout=vector0.layout, limits=RestoreLimits(submission_spans=1))


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
