"""What the tests of devices share; this folder is also run alone, where no other conftest exists."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.core.rig import Vector, read_vectors

from .cases import KINDS, Kind

settings.register_profile("gpu", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("gpu")

_REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Every kind of device."""
    found: Kind = request.param
    return found


@pytest.fixture(scope="session")
def entries() -> dict[str, Vector]:
    """All good entries of the shared vectors, read-only."""
    places = [_REPOSITORY.parent / "shared", _REPOSITORY / "shared"]
    if "SPARKGATE_SHARED" in os.environ:
        places = [Path(os.environ["SPARKGATE_SHARED"])]
    for folder in places:
        if (folder / "vectors").is_dir():
            return read_vectors(folder)
    pytest.skip(f"reference data: expected vectors in {places[0]}, found none; set SPARKGATE_SHARED")
