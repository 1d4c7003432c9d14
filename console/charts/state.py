"""The geometry of the activation as a bar of its terms, and of the state as a radar; unknown values are left out."""

import math

from metacog.common.v1.msv_pb2 import MSV
from metacog.router.v1.router_pb2 import Activation

from console.replies.fields import component
from kernel.activation import LOWERS, TERMS
from kernel.msv import ABBREVIATIONS
from kernel.values import value

# The axes of the radar, clockwise from the top.
COMPONENTS = ("correctness", "experience", "importance", "conflict", "emotional_response")

RADIUS, CENTRE_X, CENTRE_Y = 78.0, 150.0, 106.0
LABEL_RADIUS = 92.0


@value
class Term:
    """A term of the activation.

    Attributes:
        name: Its component.
        state: Value of the component [0..1]; None if unknown.
        weight: Weight in force [0..1].
        share: Its share of the activation [0..1]; None if it is left out.
        start: Its start on the bar [0..1].
        is_lowering: Whether a high value lowers the activation.
    """

    name: str
    state: float | None
    weight: float | None
    share: float | None
    start: float
    is_lowering: bool


def terms(activation: Activation, msv: MSV | None) -> list[Term]:
    """Return the terms of an activation, end to end.

    Example:
        >>> activation = Activation(terms={"correctness": 0.2, "importance": 0.1}, weights={"correctness": 0.3})
        >>> [(each.name, each.start, each.share) for each in terms(activation, None)][:2]
        [('correctness', 0.0, 0.2), ('conflict', 0.2, None)]
    """
    found, reached = [], 0.0
    for name in TERMS:
        share = activation.terms.get(name)
        found.append(
            Term(
                name=name,
                state=component(msv, name),
                weight=activation.weights.get(name),
                share=share,
                start=reached,
                is_lowering=name in LOWERS,
            )
        )
        reached += share or 0.0
    return found


@value
class Axis:
    """An axis of the radar, with the coordinates of its value."""

    name: str
    initials: str
    level: float | None
    reason: str
    end_x: float
    end_y: float
    label_x: float
    label_y: float
    anchor: str
    x: float | None
    y: float | None


@value
class Radar:
    """The geometry of the radar.

    Attributes:
        axes: Its axes.
        edges: Lines between the known values of neighbouring axes, as (x1, y1, x2, y2).
        area: Points of the filled shape; empty unless all values are known.
        rings: Points of the rings at 0.25, 0.5, 0.75 and 1.
    """

    axes: list[Axis]
    edges: list[tuple[float, float, float, float]]
    area: str
    rings: list[str]


def radar(msv: MSV | None) -> Radar:
    """Return the radar of a state."""
    axes = [_axis(place, name, msv) for place, name in enumerate(COMPONENTS)]
    pairs = zip(axes, [*axes[1:], axes[0]], strict=True)
    edges = [
        (a.x, a.y, b.x, b.y)
        for a, b in pairs
        if a.x is not None and a.y is not None and b.x is not None and b.y is not None
    ]
    known = [(axis.x, axis.y) for axis in axes if axis.x is not None]
    area = " ".join(f"{x},{y}" for x, y in known) if len(known) == len(axes) else ""
    return Radar(axes=axes, edges=edges, area=area, rings=[_ring(level) for level in (0.25, 0.5, 0.75, 1.0)])


def _axis(place: int, name: str, msv: MSV | None) -> Axis:
    level = component(msv, name)
    end_x, end_y = _point(place, RADIUS)
    label_x, label_y = _point(place, LABEL_RADIUS)
    x, y = _point(place, RADIUS * level) if level is not None else (None, None)
    leaning = math.sin(_angle(place))
    return Axis(
        name=name,
        initials=ABBREVIATIONS[name],
        level=level,
        reason="" if msv is None else msv.unknown_reasons.get(name, ""),
        end_x=end_x,
        end_y=end_y,
        label_x=label_x,
        label_y=label_y,
        anchor="middle" if abs(leaning) < 0.1 else "start" if leaning > 0 else "end",
        x=x,
        y=y,
    )


def _ring(level: float) -> str:
    points = (_point(place, RADIUS * level) for place in range(len(COMPONENTS)))
    return " ".join(f"{x},{y}" for x, y in points)


def _angle(place: int) -> float:
    return 2 * math.pi * place / len(COMPONENTS)


def _point(place: int, radius: float) -> tuple[float, float]:
    angle = _angle(place)
    return round(CENTRE_X + radius * math.sin(angle), 1), round(CENTRE_Y - radius * math.cos(angle), 1)
