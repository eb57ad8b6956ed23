"""What must be equal or different across the ranks of one start (profile-contract §6.2, §7, §12.1)."""

from collections.abc import Iterator, Sequence

from app.core.profiles.findings import CheckResult, ProfileFinding, finding
from app.core.profiles.guards.cache import NAMESPACE_VARIABLE
from app.core.profiles.guards.case import RankCase
from app.core.profiles.namespace import IMAGE_ID, ranks_finding


def across_findings(cases: Sequence[RankCase]) -> Iterator[ProfileFinding]:
    """NS_RANKS_DIFFER, REN_RANK_ENV_REUSED, IMG_ID_MISMATCH and FAB_… over all given ranks."""
    if not cases:
        return
    numbered = dict(enumerate(cases))
    names = {
        number if case.observed.rank is None else case.observed.rank: case.environment.get(NAMESPACE_VARIABLE)
        for number, case in numbered.items()
    }
    yield ranks_finding(names)
    yield _reused(cases)
    yield from (_image(case) for case in cases)
    yield from _fabric(cases[0])


def _reused(cases: Sequence[RankCase]) -> ProfileFinding:
    """Environments are rank-specific: two equal ones are one file used twice."""
    seen: dict[frozenset[tuple[str, str]], str] = {}
    for case in cases:
        content = frozenset(case.environment.items())
        if content in seen:
            return finding(
                "REN_RANK_ENV_REUSED",
                CheckResult.FAIL,
                pointer="/NODE_RANK",
                expected="another environment on every rank",
                found=f"{seen[content]} and {case.observed.name} hold the same",
                rank=case.observed.rank,
                document_sha256=case.observed.sha256,
            )
        seen[content] = case.observed.name
    if len(cases) < 2:
        return finding("REN_RANK_ENV_REUSED", CheckResult.NOT_TESTED, detail="fewer than two ranks given")
    return finding("REN_RANK_ENV_REUSED", CheckResult.PASS, found=f"{len(cases)} different environments")


def _image(case: RankCase) -> ProfileFinding:
    found = case.observed.image_id
    if found is None:
        return case.untested("IMG_ID_MISMATCH", "not given: container inspection with its image id")
    if IMAGE_ID.fullmatch(found) is None:
        return case.result(
            "IMG_ID_FORM", CheckResult.FAIL, expected="sha256: and 64 hexadecimal characters", found=found
        )
    if case.image_id is None:
        return case.untested("IMG_ID_MISMATCH", "not given: image id to expect")
    return case.result(
        "IMG_ID_MISMATCH",
        CheckResult.PASS if found == case.image_id else CheckResult.FAIL,
        expected=case.image_id,
        found=found,
    )


def _fabric(case: RankCase) -> Iterator[ProfileFinding]:
    """§18.16: the fields of a fabric plan are not published, so none is passed or failed here."""
    for code in ("FAB_PLAN_MISSING", "FAB_QP_COUNT", "FAB_ROUTES", "FAB_DOMAIN", "FAB_MARKERS"):
        if case.entry.decode_context_parallel_size == 4:
            yield finding(code, CheckResult.NOT_TESTED, detail="not given: registered fabric plan")
        else:
            yield finding(code, CheckResult.NOT_APPLICABLE, detail="not DCP4")
