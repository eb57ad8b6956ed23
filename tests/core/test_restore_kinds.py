"""Every kind of entry restores through the one executor, to the digests the vectors list."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.core.digest import Digest
from app.core.restore.buffers import BufferPool
from app.core.restore.report import RankOutcome, StreamDigestState, parse_report
from app.core.store.manifest import StorageMode

from .rig import BUFFER_BYTES, Vector, opened, restore, restore_at

DELTAS = [
    "page-delta-v1-768",
    *(f"page-delta-v2-{span}" for span in (768, 1024, 1280)),
    "page-delta-v3-768",
    "page-delta-v3-1024",
]
CHUNKS = ["legacy-pages-chunks", "release-0.1.0a2-chunks"]
ROWS = [
    "legacy-rows",
    "legacy-rows-alias-4096",
    "legacy-rows-partial",
    "rows-tail-cow-base",
    "rows-tail-cow-tail",
]
# From starving to more than everything.
ARENAS = [31, 999, 1000, 1001, 4096, 20_000]


def ordered(vector: Vector, **changes: Any) -> Any:
    mode = StorageMode.ROWS if vector.name in ROWS else None
    return vector.order(**{"mode": mode, **changes})


def document_sha256(vector: Vector) -> Digest:
    return Digest(vector.entry.get("lookup_manifest_sha256") or vector.entry["manifest_sha256"])


def test_every_entry_of_the_vectors_has_its_test(entries: dict[str, Vector]) -> None:
    others = sorted(name for name, vector in entries.items() if not vector.is_flat)
    assert others == sorted([*DELTAS, *CHUNKS, *ROWS])


@pytest.mark.parametrize("name", [*DELTAS, *CHUNKS])
@pytest.mark.parametrize("pinned", [False, True])
def test_pages_of_every_kind(entries: dict[str, Vector], name: str, pinned: bool) -> None:
    vector = entries[name]
    changes = {"stream_pinned": True, "manifest_sha256": document_sha256(vector)} if pinned else {}
    with vector.device() as device:
        restored = restore_at(vector.root, order=ordered(vector, **changes), device=device)
        assert restored.report.problem is None
        assert restored.pages is not None
        assert [layer.sha256 for layer in device.digest(restored.pages)] == vector.layer_digests
        if "placement" in vector.entry:
            pools = vector.entry["placement"]["pool_sha256"]
            assert list(device.pool_digests(vector.layout)) == pools
    assert restored.report.stream_digest is expected_state(name, pinned=pinned)
    assert restored.report.manifest_sha256 == document_sha256(vector)
    assert parse_report(restored.report.to_document()) == restored.report


def expected_state(name: str, *, pinned: bool) -> StreamDigestState:
    if name in CHUNKS:
        return StreamDigestState.NOT_STATED
    return StreamDigestState.PINNED if pinned else StreamDigestState.RECOMPUTED


@pytest.mark.parametrize("name", [name for name in DELTAS if not name.startswith("page-delta-v1")])
def test_statistics_of_a_delta_are_those_of_the_vector(entries: dict[str, Vector], name: str) -> None:
    vector = entries[name]
    arena_bytes = vector.entry["placement"]["arena_bytes"]
    with vector.device(arena_bytes=arena_bytes) as device:
        report = restore_at(vector.root, order=ordered(vector), device=device).report
    statistics = report.statistics
    assert statistics is not None
    for key, value in vector.entry["placement_stats"]["four_reader_737ed139"].items():
        assert getattr(statistics, key) == value


@pytest.mark.parametrize("name", [*DELTAS, *CHUNKS])
@pytest.mark.parametrize("arena_bytes", ARENAS)
def test_any_arena_size_gives_equal_pools(entries: dict[str, Vector], name: str, arena_bytes: int) -> None:
    """Restore-contract §14: spans are cut at the end of an arena too."""
    vector = entries[name]
    for count in (1, 4):
        buffers = BufferPool(buffer_bytes=BUFFER_BYTES, count=count)
        with vector.device(arena_bytes=arena_bytes) as device, opened(vector.root, buffers=buffers) as reader:
            restored = restore(ordered(vector), reader=reader, device=device)
            assert restored.report.problem is None
            assert restored.pages is not None
            assert [layer.sha256 for layer in device.digest(restored.pages)] == vector.layer_digests
        payload_bytes = sum(layer["pages"] * layer["bytes_per_page"] for layer in vector.entry["layers"])
        assert restored.report.submissions >= -(-payload_bytes // arena_bytes)
        assert buffers.held_buffers == 0


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("arena_bytes", [*ARENAS[1:], BUFFER_BYTES])
def test_rows_of_every_kind(entries: dict[str, Vector], name: str, arena_bytes: int) -> None:
    vector = entries[name]
    with vector.device(arena_bytes=arena_bytes) as device:
        restored = restore_at(vector.root, order=ordered(vector, layout=None), device=device)
        assert restored.report.problem is None
        assert restored.pages is not None
        layers = device.digest(restored.pages)
    assert {layer.name: layer.sha256 for layer in layers} == vector.entry["records_sha256"]
    assert len({layer.pages for layer in layers}) == 1
    assert restored.report.stream_digest is StreamDigestState.NOT_STATED
    assert restored.report.manifest_sha256 == document_sha256(vector)


def test_rows_are_as_long_as_the_vector_says(entries: dict[str, Vector]) -> None:
    vector = entries["legacy-rows"]
    with vector.device() as device:
        restored = restore_at(vector.root, order=ordered(vector), device=device)
        assert restored.pages is not None
        layers = device.digest(restored.pages)
    rows = {layer.name: layer.bytes // layer.pages for layer in layers}
    assert rows == {"logical_positions": 4, **vector.entry["row_bytes"]}
    assert {layer.pages for layer in layers} == {5120 // 2}


def test_an_alias_is_only_found_in_row_mode(entries: dict[str, Vector]) -> None:
    vector = entries["legacy-rows-alias-4096"]
    with vector.device() as device:
        report = restore_at(vector.root, order=ordered(vector, mode=None), device=device).report
    assert report.outcome is RankOutcome.ABSENT


def test_pages_need_a_layout(entries: dict[str, Vector]) -> None:
    vector = entries["legacy-pages-chunks"]
    with vector.device() as device:
        report = restore_at(vector.root, order=ordered(vector, layout=None), device=device).report
    assert report.outcome is RankOutcome.FAILED
    assert report.problem is not None
    assert "page layout" in report.problem.detail


def test_rows_are_not_pages(entries: dict[str, Vector]) -> None:
    vector = entries["legacy-rows"]
    with vector.device() as device:
        report = restore_at(vector.root, order=ordered(vector, mode=StorageMode.PAGES), device=device).report
    assert report.outcome is RankOutcome.INCOMPATIBLE


def read_objects(vector: Vector) -> Iterator[str]:
    with vector.device() as device:
        report = restore_at(vector.root, order=ordered(vector), device=device).report
        assert report.outcome is RankOutcome.RESTORED
    return (work.object for work in report.reader_work)


@pytest.mark.parametrize("name", [*DELTAS, *CHUNKS, *ROWS])
def test_no_object_is_read_twice_where_buffers_suffice(entries: dict[str, Vector], name: str) -> None:
    read = list(read_objects(entries[name]))
    assert len(read) == len(set(read))
