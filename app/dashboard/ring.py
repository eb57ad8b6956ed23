"""Nodes and their devices drawn as a ring: where each one stands, in the units of a 360 x 360 drawing.

Every node owns a sector, as wide as it has columns of devices; a device is a circle. With few devices the
circles are large enough to be written in, with hundreds they are dots in several lanes, and the table beside
them has the words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, cos, pi, sin
from typing import Final

SIZE: Final = 360
CENTRE: Final = SIZE / 2
LANE_INNER: Final = 78.0
LANE_OUTER: Final = 141.0
ARC_RADIUS: Final = 150.0
NAME_RADIUS: Final = 159.0
LARGEST_CIRCLE: Final = 25.0
# From here on a circle has room for a name and a number, and for the sign of its last restore.
WRITABLE_CIRCLE: Final = 19.0
HUB_RADIUS: Final = 58
MOST_LANES: Final = 12
_LETTER: Final = 7.4
_GAP: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """One device: its centre, and the line that leads to it from the hub."""

    x: float
    y: float
    spoke: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sector:
    """One node: the arc that stands for it, the arc its name is written along, its devices in order.

    Attributes:
        name: what fits along the arc; empty where nothing does.
    """

    arc: str
    name: str
    name_arc: str
    circles: tuple[Circle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """All sectors; `radius` is that of every circle."""

    radius: float
    sectors: tuple[Sector, ...]

    @property
    def writable(self) -> bool:
        return self.radius >= WRITABLE_CIRCLE


def draw_ring(nodes: Sequence[tuple[str, int]]) -> Ring:
    """The ring of these (name, number of devices), clockwise from the top."""
    lanes = max(range(1, MOST_LANES + 1), key=lambda count: (_radius(nodes, lanes=count), -count))
    radius = _radius(nodes, lanes=lanes)
    total = sum(_columns(count, lanes=lanes) for _, count in nodes)
    # A single node's name belongs at the top, so its sector begins below.
    first = -pi if len(nodes) == 1 else 0.0
    sectors, at = [], 0
    for name, count in nodes:
        columns = _columns(count, lanes=lanes)
        start, end = (first + 2 * pi * place / total for place in (at, at + columns))
        circles = _circles(count, columns=columns, lanes=lanes, radius=radius, start=start, end=end)
        sectors.append(_sector(name, start=start, end=end, circles=circles))
        at += columns
    return Ring(radius=round(radius, 2), sectors=tuple(sectors))


def _columns(count: int, *, lanes: int) -> int:
    return max(1, ceil(count / lanes))


def _radius(nodes: Sequence[tuple[str, int]], *, lanes: int) -> float:
    """How large circles can be that touch neither their neighbours in a lane nor the next lane."""
    total = max(1, sum(_columns(count, lanes=lanes) for _, count in nodes))
    depth = (LANE_OUTER - LANE_INNER) / lanes
    innermost = LANE_OUTER - (lanes - 0.5) * depth
    return max(1.0, min(LARGEST_CIRCLE, depth / 2 - 1, innermost * sin(min(pi / 2, pi / total)) - 1))


def _circles(
    count: int, *, columns: int, lanes: int, radius: float, start: float, end: float
) -> tuple[Circle, ...]:
    depth = (LANE_OUTER - LANE_INNER) / lanes
    circles = []
    for place in range(count):
        lane, column = divmod(place, columns)
        angle = start + (column + 0.5) * (end - start) / columns
        circles.append(_circle(angle, distance=LANE_OUTER - (lane + 0.5) * depth, radius=radius))
    return tuple(circles)


def _circle(angle: float, *, distance: float, radius: float) -> Circle:
    x, y = _point(angle, distance=distance)
    spoke = (*_point(angle, distance=HUB_RADIUS + 2), *_point(angle, distance=distance - radius - 2))
    return Circle(x=x, y=y, spoke=spoke)


def _sector(name: str, *, start: float, end: float, circles: tuple[Circle, ...]) -> Sector:
    """A gap on both sides; names below the middle run the other way, to stand upright."""
    gap = min(_GAP, (end - start) * ARC_RADIUS / 8) / ARC_RADIUS
    start, end = start + gap, end - gap
    below = pi / 2 < (start + end) / 2 < 3 * pi / 2
    radius = NAME_RADIUS + (9 if below else 0)
    room = int((end - start) * radius / _LETTER)
    return Sector(
        arc=_arc(start, end, radius=ARC_RADIUS),
        name=_fitting(name, room=room),
        name_arc=_arc(end, start, radius=radius) if below else _arc(start, end, radius=radius),
        circles=circles,
    )


def _fitting(name: str, *, room: int) -> str:
    if len(name) <= room:
        return name
    return f"{name[: room - 1]}…" if room >= 4 else ""


def _arc(start: float, end: float, *, radius: float) -> str:
    """An SVG path along the circle from one angle to the other."""
    (x, y), (to_x, to_y) = _point(start, distance=radius), _point(end, distance=radius)
    long = int(abs(end - start) > pi)
    return f"M{x} {y}A{radius:g} {radius:g} 0 {long} {int(end > start)} {to_x} {to_y}"


def _point(angle: float, *, distance: float) -> tuple[float, float]:
    """Angles run clockwise from the top."""
    return round(CENTRE + distance * sin(angle), 2), round(CENTRE - distance * cos(angle), 2)
