"""Times per rank that a document records, as bars on one scale; shown, never judged (evidence-model §12).

The phases of a restore do not add up to its service. What they leave is a bar of its own, and what is more
than the whole is said to be so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from app.core.qualify.facts import Timing
from app.core.qualify.pointer import last_step, parent
from app.dashboard.lanes import UNATTRIBUTED
from app.dashboard.wording import PHASES as OWN_PHASES

PHASES: Final[dict[str, str]] = {
    "manifest_lookup": "root document read and judged",
    "prior_cuda_work": "fence: earlier GPU work on these pages is done",
    "restore_read": "reading and checking the stored bytes",
    "reassembly_decode": "putting the stream together",
    "h2d_submit": "copies to the GPU queued",
    "cuda_sync": "waiting until the GPU has them",
    **{str(phase): says for phase, says in OWN_PHASES.items() if phase != UNATTRIBUTED},
}
"""Phases of upstream's restores, then those of our own."""
QUEUE: Final = "queue_wait"
SERVICE: Final = "service"
WHOLE: Final = "end_to_end"
# Names under which writers kept the same thing, and steps of a path that say nothing.
_ENDINGS: Final = (
    "_by_physical_rank",
    "_by_rank",
    "_per_rank",
    "_milliseconds",
    "_seconds",
    "_ms",
    "_ns",
    "_s",
)
_EMPTY_STEPS: Final = frozenset(
    {"*", "payload", "phase_ms", "phases_ns", "rank_records", "rank_restore", "ranks"}
)
_MS: Final = {"ns": Decimal("0.000001"), "ms": Decimal(1), "s": Decimal(1000)}
MOST_GROUPS: Final = 40
_LONGEST_MS: Final = Decimal(10) ** 12
MEASURED: Final = "measured"
_LEGEND: Final = {MEASURED: "one recorded time"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    """One rectangle: `x` and `width` in percent of the scale."""

    kind: str
    name: str
    x: float
    width: float
    ms: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBars:
    """One rank: its bars one after another, and what they add up to. `excess_ms` is by how much its phases
    are more than the whole they are phases of."""

    rank: int
    bars: tuple[TimeBar, ...]
    total_ms: Decimal
    excess_ms: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeGroup:
    """The ranks of one measurement. `remainder` says of what the remainder is left, empty without one."""

    title: str
    pointer: str
    ranks: tuple[RankBars, ...]
    remainder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChart:
    """All times of a document on one scale of `longest_ms`, with its round ticks.

    Attributes:
        kinds: kinds of bars with the names of the legend.
        left_out: measurements that are not drawn: more than `MOST_GROUPS`, or a value that can be no time.
    """

    groups: tuple[TimeGroup, ...]
    longest_ms: Decimal
    ticks: tuple[tuple[float, str], ...]
    kinds: tuple[tuple[str, str], ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """Lengths of one rank in ms, by name, in their order."""

    rank: int
    parts: tuple[tuple[str, Decimal], ...]
    whole: Decimal | None

    @property
    def total(self) -> Decimal:
        return sum((length for _, length in self.parts), Decimal(0))

    @property
    def is_time(self) -> bool:
        """Whether every length can be a time: foreign documents may hold any number."""
        return all(0 <= length <= _LONGEST_MS for _, length in self.parts)


def time_chart(timings: Sequence[Timing]) -> TimeChart | None:
    """The times of a document as bars; None where it records none."""
    every = list(_measurements(timings))
    measured = [one for one in every if one[2] and all(lane.is_time for lane in one[2])][:MOST_GROUPS]
    longest = max((lane.total for _, _, lanes in measured for lane in lanes), default=Decimal(0))
    if longest <= 0:
        return None
    groups = tuple(_group(title, pointer, lanes, longest=longest) for title, pointer, lanes in measured)
    kinds = {bar.kind: bar.name for group in groups for rank in group.ranks for bar in rank.bars}
    return TimeChart(
        groups=groups,
        longest_ms=longest,
        ticks=tuple(_ticks(longest)),
        kinds=tuple((kind, _LEGEND.get(kind, name)) for kind, name in kinds.items()),
        left_out=len(every) - len(measured),
    )


def _measurements(timings: Sequence[Timing]) -> Iterator[tuple[str, str, list[_Lane]]]:
    """(title, pointer, lanes) of what belongs together: one restore with its phases, else one vector."""
    together: dict[str, dict[str, Timing]] = {}
    for one in timings:
        together.setdefault(_home(one.pointer), {}).setdefault(plain_name(one.pointer), one)
    for home, named in together.items():
        if SERVICE in named and (WHOLE in named or PHASES.keys() & named.keys()):
            yield _title(home), named[SERVICE].pointer, _split(named)
            named = {name: one for name, one in named.items() if not _is_part(name)}
        for name, one in named.items():
            yield _title(f"{home}/{name}"), one.pointer, _single(one, name=name)


def plain_name(pointer: str) -> str:
    """What was measured, without unit and "by rank"."""
    name = last_step(pointer)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def _home(pointer: str) -> str:
    """What holds the measurement: the path without its last step and without steps that say nothing."""
    return "/".join(step for step in parent(pointer).split("/") if step not in _EMPTY_STEPS)


def _title(path: str) -> str:
    """Steps as words; where every step says nothing, it is the restore itself."""
    return " / ".join(step.replace("_", " ") for step in path.split("/") if step) or "the restore"


def _is_part(name: str) -> bool:
    return name in (QUEUE, SERVICE, WHOLE, UNATTRIBUTED) or name in PHASES


def _single(one: Timing, *, name: str) -> list[_Lane]:
    by_rank = sorted(_by_rank(one).items())
    return [_Lane(rank=rank, parts=((name, length),), whole=None) for rank, length in by_rank]


def _split(named: dict[str, Timing]) -> list[_Lane]:
    """Queue, phases and the remainder of each rank that has a service time."""
    known = {name: _by_rank(one) for name, one in named.items()}
    phases = [name for name in PHASES if name in known]
    lanes = []
    for rank, service in sorted(known[SERVICE].items()):
        parts = [(name, known[name][rank]) for name in phases if rank in known[name]]
        whole = service if parts else known.get(WHOLE, {}).get(rank)
        parts = parts or [(SERVICE, service)]
        rest = Decimal(0) if whole is None else whole - sum((length for _, length in parts), Decimal(0))
        queue = [(QUEUE, known[QUEUE][rank])] if phases and rank in known.get(QUEUE, {}) else []
        left = [(UNATTRIBUTED, rest)] if rest > 0 else []
        lanes.append(_Lane(rank=rank, parts=(*queue, *parts, *left), whole=whole))
    return lanes


def _by_rank(one: Timing) -> dict[int, Decimal]:
    return {rank: Decimal(value) * _MS[one.unit] for rank, value in zip(one.ranks, one.values, strict=True)}


def _group(title: str, pointer: str, lanes: Sequence[_Lane], *, longest: Decimal) -> TimeGroup:
    names = {name for lane in lanes for name, _ in lane.parts}
    of = "service less its phases" if PHASES.keys() & names else "end to end less service"
    return TimeGroup(
        title=title,
        pointer=pointer,
        ranks=tuple(_drawn(lane, longest=longest) for lane in lanes),
        remainder=of if any(lane.whole is not None for lane in lanes) else "",
    )


def _drawn(lane: _Lane, *, longest: Decimal) -> RankBars:
    bars, at = [], Decimal(0)
    for name, length in lane.parts:
        bars.append(
            TimeBar(
                kind=name if _is_part(name) else MEASURED,
                name=_words(name),
                x=float(at / longest * 100),
                width=float(length / longest * 100),
                ms=length,
            )
        )
        at += length
    inside = sum((length for name, length in lane.parts if name != QUEUE), Decimal(0))
    excess = Decimal(0) if lane.whole is None else max(Decimal(0), inside - lane.whole)
    return RankBars(rank=lane.rank, bars=tuple(bars), total_ms=at, excess_ms=excess)


def _words(name: str) -> str:
    if name == UNATTRIBUTED:
        return "remainder, claimed by no phase"
    return name.replace("_", " ")


def _ticks(longest: Decimal) -> Iterator[tuple[float, str]]:
    """At most six round marks."""
    step = Decimal(1).scaleb(longest.adjusted())
    for part in (Decimal("0.2"), Decimal("0.5"), Decimal(1), Decimal(2)):
        if longest / (step * part) <= 6:
            step *= part
            break
    at = Decimal(0)
    while at <= longest:
        yield float(at / longest * 100), f"{at.normalize():,f}"
        at += step
