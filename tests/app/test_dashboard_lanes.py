"""The geometry of lanes: intervals to rectangles, gaps to unattributed, nothing negative."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.restore.timeline import Interval, Phase
from app.dashboard.lanes import (
    SHORT_NAMES,
    UNATTRIBUTED,
    Chart,
    LaneDrawing,
    RankLane,
    draw,
    gaps,
    slowest_rank,
    tick_instants,
    totals,
)
from app.dashboard.wording import PHASES, WAITS

READ, COPY = Phase.READ_AUTHENTICATE, Phase.HOST_COPY


@pytest.mark.parametrize("kind", [*Phase, UNATTRIBUTED, *WAITS])
def test_everything_a_lane_can_draw_has_a_colour_and_words(kind: str) -> None:
    """A phase that nobody gave a colour would be drawn black, its label unreadable."""
    style = (Path(__file__).resolve().parents[2] / "static" / "app.css").read_text()
    assert re.search(rf"\.k-{kind} rect[^{{}}]*\{{[^}}]*fill:", style)
    assert {**PHASES, **WAITS}[kind]
    assert kind in WAITS or SHORT_NAMES[kind]


def interval(phase: Phase, start_ns: int, end_ns: int) -> Interval:
    return Interval(phase=phase, start_ns=start_ns, end_ns=end_ns)


def lane(rank: int = 0, **values: object) -> RankLane:
    known: dict[str, object] = {
        "claimed_ns": 100,
        "service_start_ns": 200,
        "service_ns": 600,
        "intervals": (interval(READ, 0, 300), interval(COPY, 400, 600)),
    }
    return RankLane(rank=rank, **{**known, **values})  # type: ignore[arg-type]


def only(chart: Chart) -> LaneDrawing:
    (drawing,) = chart.lanes
    return drawing


def shape(drawing: LaneDrawing) -> list[tuple[str, float, float]]:
    return [(bar.kind, bar.x, bar.width) for bar in drawing.course]


def test_a_lane_stands_on_the_clock_of_the_admission() -> None:
    drawing = only(draw([lane(ready_ns=1000)]))
    assert shape(drawing) == [
        ("queue", 0, 10),
        ("claim", 10, 10),
        ("read_authenticate", 20, 30),
        ("unattributed", 50, 10),
        ("host_copy", 60, 20),
    ]


def test_every_rank_has_the_same_scale() -> None:
    short, long = draw([lane(0), lane(1, service_ns=1800, intervals=())]).lanes
    assert short.course[2].width == pytest.approx(15)
    assert long.course[2].width == pytest.approx(90)


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ((), [(0, 600)]),
        ((interval(READ, 0, 600),), []),
        ((interval(READ, 10, 20), interval(COPY, 20, 590)), [(0, 10), (590, 600)]),
        ((interval(READ, 0, 100), interval(COPY, 150, 600)), [(100, 150)]),
    ],
)
def test_gaps_are_what_no_interval_covers(
    intervals: tuple[Interval, ...], expected: list[tuple[int, int]]
) -> None:
    assert gaps(intervals, service_ns=600) == expected


def test_the_sum_bar_is_the_service_again_with_unattributed_last() -> None:
    sums = only(draw([lane(ready_ns=1000)])).sums
    assert [(bar.kind, bar.x, bar.width) for bar in sums] == [
        ("read_authenticate", 20, 30),
        ("host_copy", 50, 20),
        ("unattributed", 70, 10),
    ]


def test_totals_add_up_to_the_service() -> None:
    intervals = (interval(READ, 0, 300), interval(COPY, 400, 450), interval(READ, 450, 460))
    sums = totals(intervals, service_ns=600)
    assert sums == {"read_authenticate": 310, "host_copy": 50, UNATTRIBUTED: 240}
    assert sum(sums.values()) == 600


def test_the_slowest_is_the_longest_service_not_the_latest_end() -> None:
    late = lane(0, service_start_ns=5000, service_ns=10, intervals=())
    assert slowest_rank([late, lane(1), lane(2)]) == 1
    assert [drawing.slowest for drawing in draw([late, lane(1)]).lanes] == [False, True]


def test_a_rank_that_stopped_early_is_not_the_slowest() -> None:
    assert slowest_rank([lane(0), lane(1), lane(2, service_ns=9000, stopped_ns=9500)]) == 0


@pytest.mark.parametrize("lanes", [[lane()], [lane(0), RankLane(rank=1)], []])
def test_one_report_alone_is_not_the_slowest(lanes: list[RankLane]) -> None:
    assert slowest_rank(lanes) is None


def test_a_rank_without_report_is_at_work_until_now() -> None:
    working = RankLane(rank=0, claimed_ns=250, busy_until_ns=1000)
    assert shape(only(draw([working]))) == [("queue", 0, 25), ("busy", 25, 75)]


def test_a_rank_nobody_claimed_waits_in_the_queue() -> None:
    assert shape(only(draw([RankLane(rank=0, busy_until_ns=800)]))) == [("queue", 0, 100)]


def test_ready_pages_wait_at_the_barrier_until_published() -> None:
    drawing = only(draw([lane(ready_ns=820, acknowledged_ns=1000)], decided_ns=900))
    assert shape(drawing)[-1] == ("barrier", 80, 20)
    assert {mark.kind: mark.x for mark in drawing.marks} == {"ready": 82, "decided": 90, "acknowledged": 100}


def test_a_rank_that_ended_without_pages_is_marked() -> None:
    marks = only(draw([lane(stopped_ns=1000)])).marks
    assert [(mark.kind, mark.x) for mark in marks] == [("stopped", 100)]


def test_labels_stand_only_where_they_fit() -> None:
    intervals = (interval(READ, 0, 590), interval(COPY, 590, 600))
    bars = only(draw([lane(intervals=intervals)])).course
    assert {bar.kind: bar.label for bar in bars if bar.kind in ("read_authenticate", "host_copy")} == {
        "read_authenticate": "read",
        "host_copy": "",
    }


def test_what_is_too_short_to_see_is_counted() -> None:
    tiny = (interval(READ, 0, 1), interval(COPY, 1, 10**9))
    drawing = only(draw([lane(service_ns=10**9, intervals=tiny)]))
    assert "read_authenticate" not in [bar.kind for bar in drawing.course]
    assert drawing.left_out == 3, "queue, claim and the read"


def test_an_admitted_restore_without_any_time_is_an_empty_chart() -> None:
    chart = draw([RankLane(rank=0), RankLane(rank=1)])
    assert [drawing.course for drawing in chart.lanes] == [(), ()]


@pytest.mark.parametrize("end_ns", [1, 999, 10**6, 1_234_567_890, 9 * 10**12])
def test_ticks_are_few_and_round(end_ns: int) -> None:
    ticks = tick_instants(end_ns)
    assert ticks[0] == 0
    assert ticks[-1] <= end_ns
    assert 1 <= len(ticks) <= 9
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1
    assert str(step).rstrip("0") in {"1", "2", "5"}


@st.composite
def rank_lanes(draw_value: st.DrawFn, rank: int = 0) -> RankLane:
    """Any lane, also with instants in an order that clocks of two machines may produce."""
    edges = sorted(draw_value(st.lists(st.integers(0, 10**10), max_size=24)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    phases = draw_value(st.lists(st.sampled_from(Phase), min_size=len(pairs), max_size=len(pairs)))
    instants = st.one_of(st.none(), st.integers(0, 10**10))
    names = ("claimed_ns", "busy_until_ns", "ready_ns", "acknowledged_ns", "stopped_ns", "service_start_ns")
    last = edges[-1] if edges else 0
    return RankLane(
        rank=rank,
        service_ns=draw_value(st.one_of(st.none(), st.integers(last, last + 10**9))),
        intervals=tuple(
            interval(phase, start, end) for phase, (start, end) in zip(phases, pairs, strict=True)
        ),
        **{name: draw_value(instants) for name in names},
    )


@given(st.lists(rank_lanes(), max_size=4), st.one_of(st.none(), st.integers(0, 10**10)))
def test_no_bar_is_negative_and_none_leaves_the_chart(lanes: list[RankLane], decided_ns: int | None) -> None:
    for drawing in draw(lanes, decided_ns=decided_ns).lanes:
        for bar in (*drawing.course, *drawing.sums):
            assert bar.width >= 0
            assert bar.duration_ns >= 0
            assert 0 <= bar.x <= bar.x + bar.width <= 100.001
        assert all(0 <= mark.x <= 100 for mark in drawing.marks)


@given(rank_lanes())
def test_bars_of_a_service_cover_it_once(one: RankLane) -> None:
    if one.service_ns is None or one.service_start_ns is None:
        return
    drawing = only(draw([one]))
    assert sum(bar.duration_ns for bar in drawing.sums) == one.service_ns
    assert (
        sum(end - start for start, end in gaps(one.intervals, service_ns=one.service_ns))
        == (totals(one.intervals, service_ns=one.service_ns)[UNATTRIBUTED])
    )
