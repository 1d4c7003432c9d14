"""The geometry of the chart of correctness and conflict after each stage."""

from collections.abc import Sequence
from itertools import pairwise

from metacog.common.v1.msv_pb2 import MSV

from console.replies.fields import component
from kernel.values import value

WIDTH, HEIGHT = 340.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 66.0, 12.0, 28.0


@value
class Point:
    """A point is one measured value."""

    x: float
    y: float
    level: float


@value
class Line:
    """A line shows one component over the stages.

    Attributes:
        name: The component.
        points: Its known values.
        edges: Pairs of known values of neighbouring stages.
        unknown: Horizontal coordinates of measured stages with an unknown value.
        label_y: Vertical coordinate of the name beside the last value.
    """

    name: str
    points: list[Point]
    edges: list[tuple[Point, Point]]
    unknown: list[float]
    label_y: float


@value
class Evolution:
    """The geometry of the whole chart."""

    lines: list[Line]
    stages: list[tuple[str, float]]
    levels: list[tuple[float, float]]


def evolution(stages: Sequence[tuple[str, MSV | None]]) -> Evolution:
    """Return the chart of correctness and conflict after each of `stages`; an unmeasured stage has no state."""
    places = [(stage, _x(place, len(stages))) for place, (stage, _) in enumerate(stages)]
    lines = [_line(name, stages) for name in ("correctness", "conflict")]
    return Evolution(lines=_apart(lines), stages=places, levels=[(level, _y(level)) for level in (0.0, 0.5, 1.0)])


def _line(name: str, stages: Sequence[tuple[str, MSV | None]]) -> Line:
    count = len(stages)
    places: list[Point | None] = []
    unknown = []
    for place, (_, msv) in enumerate(stages):
        level = component(msv, name)
        places.append(None if level is None else Point(x=_x(place, count), y=_y(level), level=level))
        if msv is not None and level is None:
            unknown.append(_x(place, count))
    known = [point for point in places if point is not None]
    edges = [(a, b) for a, b in pairwise(places) if a is not None and b is not None]
    return Line(name=name, points=known, edges=edges, unknown=unknown, label_y=known[-1].y if known else 0.0)


def _apart(lines: list[Line], least: float = 16.0) -> list[Line]:
    """Return the lines with names that do not overlap."""
    first, second = lines
    if not first.points or not second.points or abs(first.label_y - second.label_y) >= least:
        return lines
    middle = (first.label_y + second.label_y) / 2
    up = -1 if first.label_y <= second.label_y else 1
    moved = (middle + up * least / 2, middle - up * least / 2)
    return [
        Line(name=line.name, points=line.points, edges=line.edges, unknown=line.unknown, label_y=round(y, 1))
        for line, y in zip(lines, moved, strict=True)
    ]


def _x(place: int, count: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (place / (count - 1) if count > 1 else 0.5), 1)


def _y(level: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - level), 1)
