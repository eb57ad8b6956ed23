"""The ring's geometry: nothing touches, nothing leaves the drawing, names stand upright and fit."""

from math import hypot

import pytest

from app.dashboard.ring import CENTRE, HUB_RADIUS, SIZE, Circle, draw_ring

RINGS = [
    [("a", 1)],
    [("a", 4)],
    [("node-a", 4), ("node-b", 1)],
    [("lonely", 0)],
    [("a", 0), ("b", 8)],
    [(f"node-{number}", 8) for number in range(8)],
    [(f"node-{number}", 8) for number in range(64)],
    [(f"node-{number}", 1 + number % 5) for number in range(17)],
    [("one node with very many devices", 512)],
]


def circles(nodes: list[tuple[str, int]]) -> list[Circle]:
    return [circle for sector in draw_ring(nodes).sectors for circle in sector.circles]


@pytest.mark.parametrize("nodes", RINGS)
def test_every_device_is_drawn_once_and_none_touches_another(nodes: list[tuple[str, int]]) -> None:
    ring, found = draw_ring(nodes), circles(nodes)
    assert [len(sector.circles) for sector in ring.sectors] == [count for _, count in nodes]
    assert len({(one.x, one.y) for one in found}) == len(found)
    for number, one in enumerate(found):
        for other in found[:number]:
            assert hypot(one.x - other.x, one.y - other.y) >= 2 * ring.radius - 0.02


@pytest.mark.parametrize("nodes", RINGS)
def test_circles_stay_between_hub_and_arc(nodes: list[tuple[str, int]]) -> None:
    ring = draw_ring(nodes)
    for one in circles(nodes):
        distance = hypot(one.x - CENTRE, one.y - CENTRE)
        assert distance - ring.radius > HUB_RADIUS
        assert distance + ring.radius < 148


def test_few_devices_can_be_written_in_and_many_cannot() -> None:
    assert draw_ring([("a", 4), ("b", 4)]).writable
    assert not draw_ring([(f"n{number}", 8) for number in range(64)]).writable


def test_a_spoke_leads_from_the_hub_to_its_circle() -> None:
    ring = draw_ring([("a", 4)])
    for one in ring.sectors[0].circles:
        x1, y1, x2, y2 = one.spoke
        assert hypot(x1 - CENTRE, y1 - CENTRE) == pytest.approx(HUB_RADIUS + 2, abs=0.02)
        assert hypot(x2 - one.x, y2 - one.y) == pytest.approx(ring.radius + 2, abs=0.02)


def test_a_name_that_does_not_fit_is_cut_or_left_out() -> None:
    assert draw_ring([("n" * 40, 1), ("b", 1)]).sectors[0].name == "n" * 40
    crowded = draw_ring([("n" * 40, 1) for _ in range(12)]).sectors[0].name
    assert crowded.endswith("…")
    assert len(crowded) < 12
    assert draw_ring([("node", 8) for _ in range(64)]).sectors[0].name == ""


def test_names_above_run_clockwise_and_below_the_other_way() -> None:
    sectors = draw_ring([(f"n{number}", 1) for number in range(4)]).sectors
    assert [" 0 0 1 " in sector.name_arc for sector in sectors] == [True, False, False, True]
    assert " 0 1 1 " in draw_ring([("only", 1)]).sectors[0].name_arc, "the only node's name stands on top"


def test_no_number_leaves_the_drawing() -> None:
    for nodes in RINGS:
        for one in circles(nodes):
            assert 0 < one.x < SIZE
            assert 0 < one.y < SIZE
