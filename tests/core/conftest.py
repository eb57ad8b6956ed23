"""Fixtures of the core's tests; the shared reference data is found by ``shared_dir`` of the top folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from .rig import Vector, import_make_broken, read_vectors

# A busy machine is no finding.
settings.register_profile("core", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")


@pytest.fixture(scope="session")
def vectors(shared_dir: Path) -> dict[str, Vector]:
    """All flat entries of the shared vectors, read-only."""
    return {name: one for name, one in read_vectors(shared_dir).items() if one.is_flat}


@pytest.fixture(scope="session")
def entries(shared_dir: Path) -> dict[str, Vector]:
    """All entries of the shared vectors, of every kind, read-only."""
    return read_vectors(shared_dir)


@pytest.fixture(scope="session")
def make_broken(shared_dir: Path) -> ModuleType:
    """The vectors' own damage, by name."""
    return import_make_broken(shared_dir)


@pytest.fixture
def vector(vectors: dict[str, Vector], tmp_path: Path) -> Vector:
    """Rank 0 of the nine-object snapshot, in a root that a test may damage."""
    return copied(vectors["flat-v2-tp4-rank0"], folder=tmp_path)


@pytest.fixture
def object_file(vector: Vector) -> Callable[[int], Path]:
    """The file of object ``index`` of ``vector``."""
    document = json.loads((vector.root / vector.entry["manifest"]).read_bytes())
    return lambda index: vector.root / "chunks" / f"{document['snapshot_objects'][index]['sha256']}.spcc"


def copied(vector: Vector, *, folder: Path) -> Vector:
    """The same entry in a root of its own."""
    root = folder / "root"
    shutil.copytree(vector.root, root)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return replace(vector, root=root)
