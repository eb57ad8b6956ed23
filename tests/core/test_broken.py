"""Every malformed flat store is refused with the required reason, never later than the required stage."""

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

STAGES = list(Stage)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per variant where the reference data is at hand, one skipped test where it is not."""
    if "variant_name" in metafunc.fixturenames:
        metafunc.parametrize("variant_name", _variant_names())


def _variant_names() -> list[str]:
    import os
    import re

    folder = Path(os.environ.get("SPARKGATE_SHARED", Path(__file__).parents[3] / "shared")) / "vectors"
    try:
        import json

        return sorted(name for name in json.loads((folder / "broken-expected.json").read_text())["variants"])
    except OSError:
        return ["none"]
