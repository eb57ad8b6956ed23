"""What a rank's environment must be, on every arm, with a cache or without (profile-contract §5, §14)."""

from collections.abc import Sequence

from app.core.profiles.findings import ProfileFinding
from app.core.profiles.guards.across import across_findings
from app.core.profiles.guards.cache import cache_findings
from app.core.profiles.guards.case import RankCase
from app.core.profiles.guards.degrees import degree_findings
from app.core.profiles.guards.transport import transport_findings

__all__ = ["RankCase", "rank_findings", "ranks_findings"]


def rank_findings(case: RankCase) -> tuple[ProfileFinding, ...]:
    """Every guard of one rank, in the order of §5; a passed check is a finding too."""
    return (*degree_findings(case), *cache_findings(case), *transport_findings(case))


def ranks_findings(cases: Sequence[RankCase]) -> tuple[ProfileFinding, ...]:
    """Every guard of every rank, then those across ranks."""
    single = [found for case in cases for found in rank_findings(case)]
    return (*single, *across_findings(cases))
