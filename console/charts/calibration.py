"""The geometry of reliability diagrams and of the histogram of activations."""

from collections.abc import Sequence

from metacog.common.v1.reliability_pb2 import ReliabilityBin
from metacog.router.v1.calibration_pb2 import ActivationBin, PromisePoint

from kernel.values import value

SIDE, MARGIN = 220.0, 26.0


@value
class Mark:
    """A mark is one bin of a reliability diagram.

    Attributes:
        x: Mean confidence, as a horizontal coordinate.
        y: Share of right answers, as a vertical coordinate.
        low: Lower end of that share's interval; None without one.
        high: Upper end.
        radius: Size, by the number of answers.
        observations: Answers in the bin [count].
        confidence: Mean confidence [0..1].
        accuracy: Share that was right [0..1].
    """

    x: float
    y: float
    low: float | None
    high: float | None
    radius: float
    observations: int
    confidence: float
    accuracy: float


def reliability_marks(bins: Sequence[ReliabilityBin]) -> list[Mark]:
    """Return the marks of the bins that contain answers."""
    total = sum(each.observations for each in bins) or 1
    return [_mark(each, total) for each in bins if each.observations and each.HasField("accuracy")]


def _mark(one: ReliabilityBin, total: int) -> Mark:
    confidence = one.mean_confidence if one.HasField("mean_confidence") else (one.lower + one.upper) / 2
    return Mark(
        x=across(confidence),
        y=upwards(one.accuracy),
        low=upwards(one.accuracy_low) if one.HasField("accuracy_low") else None,
        high=upwards(one.accuracy_high) if one.HasField("accuracy_high") else None,
        radius=round(2.5 + 5.5 * (one.observations / total) ** 0.5, 1),
        observations=one.observations,
        confidence=confidence,
        accuracy=one.accuracy,
    )


def across(level: float) -> float:
    """Return the horizontal coordinate of `level` [0..1]."""
    return round(MARGIN + level * (SIDE - 2 * MARGIN), 1)


def upwards(level: float) -> float:
    """Return the vertical coordinate of `level` [0..1].

    Example:
        >>> upwards(0.0), upwards(1.0)
        (194.0, 26.0)
    """
    return round(SIDE - MARGIN - level * (SIDE - 2 * MARGIN), 1)


@value
class Bar:
    """A bar of the histogram, in shares of the plot's width and height [0..1]."""

    lower: float
    upper: float
    runs: int
    system_two: int
    height: float


def histogram(bins: Sequence[ActivationBin]) -> list[Bar]:
    """Return the bars, scaled so that the highest has the height of the plot."""
    most = max((each.runs for each in bins), default=0) or 1
    return [
        Bar(lower=each.lower, upper=each.upper, runs=each.runs, system_two=each.system_two, height=each.runs / most)
        for each in bins
    ]


# Where the curve of promises is drawn, and the promised error at its right end.
CURVE_LEFT, CURVE_WIDTH, CURVE_BOTTOM, CURVE_HEIGHT, LARGEST_ERROR = 36.0, 264.0, 130.0, 120.0, 0.3


@value
class PromiseMark:
    """A mark is the share of answers that a promise keeps [0..1], with its place."""

    x: float
    y: float
    error: float
    kept: float


@value
class PromiseCurve:
    """The curve joins the kept shares of several promises; `path` is empty where none is known."""

    marks: Sequence[PromiseMark]
    path: str


def promise_curve(points: Sequence[PromisePoint]) -> PromiseCurve:
    """Return the curve of kept share by promised error, without promises that are off the drawing.

    Example:
        >>> points = [PromisePoint(error_at_most=0.1, kept_share=0.5), PromisePoint(error_at_most=0.3, kept_share=1.0)]
        >>> promise_curve(points).path
        'M124.0 70.0L300.0 10.0'
        >>> promise_curve([PromisePoint(error_at_most=0.1)]).path
        ''
    """
    marks = [
        PromiseMark(
            x=round(CURVE_LEFT + CURVE_WIDTH * each.error_at_most / LARGEST_ERROR, 1),
            y=round(CURVE_BOTTOM - CURVE_HEIGHT * each.kept_share, 1),
            error=each.error_at_most,
            kept=each.kept_share,
        )
        for each in points
        if each.HasField("kept_share") and each.error_at_most <= LARGEST_ERROR
    ]
    places = [f"{mark.x} {mark.y}" for mark in marks]
    return PromiseCurve(marks=marks, path=f"M{'L'.join(places)}" if places else "")
