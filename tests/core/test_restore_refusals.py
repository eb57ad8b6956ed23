"""Every malformed delta, legacy, alias and tail entry is refused by a restore, with its reason, in time."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.core.digest import Digest
from app.core.errors import FormatError, Stage
from app.core.restore.execute import RankOrder
from app.core.restore.report import RankOutcome, StreamDigestState, parse_report
from app.core.store.identity import form_of, parse_identity
from app.core.store.manifest import StorageMode

from .rig import Vector, restore_at

STAGES = list(Stage)


def variant_names() -> list[str]:
    """All but the flat variants; without the reference data one name that no test can build."""
    folder = Path(os.environ.get("SPARKGATE_SHARED", Path(__file__).parents[3] / "shared"))
    try:
        answers = json.loads((folder / "vectors" / "broken-expected.json").read_bytes())
    except OSError:
        return ["reference data missing"]
    return sorted(name for name in answers if not name.startswith("flat-"))


@pytest.fixture(scope="module")
def variants(make_broken: ModuleType) -> dict[str, Any]:
    return {variant.name: variant for variant in make_broken.VARIANTS}


def test_every_other_variant_has_its_test(variants: dict[str, Any]) -> None:
    assert sorted(name for name in variants if not name.startswith("flat-")) == variant_names()
    assert len(variant_names()) == 237 - 163


@pytest.mark.parametrize("by_key", [False, True], ids=["by identity", "by storage key"])
@pytest.mark.parametrize("name", variant_names())
def test_refused_with_the_required_reason_and_stage(
    name: str,
    by_key: bool,
    variants: dict[str, Any],
    make_broken: ModuleType,
    entries: dict[str, Vector],
    tmp_path: Path,
) -> None:
    variant = variants[name]
    case = make_broken.build(variant, tmp_path)
    outcome, stage = _answer(case, vector=entries[variant.source], by_key=by_key)
    assert outcome == case.reason
    assert STAGES.index(stage) <= STAGES.index(Stage(case.stage))


GEOMETRY = {
    "flat-v2-tp4-rank0": {"snapshot_objects": []},
    "legacy-pages-chunks": {"chunks": [None]},
    "legacy-rows-alias-4096": {"chunk_count": 0},
    "rows-tail-cow-tail": {"tail_chunks": []},
    "page-delta-v1-768": {"delta_chunks": []},
    "page-delta-v2-768": {"committed_tokens": -1},
    "page-delta-v3-1024": {"delta_stages": []},
}


@pytest.mark.parametrize("by_key", [False, True], ids=["by identity", "by storage key"])
@pytest.mark.parametrize("source", GEOMETRY)
def test_another_identity_is_told_before_any_geometry(
    source: str, by_key: bool, make_broken: ModuleType, entries: dict[str, Vector], tmp_path: Path
) -> None:
    """§8.3, §9.1, §10.1, §10.3, §11.1: whose entry it is comes first, however it is asked for."""

    def another(document: Any) -> None:
        document["identity"]["rope_layout"] = "another"
        document.update(GEOMETRY[source])

    signed = not source.startswith("legacy-pages")
    variant = make_broken.Variant(
        "another", source, "incompatible", "metadata", "", lambda case: case.edit(another, sign=signed)
    )
    case = make_broken.build(variant, tmp_path)
    outcome, stage = _answer(case, vector=entries[source], by_key=by_key)
    assert (outcome, stage) == (RankOutcome.INCOMPATIBLE, Stage.METADATA)


def _answer(case: Any, *, vector: Vector, by_key: bool) -> tuple[RankOutcome, Stage]:
    """What a restore of the damaged store says; a context that is no digest is refused before that."""
    try:
        context = Digest.parse(case.context_digest, subject="context digest")
    except FormatError as error:
        return RankOutcome.CORRUPT, error.stage
    identity = parse_identity(case.identity, form=form_of(case.identity))
    order = RankOrder(
        identity=None if by_key else identity,
        storage_key=identity.storage_key,
        context_digest=context,
        layout=vector.layout,
        mode=None if case.storage_mode is None else StorageMode(case.storage_mode),
    )
    with vector.device() as device:
        restored = restore_at(case.root, order=order, device=device)
        assert device.free_bytes == device.pool_bytes
    assert restored.pages is None
    report = restored.report
    assert report.stream_digest is StreamDigestState.NOT_REACHED
    assert report.problem is not None
    assert report.problem.stage is not None
    assert parse_report(report.to_document()) == report
    return report.outcome, report.problem.stage
