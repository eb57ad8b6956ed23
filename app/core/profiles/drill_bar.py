"""The bar a drill must pass (profile-contract §12.3 to §12.5, §18.9).

Restores of the persistent cache count, and nothing an engine still held: the source must be the disk.
"""

from collections.abc import Iterator
from typing import Final

from app.core.errors import shown
from app.core.profiles.drill import Drill, DrillAnswer, DrillKind, RankSight, RestoreSource
from app.core.profiles.findings import CheckResult, ProfileFinding, finding

KILLED: Final = 137
"""Exit status of a container ended by SIGKILL (§12.4)."""


def drill_findings(drill: Drill) -> tuple[ProfileFinding, ...]:
    """The bar of a drill: for a restart every rank, all tokens, from disk, in a new generation, with the
    exact answer; for prefix cases a hit and the exact answer."""
    restarted = drill.kind is not DrillKind.PREFIX
    found = [
        *(_restart_findings(drill) if restarted else _not_restarted()),
        *_answer_findings(drill.answers, asked=restarted, drill=drill),
        *_prefix_findings(drill),
    ]
    return tuple(found)


def _restart_findings(drill: Drill) -> Iterator[ProfileFinding]:
    before = {one.rank: one for one in drill.before}
    after = {one.rank: one for one in drill.after}
    yield from _all_ranks(drill)
    for rank in sorted(before.keys() & after.keys()):
        was, now = before[rank], after[rank]
        yield _said(
            "RST_TOKENS_DIFFER",
            now.tokens == was.tokens and drill.offered_tokens in (None, now.tokens),
            now,
            "tokens",
            drill=drill,
            expected=f"all {drill.offered_tokens or was.tokens} offered",
            found=now.tokens,
        )
        source = now.source
        yield _said(
            "RST_SOURCE_GPU",
            source is RestoreSource.DISK,
            now,
            "source",
            drill=drill,
            expected=RestoreSource.DISK.value,
            found=source.value if source else "none",
        )
        yield _said(
            "RST_RECREATED",
            now.generation != was.generation,
            now,
            "generation",
            drill=drill,
            expected=f"another than {was.generation}",
            found=now.generation,
        )
    yield from _one_count(drill)
    yield _exit_finding(drill)


def _all_ranks(drill: Drill) -> Iterator[ProfileFinding]:
    """The ranks before are 0 … n - 1, one for each node, and the same after, each once."""
    expected = list(range(len(drill.node_ids)))
    for name, sights in (("before", drill.before), ("after", drill.after)):
        ranks = sorted(one.rank for one in sights)
        yield finding(
            "RST_RANK_MISSING",
            CheckResult.PASS if ranks == expected else CheckResult.FAIL,
            pointer=f"/{name}",
            expected=f"each of 0 to {len(expected) - 1}, one per node",
            found=shown(ranks),
            document_sha256=drill.sha256,
        )


def _one_count(drill: Drill) -> Iterator[ProfileFinding]:
    """The same number on every rank (§12.3): tokens are those of the sequence."""
    counts = sorted({one.tokens for one in drill.after})
    if len(counts) > 1:
        yield finding(
            "RST_TOKENS_DIFFER",
            CheckResult.FAIL,
            pointer="/after",
            expected="the same tokens on every rank",
            found=shown(counts),
            document_sha256=drill.sha256,
        )
    if drill.after and counts[-1:] == [0]:
        yield finding(
            "RST_TOKENS_DIFFER",
            CheckResult.FAIL,
            pointer="/after",
            expected="restored tokens",
            found="0",
            document_sha256=drill.sha256,
        )


def _exit_finding(drill: Drill) -> ProfileFinding:
    """After SIGKILL every container ended with 137; a planned stop says nothing about its status."""
    if drill.kind is not DrillKind.SIGKILL:
        return finding(
            "RST_EXIT_STATUS", CheckResult.NOT_APPLICABLE, detail="nothing was killed", pointer="/exit_status"
        )
    good = len(drill.exit_status) == len(drill.node_ids) and set(drill.exit_status) == {KILLED}
    return finding(
        "RST_EXIT_STATUS",
        CheckResult.PASS if good else CheckResult.FAIL,
        pointer="/exit_status",
        expected=f"{KILLED} from each of {len(drill.node_ids)}",
        found=shown(list(drill.exit_status)),
        document_sha256=drill.sha256,
    )


def _not_restarted() -> Iterator[ProfileFinding]:
    for code in (
        "RST_RANK_MISSING",
        "RST_TOKENS_DIFFER",
        "RST_SOURCE_GPU",
        "RST_RECREATED",
        "RST_EXIT_STATUS",
    ):
        yield finding(code, CheckResult.NOT_APPLICABLE, detail="nothing was restarted")


def _answer_findings(
    answers: tuple[DrillAnswer, ...], *, asked: bool, drill: Drill
) -> Iterator[ProfileFinding]:
    for one in answers:
        yield _exact(one, drill=drill)
    if asked and not answers:
        yield finding(
            "RST_ANSWER",
            CheckResult.FAIL,
            pointer="/answers",
            expected="the answer after the restore",
            found="none",
            document_sha256=drill.sha256,
        )


def _exact(answer: DrillAnswer, *, drill: Drill) -> ProfileFinding:
    same = answer.expected == answer.observed
    return finding(
        "RST_ANSWER",
        CheckResult.PASS if same else CheckResult.FAIL,
        pointer=answer.pointer,
        expected=answer.expected,
        found=answer.observed,
        document_sha256=drill.sha256,
    )


def _prefix_findings(drill: Drill) -> Iterator[ProfileFinding]:
    """A hit, as much restored as was found, and the exact answer; a case without one says so (§12.5)."""
    if not drill.prefix_cases:
        result = CheckResult.FAIL if drill.kind is DrillKind.PREFIX else CheckResult.NOT_TESTED
        yield finding("PFX_ZERO_HIT", result, pointer="/prefix_cases", detail="prefix cases")
    for case in drill.prefix_cases:
        hit = case.found_tokens > 0 and case.restored_tokens > 0 and case.cached_tokens != 0
        yield finding(
            "PFX_ZERO_HIT",
            CheckResult.PASS if hit else CheckResult.FAIL,
            pointer=case.pointer,
            detail=case.name,
            expected="tokens found and restored",
            found=f"{case.found_tokens} found, {case.restored_tokens} restored of {case.offered_tokens}",
            document_sha256=drill.sha256,
        )
        if case.restored_tokens != case.found_tokens:
            yield finding(
                "RST_TOKENS_DIFFER",
                CheckResult.FAIL,
                pointer=f"{case.pointer}/restored_tokens",
                detail=case.name,
                expected=f"all {case.found_tokens} found",
                found=case.restored_tokens,
                document_sha256=drill.sha256,
            )
        if case.answer is not None:
            yield _exact(case.answer, drill=drill)
        else:
            detail = f"not given: the answer of {case.name}"
            yield finding("RST_ANSWER", CheckResult.NOT_TESTED, pointer=case.pointer, detail=detail)


def _said(
    code: str, good: bool, sight: RankSight, name: str, *, drill: Drill, expected: object, found: object
) -> ProfileFinding:
    return finding(
        code,
        CheckResult.PASS if good else CheckResult.FAIL,
        pointer=f"{sight.pointer}/{name}",
        expected=expected,
        found=found,
        rank=sight.rank,
        document_sha256=drill.sha256,
    )
