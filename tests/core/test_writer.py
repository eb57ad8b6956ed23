"""Objects first, root document last, nothing ever replaced (store-format §12); synthetic stores restore."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import Digest, sha256
from app.core.errors import IntegrityError, PlanError, ResourceError
from app.core.restore.execute import RankOrder
from app.core.restore.host_device import HostDevice
from app.core.restore.report import RankOutcome
from app.core.store.snapshot import ReusePolicy, parse_page_layout
from app.core.store.synth import SynthesizedSnapshot, design_layout, minimum_bytes, synthesize_store
from app.core.store.writer import PublishedSnapshot, publish_flat

from .rig import BUFFER_BYTES, Vector, restore_at

SIZE = 60_000
OBJECT_BYTES = 8191


def synthesize(path: Path, **changes: Any) -> SynthesizedSnapshot:
    values = {"ranks": 2, "bytes_per_rank": SIZE, "object_bytes": OBJECT_BYTES}
    return synthesize_store(path, **(values | changes))


def republish(vector: Vector, root: Path) -> PublishedSnapshot:
    """Write a vector's own stream again, as its first writer did."""
    stream = memoryview(b"".join(path.read_bytes() for path in _object_files(vector)))
    size = vector.entry["snapshot_object_bytes"]
    objects = [stream[at : at + size] for at in range(0, len(stream), size)]
    numbers = iter(range(10_000))
    return publish_flat(
        root,
        identity=vector.identity,
        context_digest=Digest(vector.entry["context_digest"]),
        committed_tokens=vector.entry["span_tokens"],
        object_bytes=size,
        batches=[objects[at : at + 2] for at in range(0, len(objects), 2)],
        new_id=lambda: f"{next(numbers):032x}",
    )


def _object_files(vector: Vector) -> Iterator[Path]:
    for item in json.loads((vector.root / vector.entry["manifest"]).read_bytes())["snapshot_objects"]:
        yield vector.root / "chunks" / f"{item['sha256']}.spcc"


def files_below(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["flat-v2-tp4-rank2", "flat-v2-single", "page-delta-v3-512"])
def test_what_is_written_equals_upstreams_bytes(
    vectors: dict[str, Vector], tmp_path: Path, name: str
) -> None:
    vector = vectors[name]
    published = republish(vector, tmp_path / "root")
    assert published.manifest_sha256 == vector.entry["manifest_sha256"]
    assert published.snapshot_sha256 == vector.entry["snapshot_sha256"]
    written = files_below(tmp_path / "root")
    assert written.pop(".maintenance.lock") == b""
    stored = files_below(vector.root)
    assert written.items() <= stored.items()
    assert vector.entry["manifest"] in written


