"""Fixtures over the vectors of every kind."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .rig import StoreVector, read_store_vectors


@pytest.fixture(scope="session")
def entries(shared_dir: Path) -> dict[str, StoreVector]:
    """All good entries of the shared vectors, read-only."""
    return read_store_vectors(shared_dir)


@pytest.fixture(scope="session")
def variants(make_broken: ModuleType) -> dict[str, Any]:
    """The vectors' own damage, by name."""
    return {variant.name: variant for variant in make_broken.VARIANTS}
