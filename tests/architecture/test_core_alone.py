"""The core imports with every package refused but its own few; most of it with all of them refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from .generate import ROOT
from .packages import COMPANIONS, CORE_THIRD_PARTY
from .source import sources
from .trees import write_tree

SCRIPT = Path(__file__).with_name("core_alone.py")
ALLOWED = COMPANIONS.union(*CORE_THIRD_PARTY.values())
NUMPY_HOMES = tuple(home for home, packages in CORE_THIRD_PARTY.items() if "numpy" in packages)


def core_modules(root: Path) -> list[str]:
    return [source.module for source in sources(root, "app/core") if source.path.stem != "__main__"]


def without_numpy(modules: Iterable[str]) -> list[str]:
    """Everything but the homes of NumPy: what the offline verifier is made of."""
    return [
        module for module in modules if not f"{module}.".startswith(tuple(f"{home}." for home in NUMPY_HOMES))
    ]


def import_alone(
    root: Path, modules: Iterable[str], *, allowed: Iterable[str]
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), ",".join(allowed), *modules]
    return subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True)


def test_the_core_imports_with_its_own_packages_only() -> None:
    result = import_alone(ROOT, core_modules(ROOT), allowed=ALLOWED)
    assert result.returncode == 0, result.stderr


def test_all_but_restore_and_oracle_import_with_every_package_refused() -> None:
    modules = without_numpy(core_modules(ROOT))
    assert "app.core.store" in modules
    assert "app.core.restore" not in modules
    result = import_alone(ROOT, modules, allowed=())
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "line", ["import sqlalchemy", "import yaml", "import app.config", "from app import errors"]
)
def test_an_import_from_outside_is_refused(tmp_path: Path, line: str) -> None:
    files = {"app/core/image.py": line, "app/config.py": "", "app/errors.py": ""}
    result = import_alone(write_tree(tmp_path, files), ["app.core.image"], allowed=ALLOWED)
    assert result.returncode == 1
    assert "refused" in result.stderr


def test_numpy_is_refused_where_no_package_is_allowed(tmp_path: Path) -> None:
    files = {
        "app/core/store/check.py": "from app.core.restore import plan",
        "app/core/restore/plan.py": "import numpy",
    }
    result = import_alone(write_tree(tmp_path, files), ["app.core.store.check"], allowed=())
    assert "numpy is refused" in result.stderr
