"""A bounded number of bent stores per entry; ``python -m tests.core.fuzz`` goes on for longer."""

import tempfile
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .cases import NAMES, FuzzCase, content_of, read_case
from .mutations import mutate
from .properties import examine, examine_on_disk

EXAMPLES = 120
DISK_EXAMPLES = 20

bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)


@cache
def case_of(shared: Path, name: str) -> FuzzCase:
    return read_case(shared, name=name)


@pytest.mark.parametrize("name", NAMES)
def test_the_unbent_entry_is_verified(shared_dir: Path, name: str) -> None:
    case = case_of(shared_dir, name)
    assert content_of(case.verify(case.store, layout=case.layout)) == case.content


@pytest.mark.parametrize("name", NAMES)
@bounded
@given(random=st.randoms(use_true_random=False))
def test_no_bent_store_passes_or_escapes(shared_dir: Path, name: str, random: Random) -> None:
    examine(case_of(shared_dir, name), random=random)


@pytest.mark.parametrize("name", NAMES)
@settings(bounded, max_examples=DISK_EXAMPLES)
@given(random=st.randoms(use_true_random=False))
def test_what_a_lookup_refuses_a_check_names(shared_dir: Path, name: str, random: Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        examine_on_disk(case_of(shared_dir, name), folder=Path(folder), random=random)


def test_the_same_seed_bends_alike(shared_dir: Path) -> None:
    case = case_of(shared_dir, "page-delta-v3-1024")
    for seed in range(50):
        assert mutate(case, random=Random(seed)) == mutate(case, random=Random(seed))
