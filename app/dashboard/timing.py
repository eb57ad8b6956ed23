"""From the rows of a restore to its lanes and to the table with the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.core.canonical_json import JsonObject, decode_strict, expect_object
from app.core.restore.report import RankOutcome, RankReport, parse_report
from app.core.restore.timeline import Phase
from app.dashboard.lanes import UNATTRIBUTED, Chart, RankLane, draw, slowest_rank, totals
from app.models import RankAttempt, RankReportRow, Restore
from app.restores.api.resources import service_start_ns
from app.restores.service.oracle_parts import OraclePart, part_of

KINDS = (*map(str, Phase), UNATTRIBUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """One column of the table: a rank, its newest attempt, what it measured.

    Attributes:
        totals: ns per phase and unattributed, empty without a report.
        counts: intervals per phase.
        part: of the answer, where the rank was asked a question.
    """

    attempt: RankAttempt
    lane: RankLane
    report: RankReport | None
    totals: dict[str, int]
    counts: dict[str, int]
    part: OraclePart | None = None

    @property
    def rank(self) -> int:
        return self.attempt.rank

    @property
    def placed(self) -> bool:
        return self.report is not None and self.report.outcome is RankOutcome.RESTORED

    @property
    def place(self) -> str:
        return f"{self.attempt.device.node.name}/{self.attempt.device.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Everything measured of one restore.

    Attributes:
        clock_error_ns: no rank's start is further off than this on the chart.
        kinds: phases that occurred on some rank, in the closed list's order, unattributed last.
    """

    ranks: tuple[RankTimes, ...]
    chart: Chart | None
    clock_error_ns: int | None
    kinds: tuple[str, ...]
    slowest: int | None
    decided_ns: int | None

    @property
    def measured(self) -> bool:
        return any(rank.report for rank in self.ranks)

    @property
    def asked(self) -> bool:
        """Whether some rank was asked a question."""
        return any(rank.part is not None for rank in self.ranks)

    @property
    def total_bytes(self) -> int:
        """What all ranks that reported submitted."""
        return sum(rank.report.bytes for rank in self.ranks if rank.report)

    @property
    def placed_ns(self) -> int | None:
        """From admission until the last rank's service ended, once every rank has placed everything."""
        placed = [rank.lane.service_end_ns for rank in self.ranks if rank.placed]
        known = [end for end in placed if end is not None]
        return max(known) if known and len(known) == len(self.ranks) else None

    @property
    def unattributed_ns(self) -> int:
        """The largest unattributed rest of any rank."""
        return max((rank.report.unattributed_ns for rank in self.ranks if rank.report), default=0)

    @property
    def working(self) -> bool:
        """Whether a rank was claimed and has not reported."""
        return any(rank.lane.claimed_ns is not None and not rank.report for rank in self.ranks)


def timing_of(restore: Restore, *, now: datetime) -> Timing:
    """Lanes and table of a restore as it stands `now`."""
    ranks = tuple(_rank_times(attempt, restore=restore, now=now) for attempt in newest_attempts(restore))
    lanes = [rank.lane for rank in ranks]
    decided_ns = _since_admission(restore.decided_at, restore=restore)
    errors = [rank.attempt.report.claim_round_trip_ns for rank in ranks if rank.attempt.report]
    return Timing(
        ranks=ranks,
        chart=draw(lanes, decided_ns=decided_ns) if restore.admitted_at else None,
        clock_error_ns=max(errors, default=None),
        kinds=tuple(kind for kind in KINDS if any(kind in rank.totals for rank in ranks)),
        slowest=slowest_rank(lanes),
        decided_ns=decided_ns,
    )


def newest_attempts(restore: Restore) -> Sequence[RankAttempt]:
    """One attempt per rank, the last one, in the order of ranks."""
    newest: dict[int, RankAttempt] = {}
    for attempt in sorted(restore.attempts, key=lambda one: (one.rank, one.number)):
        newest[attempt.rank] = attempt
    return list(newest.values())


def read_report(row: RankReportRow) -> RankReport:
    """The report inside a stored document; it was checked when it came in."""
    return parse_report(_document(row)["report"])


def _document(row: RankReportRow) -> JsonObject:
    return expect_object(decode_strict(row.document, subject="rank report"), subject="rank report")


def _rank_times(attempt: RankAttempt, *, restore: Restore, now: datetime) -> RankTimes:
    document = _document(attempt.report) if attempt.report else None
    report = None if document is None else parse_report(document["report"])
    part = None if document is None else part_of(document)
    counts: dict[str, int] = {}
    for one in report.intervals_ns if report else ():
        counts[one.phase] = counts.get(one.phase, 0) + 1
    return RankTimes(
        attempt=attempt,
        lane=_lane(attempt, restore=restore, report=report, part=part, now=now),
        report=report,
        totals=totals(report.intervals_ns, service_ns=report.service_ns) if report else {},
        counts=counts,
        part=part,
    )


def _lane(
    attempt: RankAttempt,
    *,
    restore: Restore,
    report: RankReport | None,
    part: OraclePart | None,
    now: datetime,
) -> RankLane:
    instants: dict[str, Any] = {
        "claimed_ns": attempt.claimed_at,
        "ready_ns": attempt.ready_at,
        "acknowledged_ns": attempt.acknowledged_at,
        "stopped_ns": attempt.ended_at if attempt.outcome != "restored" else None,
        "busy_until_ns": None if attempt.acknowledged_at else attempt.ended_at or now,
    }
    row = attempt.report
    start_ns = service_start_ns(row, attempt=attempt, restore=restore) if row else None
    return RankLane(
        rank=attempt.rank,
        **{name: _since_admission(moment, restore=restore) for name, moment in instants.items()},
        service_start_ns=start_ns,
        pool_commit_ns=row.pool_commit_ns if row else 0,
        service_ns=report.service_ns if report else None,
        intervals=report.intervals_ns if report else (),
        asked_start_ns=None if part is None or start_ns is None else start_ns + part.start_ns,
        asked_ns=0 if part is None else part.duration_ns,
    )


def _since_admission(moment: datetime | None, *, restore: Restore) -> int | None:
    if moment is None or restore.admitted_at is None:
        return None
    since = moment - restore.admitted_at
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
