"""The geometry of rank lanes: times in, rectangles in percent of the chart's width out. No I/O, no HTML.

All lanes of a chart stand on one clock, ns since the restore was admitted. What a rank measured is
drawn as it was measured: intervals are never merged, moved or widened, and what no phase
claims is a bar of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from app.core.restore.timeline import Interval, Phase

UNATTRIBUTED: Final = "unattributed"
SHORT_NAMES: Final[dict[str, str]] = {
    Phase.MANIFEST_LOOKUP: "manifest",
    Phase.PLANNING: "plan",
    Phase.RESERVATION: "reserve",
    Phase.PRIOR_DEVICE_WORK: "fence",
    Phase.BUFFER_WAIT: "buffers",
    Phase.READ_AUTHENTICATE: "read",
    Phase.ARENA_WAIT: "arena",
    Phase.HOST_COPY: "copy",
    Phase.SUBMISSION: "submit",
    Phase.STREAM_DIGEST_WAIT: "digest",
    Phase.FINAL_COMPLETION: "finish",
    Phase.CLEAN_UP: "clean up",
    UNATTRIBUTED: "unattributed",
}

# Labels are fitted as if the chart were so wide; narrower screens hide them, the tables have every number.
_CHART_PX: Final = 900.0
_CHARACTER_PX: Final = 6.6
_PADDING_PX: Final = 8.0
# Narrower than a fifth of a pixel on a very wide screen: counted, not drawn.
_NARROWEST_PERCENT: Final = 0.005
_MOST_TICKS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLane:
    """What is known of one rank; every instant in ns since admission, except those of `intervals`.

    Attributes:
        claimed_ns: when a worker took the rank; its queue wait ends there.
        pool_commit_ns: how long committing the pool's pages took, right before the service.
        service_start_ns, service_ns, intervals: from the rank's report; intervals count from its service.
        asked_start_ns, asked_ns: when the rank was asked a question after its service, and for how long.
        busy_until_ns: how long a rank that has not published is known to have waited or been at work.
        ready_ns, acknowledged_ns: ready told to the control plane; its publish acknowledged.
        stopped_ns: when the rank ended without pages.
    """

    rank: int
    claimed_ns: int | None = None
    pool_commit_ns: int = 0
    service_start_ns: int | None = None
    service_ns: int | None = None
    intervals: tuple[Interval, ...] = ()
    asked_start_ns: int | None = None
    asked_ns: int = 0
    busy_until_ns: int | None = None
    ready_ns: int | None = None
    acknowledged_ns: int | None = None
    stopped_ns: int | None = None

    @property
    def service_end_ns(self) -> int | None:
        if self.service_start_ns is None or self.service_ns is None:
            return None
        return self.service_start_ns + self.service_ns

    @property
    def asked_end_ns(self) -> int | None:
        return None if self.asked_start_ns is None else self.asked_start_ns + self.asked_ns

    @property
    def last_ns(self) -> int:
        """The last instant the lane shows."""
        known = (
            self.claimed_ns,
            self.service_end_ns,
            self.asked_end_ns,
            self.busy_until_ns,
            self.ready_ns,
            self.acknowledged_ns,
            self.stopped_ns,
        )
        return max((moment for moment in known if moment is not None), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One rectangle: `x` and `width` in percent, its colour class, its label if it fits."""

    kind: str
    x: float
    width: float
    start_ns: int
    duration_ns: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One instant: `x` in percent."""

    kind: str
    x: float
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDrawing:
    """One rank drawn: its course, the same time summed by phase, and its instants."""

    rank: int
    course: tuple[Bar, ...]
    sums: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    slowest: bool
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All lanes of one restore on one clock."""

    end_ns: int
    ticks: tuple[Mark, ...]
    lanes: tuple[LaneDrawing, ...]


def draw(lanes: Sequence[RankLane], *, decided_ns: int | None = None) -> Chart:
    """Draw the lanes on one scale, from admission to the last instant any of them shows."""
    end_ns = max([*(lane.last_ns for lane in lanes), decided_ns or 0, 1])
    slowest = slowest_rank(lanes)
    scale = _Scale(end_ns=end_ns)
    return Chart(
        end_ns=end_ns,
        ticks=tuple(Mark(kind="tick", x=scale.x(at), at_ns=at) for at in tick_instants(end_ns)),
        lanes=tuple(
            _draw_lane(lane, scale=scale, decided_ns=decided_ns, slowest=lane.rank == slowest)
            for lane in lanes
        ),
    )


def slowest_rank(lanes: Iterable[RankLane]) -> int | None:
    """The rank with the longest service, where at least two have one; one that stopped early has none."""
    whole = (lane for lane in lanes if lane.stopped_ns is None)
    served = [(lane.service_ns, -lane.rank) for lane in whole if lane.service_ns is not None]
    return -max(served)[1] if len(served) > 1 else None


def gaps(intervals: Sequence[Interval], *, service_ns: int) -> list[tuple[int, int]]:
    """The stretches of `[0, service_ns)` that no interval covers."""
    edges = [0, *(edge for one in intervals for edge in (one.start_ns, one.end_ns)), service_ns]
    return [(start, end) for start, end in list(pairwise(edges))[::2] if end > start]


