"""Synthetic stores: any size met exactly, every page different, restorable on every rank."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.digest import sha256
from app.core.errors import PlanError
from app.core.restore.execute import RankOrder
from app.core.restore.host_device import HostDevice
from app.core.restore.report import RankOutcome
from app.core.store.snapshot import ReusePolicy, parse_page_layout
from app.core.store.synth import SynthesizedSnapshot, design_layout, minimum_bytes, synthesize_store

from .rig import BUFFER_BYTES, restore_at

SIZE = 60_000
OBJECT_BYTES = 8191


def synthesize(path: Path, **changes: Any) -> SynthesizedSnapshot:
    values = {"ranks": 2, "bytes_per_rank": SIZE, "object_bytes": OBJECT_BYTES}
    return synthesize_store(path, **(values | changes))


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
