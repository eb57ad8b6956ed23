"""Upstream's own flat snapshots restore to the digests the vectors list."""

import pytest

from app.core.restore.report import RankOutcome, parse_report

from .rig import Vector, restore_at

NAMES = [
    *(f"flat-v2-tp4-rank{rank}" for rank in range(4)),
    "flat-v2-single",
    *(f"page-delta-v{version}-512" for version in (1, 2, 3)),
]


def test_no_flat_vector_is_left_out(vectors: dict[str, Vector]) -> None:
    assert sorted(vectors) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_layers_pools_and_statistics_are_those_of_the_vector(vectors: dict[str, Vector], name: str) -> None:
    vector = vectors[name]
    with vector.device() as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert restored.report.problem is None
        assert restored.pages is not None
        layers = device.digest(restored.pages)
        assert [layer.sha256 for layer in layers] == vector.layer_digests
        assert [layer.name for layer in layers] == [layer["name"] for layer in vector.entry["layers"]]
        assert list(device.pool_digests(vector.layout)) == vector.entry["placement"]["pool_sha256"]
    statistics = restored.report.statistics
    assert statistics is not None
    for key, value in vector.entry["placement_stats"]["single_reader_229d7d6"].items():
        assert getattr(statistics, key) == value
    assert parse_report(restored.report.to_document()) == restored.report


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_identity_may_be_judged_by_itself(vectors: dict[str, Vector], name: str) -> None:
    vector = vectors[name]
    with vector.device() as device:
        restored = restore_at(vector.root, order=vector.order(identity=None), device=device)
    assert restored.report.outcome is RankOutcome.RESTORED
    assert restored.report.manifest_sha256 == vector.entry["manifest_sha256"]


def test_slots_chosen_by_the_device_give_the_same_layers(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank3"]
    with vector.device(fixed_pool=None) as device:
        restored = restore_at(vector.root, order=vector.order(), device=device)
        assert restored.pages is not None
        assert all(0 not in slots for slots in restored.pages.slots)
        assert [layer.sha256 for layer in device.digest(restored.pages)] == vector.layer_digests


def test_the_reference_data_is_not_touched(vectors: dict[str, Vector]) -> None:
    vector = vectors["flat-v2-tp4-rank1"]
    before = {path: path.stat() for path in vector.root.rglob("*") if path.is_file()}
    with vector.device() as device:
        restore_at(vector.root, order=vector.order(), device=device)
    after = {path: path.stat() for path in vector.root.rglob("*") if path.is_file()}
    assert [(s.st_mtime_ns, s.st_ctime_ns, s.st_size) for s in after.values()] == [
        (s.st_mtime_ns, s.st_ctime_ns, s.st_size) for s in before.values()
    ]
    assert after.keys() == before.keys()
