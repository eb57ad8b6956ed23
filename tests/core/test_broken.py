"""Every malformed flat store is refused with the required reason, never later than the required stage."""

import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.core.digest import Digest
from app.core.errors import FormatError, Stage
from app.core.restore.execute import RankOrder
from app.core.restore.report import RankOutcome, parse_report
from app.core.store.identity import parse_identity

from .rig import Vector, restore_at

SOURCE = "flat-v2-tp4-rank0"
STAGES = list(Stage)


def variant_names() -> list[str]:
    """All flat variants; without the reference data one name that no test can build."""
    folder = Path(os.environ.get("SPARKGATE_SHARED", Path(__file__).parents[3] / "shared"))
    try:
        answers = json.loads((folder / "vectors" / "broken-expected.json").read_bytes())
    except OSError:
        return ["reference data missing"]
    return sorted(name for name in answers if name.startswith("flat-"))


@pytest.fixture(scope="module")
def variants(make_broken: ModuleType) -> dict[str, Any]:
    return {variant.name: variant for variant in make_broken.VARIANTS}


def test_every_flat_variant_has_its_test(variants: dict[str, Any]) -> None:
    assert sorted(name for name in variants if name.startswith("flat-")) == variant_names()
    assert len(variant_names()) == 163


@pytest.mark.parametrize("by_key", [False, True], ids=["by identity", "by storage key"])
@pytest.mark.parametrize("name", variant_names())
def test_refused_with_the_required_reason_and_stage(
    name: str,
    by_key: bool,
    variants: dict[str, Any],
    make_broken: ModuleType,
    vectors: dict[str, Vector],
    tmp_path: Path,
) -> None:
    case = make_broken.build(variants[name], tmp_path)
    outcome, stage = _answer(case, vector=vectors[SOURCE], by_key=by_key)
    assert outcome == case.reason
    assert STAGES.index(stage) <= STAGES.index(Stage(case.stage))


def _answer(case: Any, *, vector: Vector, by_key: bool) -> tuple[RankOutcome, Stage]:
    """What a restore of the damaged store says; a context that is no digest is refused before that."""
    try:
        context = Digest.parse(case.context_digest, subject="context digest")
    except FormatError as error:
        return RankOutcome.CORRUPT, error.stage
    identity = parse_identity(case.identity)
    order = RankOrder(
        identity=None if by_key else identity,
        storage_key=identity.storage_key,
        context_digest=context,
        layout=vector.layout,
    )
    with vector.device() as device:
        free_bytes = device.free_bytes
        restored = restore_at(case.root, order=order, device=device)
        assert device.free_bytes == free_bytes
    assert restored.pages is None
    problem = restored.report.problem
    assert problem is not None
    assert problem.stage is not None
    assert parse_report(restored.report.to_document()) == restored.report
    return restored.report.outcome, problem.stage