def test_publishing_again_changes_nothing(vectors: dict[str, Vector], tmp_path: Path) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    republish(vector, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.spcc")}
    assert republish(vector, tmp_path).objects == 9
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.spcc")} == before


def test_another_document_at_the_name_is_never_overwritten(
    vectors: dict[str, Vector], tmp_path: Path
) -> None:
    vector = vectors["flat-v2-tp4-rank0"]
    path = tmp_path / vector.entry["manifest"]
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{}")
    with pytest.raises(IntegrityError, match="nothing, or 2264 bytes, found 2 bytes"):
        republish(vector, tmp_path)
    assert path.read_bytes() == b"{}"
    assert not list(tmp_path.rglob(".*.writing-*"))


def test_a_document_of_equal_size_is_compared_by_its_bytes(
    vectors: dict[str, Vector], tmp_path: Path
) -> None:
    vector = vectors["flat-v2-single"]
    republish(vector, tmp_path)
    path = tmp_path / vector.entry["manifest"]
    other = path.read_bytes()[:-2] + b"x}"
    path.write_bytes(other)
    with pytest.raises(IntegrityError, match="SHA-256"):
        republish(vector, tmp_path)
    assert path.read_bytes() == other


@pytest.mark.parametrize("kind", ["damaged", "link", "folder"])
def test_something_else_at_an_objects_name_is_never_overwritten(
    vectors: dict[str, Vector], tmp_path: Path, kind: str
) -> None:
    vector = vectors["flat-v2-single"]
    republish(vector, tmp_path)
    (path,) = tmp_path.rglob("*.spcc")
    if kind == "damaged":
        path.write_bytes(bytes(path.stat().st_size))
    elif kind == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises(IntegrityError, match=path.name):
        republish(vector, tmp_path)


def test_a_file_that_appears_meanwhile_is_compared_too(
    vectors: dict[str, Vector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def beaten(source: Path, target: Path) -> None:
        Path(target).write_bytes(b"somebody else")
        link(source, target)

    monkeypatch.setattr(os, "link", beaten)
    with pytest.raises(IntegrityError, match="found 13 bytes"):
        republish(vectors["flat-v2-single"], tmp_path)
    assert not list(tmp_path.rglob(".*.writing-*"))
    assert not list(tmp_path.rglob("*.json"))


def test_the_order_is_objects_synced_linked_folder_synced_document_last(
    vectors: dict[str, Vector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per batch of two: sync, sync, link, link, sync of the folder; the document's own batch comes last."""
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def watched_link(source: Path, target: Path) -> None:
        steps.append("document" if str(target).endswith(".json") else "object")
        link(source, target)

    republish(vectors["flat-v2-single"], tmp_path)
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    republish(vectors["flat-v2-tp4-rank0"], tmp_path)
    pair = ["file", "file", "object", "object", "folder"]
    new_folder = ["folder", "folder"]
    assert steps == [*pair * 4, "file", "object", "folder", *new_folder, "file", "document", "folder"]


@pytest.mark.parametrize("step", range(1, 12))
def test_a_failure_at_any_step_leaves_no_document_and_no_temporary_file(
    vectors: dict[str, Vector], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    fsync = os.fsync
    calls = iter(range(1, 10_000))

    def full(descriptor: int) -> None:
        if next(calls) == step:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError, match="No space left on device"):
        republish(vectors["flat-v2-tp4-rank0"], tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.json"))
    assert not list(tmp_path.rglob(".*.writing-*"))
    assert republish(vectors["flat-v2-tp4-rank0"], tmp_path).objects == 9


def test_a_synthetic_store_restores_on_every_rank_to_different_pages(tmp_path: Path) -> None:
    made = synthesize(tmp_path)
    layers = []
    for rank, root in enumerate(made.roots):
        published = made.published[rank]
        order = RankOrder(
            identity=None,
            storage_key=published.name.storage_key,
            context_digest=made.context_digest,
            layout=made.layout,
            span_tokens=made.span_tokens,
            manifest_sha256=published.manifest_sha256,
        )
        with HostDevice("host0", pool_bytes=2 * SIZE, arena_bytes=BUFFER_BYTES) as device:
            restored = restore_at(root, order=order, device=device)
            assert restored.report.outcome is RankOutcome.RESTORED
            assert restored.report.bytes == SIZE == made.bytes_per_rank
            assert restored.report.objects == made.objects_per_rank == 8
            assert restored.pages is not None
            layers.append(device.digest(restored.pages))
    assert {layer.sha256 for layer in layers[0]}.isdisjoint({layer.sha256 for layer in layers[1]})
    assert len({published.name.storage_key for published in made.published}) == 2
    assert len({published.name.context_digest for published in made.published}) == 1


def test_synthesis_repeats_itself_and_a_seed_changes_it(tmp_path: Path) -> None:
    first, second = synthesize(tmp_path / "a"), synthesize(tmp_path / "b")
    assert first.published == second.published
    assert synthesize(tmp_path / "a").published == first.published
    other = synthesize(tmp_path / "a", seed=1)
    assert other.context_digest != first.context_digest
    assert other.layout == first.layout


def test_synthesis_tells_its_progress(tmp_path: Path) -> None:
    told: list[int] = []
    synthesize(tmp_path, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 2 * SIZE


@pytest.mark.parametrize("excess", [0, 1, 7, 100, 5_000, 2_000_003])
def test_any_size_from_the_minimum_on_is_met_exactly(tmp_path: Path, excess: int) -> None:
    size = minimum_bytes() + excess
    made = synthesize(tmp_path, ranks=1, bytes_per_rank=size, object_bytes=1 << 20)
    assert made.bytes_per_rank == size
    assert sum(path.stat().st_size for path in made.roots[0].rglob("*.spcc")) == size


def test_the_recorded_case_is_thirteen_objects_of_a_realistic_layout() -> None:
    layout, span_tokens = design_layout(813_068_464)
    assert span_tokens == 131_072
    assert [group.reuse_policy for group in layout.groups] == list(ReusePolicy)
    assert -(-813_068_464 // (64 * 1024 * 1024)) == 13


@given(st.integers(minimum_bytes(), 2_000_000_000))
@settings(max_examples=60)
def test_every_designed_layout_is_valid_and_exact(size: int) -> None:
    layout, span_tokens = design_layout(size)
    assert parse_page_layout(layout.canonical) == layout
    counts = layout.block_counts(span_tokens)
    header_bytes = size - layout.payload_bytes(block_counts=counts)
    assert 140 <= header_bytes <= 170
    assert span_tokens % 512 == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"bytes_per_rank": minimum_bytes() - 1},
        {"bytes_per_rank": 0},
        {"ranks": 0},
        {"object_bytes": 511},
        {"object_bytes": 64 * 1024 * 1024 + 1},
    ],
)
def test_a_store_that_cannot_be(tmp_path: Path, changes: dict[str, int]) -> None:
    with pytest.raises(PlanError):
        synthesize(tmp_path / "root", **changes)
    assert not (tmp_path / "root").exists()


def test_no_two_pages_are_equal(tmp_path: Path) -> None:
    made = synthesize(tmp_path, ranks=2, object_bytes=64 * 1024)
    seen = set()
    pages = 0
    for root in made.roots:
        (path,) = root.rglob("*.spcc")
        stream = path.read_bytes()
        counts = made.layout.block_counts(made.span_tokens)
        at = len(stream) - made.layout.payload_bytes(block_counts=counts)
        for group, count in zip(made.layout.groups, counts, strict=True):
            for layer in group.layers:
                for _ in range(count):
                    seen.add(sha256(stream[at : at + layer.bytes_per_page]))
                    at += layer.bytes_per_page
                    pages += 1
    assert len(seen) == pages
