"""What must be equal or different across the ranks of one start."""

from typing import Any

import pytest

from app.core.profiles.findings import CheckResult, ProfileFinding, blocking
from app.core.profiles.guards import ranks_findings
from app.core.profiles.observed import observe
from tests.core import profile_folder as made
from tests.core import profile_rig as rig
from tests.core.test_profiles_guards import of

Json = dict[str, Any]
RING_CACHE = "tp4-dcp4-sparkcache"


def ranks(profile: str = RING_CACHE, **changes: Json) -> tuple[ProfileFinding, ...]:
    """Four ranks, ``rank2={…}`` with other values."""
    cases = []
    for number in range(4):
        values = made.rank_values(profile, rank=number) | changes.get(f"rank{number}", {})
        document = made.inspection(values)
        seen = observe(rig.dump(document), name=f"rank{number}.json", rank=number)
        cases.append(made.case(profile, observed=seen))
    return ranks_findings(cases)


def test_four_good_ranks_pass() -> None:
    assert blocking(ranks()) == ()
    assert [one.result for one in of(ranks(), "IMG_ID_MISMATCH")] == [CheckResult.PASS] * 4


def test_a_rank_with_another_namespace_is_told() -> None:
    found = ranks(rank2={"SPARKCACHE_CACHE_NAMESPACE": "sparkring-r33-3c3c3c3c3c3c-tp4-dcp1-sparkcache"})
    assert {one.code for one in blocking(found)} == {"NS_DERIVED", "NS_RANKS_DIFFER"}
    assert of(found, "NS_DERIVED")[2].rank == 2


def test_an_environment_used_twice_is_told() -> None:
    found = ranks(rank1={"NODE_RANK": "0"})
    assert [one.rank for one in of(found, "REN_RANK_ENV_REUSED") if one.blocks] == [1]


@pytest.mark.parametrize(
    ("image", "code"), [("sha256:" + "00" * 32, "IMG_ID_MISMATCH"), ("latest", "IMG_ID_FORM")]
)
def test_another_image_on_a_rank_is_told(image: str, code: str) -> None:
    seen = observe(
        rig.dump(made.inspection(made.rank_values(RING_CACHE), image=image)), name="rank0.json", rank=0
    )
    found = blocking(ranks_findings([made.case(RING_CACHE, observed=seen)]))
    assert [(one.code, one.found) for one in found] == [(code, image)]


def test_a_fabric_plan_is_asked_for_at_dcp4_only() -> None:
    def results(profile: str) -> list[CheckResult]:
        found = ranks_findings([made.case(profile)])
        return [one.result for one in found if one.code.startswith("FAB_")]

    assert results("tp4-dcp4") == [CheckResult.NOT_TESTED] * 5
    assert results("tp4-dcp1") == [CheckResult.NOT_APPLICABLE] * 5
    assert ranks_findings([]) == ()