def tick_instants(end_ns: int) -> list[int]:
    """Round instants from 0 up to `end_ns`, at most nine of them."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if end_ns // (step * factor) < _MOST_TICKS:
                return list(range(0, end_ns + 1, step * factor))
        step *= 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    end_ns: int

    def x(self, at_ns: int) -> float:
        return round(100 * min(max(at_ns, 0), self.end_ns) / self.end_ns, 4)

    def bar(self, kind: str, *, start_ns: int, end_ns: int, label: str = "") -> Bar:
        x, end = self.x(start_ns), self.x(end_ns)
        width = round(max(end - x, 0.0), 4)
        fits = len(label) * _CHARACTER_PX + _PADDING_PX <= width / 100 * _CHART_PX
        return Bar(
            kind=kind,
            x=x,
            width=width,
            start_ns=start_ns,
            duration_ns=max(end_ns - start_ns, 0),
            label=label if fits else "",
        )


def _draw_lane(lane: RankLane, *, scale: _Scale, decided_ns: int | None, slowest: bool) -> LaneDrawing:
    unsorted = [*_waits(lane, scale=scale), *_course(lane, scale=scale)]
    drawn = sorted(unsorted, key=lambda bar: bar.start_ns)
    visible = tuple(bar for bar in drawn if bar.width >= _NARROWEST_PERCENT)
    return LaneDrawing(
        rank=lane.rank,
        course=visible,
        sums=tuple(_sums(lane, scale=scale)),
        marks=tuple(_marks(lane, scale=scale, decided_ns=decided_ns)),
        slowest=slowest,
        left_out=len(drawn) - len(visible),
    )


def _waits(lane: RankLane, *, scale: _Scale) -> Iterable[Bar]:
    """Before the service: the queue, then from the claim to the start; after it: the question, if one was
    asked, then private pages held."""
    if lane.claimed_ns is None:
        if lane.last_ns:
            yield scale.bar("queue", start_ns=0, end_ns=lane.last_ns)
        return
    yield scale.bar("queue", start_ns=0, end_ns=lane.claimed_ns)
    if lane.service_start_ns is not None:
        commit_ns = max(lane.service_start_ns - lane.pool_commit_ns, lane.claimed_ns)
        yield scale.bar("claim", start_ns=lane.claimed_ns, end_ns=commit_ns)
        if commit_ns < lane.service_start_ns:
            yield scale.bar("pool", start_ns=commit_ns, end_ns=lane.service_start_ns, label="pool pages")
    if lane.asked_start_ns is not None and lane.asked_end_ns is not None:
        yield scale.bar("oracle", start_ns=lane.asked_start_ns, end_ns=lane.asked_end_ns)
    service_end_ns = lane.asked_end_ns or lane.service_end_ns
    settled_ns = max(lane.acknowledged_ns or 0, lane.stopped_ns or 0, lane.busy_until_ns or 0)
    if service_end_ns is not None and settled_ns > service_end_ns:
        yield scale.bar("barrier", start_ns=service_end_ns, end_ns=settled_ns)


def _course(lane: RankLane, *, scale: _Scale) -> Iterable[Bar]:
    """The service in the order of time; without a report only that the rank was at work."""
    start_ns = lane.service_start_ns
    if start_ns is None or lane.service_ns is None:
        if lane.claimed_ns is not None and lane.busy_until_ns is not None:
            label = "at work, no report yet" if lane.stopped_ns is None else "no report"
            yield scale.bar("busy", start_ns=lane.claimed_ns, end_ns=lane.busy_until_ns, label=label)
        return
    unclaimed = [
        (start, end, UNATTRIBUTED) for start, end in gaps(lane.intervals, service_ns=lane.service_ns)
    ]
    claimed = [(one.start_ns, one.end_ns, str(one.phase)) for one in lane.intervals]
    for begin, end, kind in sorted(unclaimed + claimed):
        yield scale.bar(kind, start_ns=start_ns + begin, end_ns=start_ns + end, label=SHORT_NAMES[kind])


def _sums(lane: RankLane, *, scale: _Scale) -> Iterable[Bar]:
    """The service's length again, cut by phase in the order of the closed list, unattributed last."""
    if lane.service_start_ns is None or lane.service_ns is None:
        return
    at_ns = lane.service_start_ns
    for kind, total_ns in totals(lane.intervals, service_ns=lane.service_ns).items():
        yield scale.bar(kind, start_ns=at_ns, end_ns=at_ns + total_ns, label=SHORT_NAMES[kind])
        at_ns += total_ns


def totals(intervals: Sequence[Interval], *, service_ns: int) -> dict[str, int]:
    """Time per phase that occurred and the unattributed rest; together the service."""
    sums = dict.fromkeys(map(str, Phase), 0)
    for one in intervals:
        sums[one.phase] += one.end_ns - one.start_ns
    occurred = {str(one.phase) for one in intervals}
    rest = service_ns - sum(sums.values())
    return {kind: total for kind, total in sums.items() if kind in occurred} | {UNATTRIBUTED: rest}


def _marks(lane: RankLane, *, scale: _Scale, decided_ns: int | None) -> Iterable[Mark]:
    instants = {
        "ready": lane.ready_ns,
        "stopped": lane.stopped_ns,
        "decided": decided_ns,
        "acknowledged": lane.acknowledged_ns,
    }
    for kind, at_ns in instants.items():
        if at_ns is not None:
            yield Mark(kind=kind, x=scale.x(at_ns), at_ns=at_ns)
