"""The charts of reports. Pure."""

from collections.abc import Mapping, Sequence
from math import log10

from evals.plots.frame import HEIGHT, KEY, MARGIN, QUIET, WIDTH, Frame, Point, colour, picture, text
from kernel.statistics.reliability import ReliabilityBin
from kernel.values import value

BAR_WIDTH = 18
CELL = 62


@value
class Bar:
    """A level with its interval; None where it is unknown."""

    level: float | None
    low: float | None = None
    high: float | None = None


def reliability_diagram(bins: Sequence[ReliabilityBin], across: str = "confidence") -> str:
    """Share right against mean confidence, bin by bin, with Wilson intervals; the larger the dot the more answers."""
    frame, parts = _reliability_frame(across)
    return picture([*parts, *_reliability(frame, bins, 0)])


def reliability_curves(series: Mapping[str, Sequence[ReliabilityBin]], across: str = "confidence") -> str:
    """Several reliability diagrams in one frame, each with a line of its own colour."""
    frame, parts = _reliability_frame(across)
    for place, bins in enumerate(series.values()):
        known = [
            (each.mean_confidence, each.accuracy)
            for each in bins
            if each.mean_confidence is not None and each.accuracy is not None
        ]
        parts += [frame.line(sorted(known), colour(place)), *_reliability(frame, bins, place)]
    return picture([*parts, frame.legend(list(series))])


def _reliability_frame(across: str) -> tuple[Frame, list[str]]:
    frame = Frame(across=across, up="share right")
    return frame, [frame.box(), frame.line([(0, 0), (1, 1)], QUIET, dashed=True)]


def _reliability(frame: Frame, bins: Sequence[ReliabilityBin], place: int) -> Sequence[str]:
    """The dots of one series with their intervals."""
    most = max((each.observations for each in bins), default=0) or 1
    parts = []
    for each in bins:
        if each.mean_confidence is None or each.accuracy is None:
            continue
        low, high = each.accuracy_low or 0.0, each.accuracy_high if each.accuracy_high is not None else 1.0
        parts.append(frame.whisker(each.mean_confidence, low, high))
        radius = 2.0 + 5.0 * (each.observations / most) ** 0.5
        parts.append(frame.dot((each.mean_confidence, each.accuracy), colour(place), radius=radius))
    return parts


def grouped_bars(groups: Mapping[str, Mapping[str, Bar]], up: str = "share right") -> str:
    """Bars in groups, one colour for each series, with intervals; series that a group lacks leave a gap.

    Args:
        groups: Bars by series, by group.
        up: What the bars show [0..1].
    """
    series = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    step = len(series) + 1
    width = max(WIDTH, 2 * MARGIN + BAR_WIDTH * step * len(groups))
    ticks = [(place * step + len(series) / 2, name) for place, name in enumerate(groups)]
    frame = Frame(across="", up=up, x=(-0.5, step * len(groups) - 0.5), x_ticks=ticks, width=width)
    parts = [frame.box(), frame.key(series)]
    for group, bars in enumerate(groups.values()):
        for place, name in enumerate(series):
            parts += _bar(frame, group * step + place, bars.get(name), colour(place))
    return picture(parts, width=width - MARGIN + KEY)


def _bar(frame: Frame, left: float, bar: Bar | None, hue: str) -> Sequence[str]:
    if bar is None or bar.level is None:
        return []
    whisker = [] if bar.low is None or bar.high is None else [frame.whisker(left + 0.5, bar.low, bar.high)]
    return [frame.bar((left, left + 1), bar.level, hue), *whisker]


def against_tokens(points: Mapping[str, tuple[float, Bar]], across: str = "tokens per item") -> str:
    """Share right against cost on a logarithmic axis, one named dot with its interval for each arm.

    Args:
        points: Cost [> 0] and share right, by arm; a cost of 0 is left out.
        across: What the cost is.
    """
    known = {name: (log10(cost), bar) for name, (cost, bar) in points.items() if cost > 0 and bar.level is not None}
    low = int(min((at for at, _ in known.values()), default=0.0))
    high = int(max((at for at, _ in known.values()), default=0.0)) + 1
    ticks = [(float(power), f"{10**power:,}") for power in range(low, high + 1)]
    frame = Frame(across=across, up="share right", x=(low, high), x_ticks=ticks, width=2 * WIDTH)
    parts = [frame.box(), frame.key(list(known))]
    for place, (at, bar) in enumerate(known.values()):
        if bar.low is not None and bar.high is not None:
            parts.append(frame.whisker(at, bar.low, bar.high))
        parts.append(frame.dot((at, bar.level or 0.0), colour(place), radius=4.0))
    return picture(parts, width=2 * WIDTH - MARGIN + KEY)


def curve(
    series: Mapping[str, Sequence[tuple[float, Bar]]],
    across: str,
    up: str = "share right",
    *,
    span: tuple[float, float] = (0.0, 1.0),
) -> str:
    """A line with intervals for each series; the horizontal axis takes the points as they are, the vertical `span`."""
    places = sorted({at for points in series.values() for at, _ in points}) or [0.0, 1.0]
    ticks = [(at, f"{at:g}") for at in places]
    ends = [(end, f"{end:g}") for end in span]
    across_span = (min(places), max(max(places), min(places) + 1e-9))
    frame = Frame(across=across, up=up, x=across_span, x_ticks=ticks, y=span, y_ticks=ends)
    parts = [frame.box(), frame.legend(list(series))]
    for place, points in enumerate(series.values()):
        known: list[Point] = [(at, bar.level) for at, bar in points if bar.level is not None]
        parts.append(frame.line(known, colour(place)))
        parts += [frame.dot(point, colour(place)) for point in known]
        parts += [frame.whisker(at, b.low, b.high) for at, b in points if b.low is not None and b.high is not None]
    return picture(parts)


def matrix(names: Sequence[str], counts: Mapping[tuple[str, str], int], rows: str, columns: str) -> str:
    """Counts from one name (row) to another (column); the darker the more."""
    most = max(counts.values(), default=0) or 1
    left = MARGIN + CELL
    parts = [text((left, 18), f"{rows} (rows), {columns} (columns)")]
    for place, name in enumerate(names):
        parts.append(text((left + CELL * (place + 0.5), MARGIN - 6), name, anchor="middle"))
        parts.append(text((left - 6, MARGIN + CELL * (place + 0.5) + 4), name, anchor="end"))
    for down, one in enumerate(names):
        for right, other in enumerate(names):
            count = counts.get((one, other), 0)
            at = (left + CELL * right, MARGIN + CELL * down)
            shade = f'fill="{colour(0)}" fill-opacity="{count / most:.2f}" stroke="{QUIET}"'
            parts.append(f'<rect x="{at[0]}" y="{at[1]}" width="{CELL}" height="{CELL}" {shade}/>')
            parts.append(text((at[0] + CELL / 2, at[1] + CELL / 2 + 4), str(count), anchor="middle"))
    side = CELL * len(names)
    return picture(parts, width=left + side + MARGIN, height=max(HEIGHT // 2, MARGIN + side + 20))
