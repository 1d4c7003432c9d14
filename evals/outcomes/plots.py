"""The picture of a router between two models: the gap recovered, against the share of strong calls. Pure."""

import numpy as np

from evals.outcomes.figures import SetScores
from evals.plots.frame import QUIET, Frame, Point, colour, picture
from evals.stats.recovery import Path

# Points of one line: more cannot be distinguished in the picture.
POINTS = 101


def recovery_plot(found: SetScores) -> str:
    """One line for each way to decide; dashed what chance recovers in the mean. Beyond 0 and 1 it is on the border."""
    frame = Frame(across="share of strong calls", up="gap recovered")
    known = {each.name: each.path for each in found.scored if each.path is not None}
    lines = [frame.line(_points(path), colour(place)) for place, path in enumerate(known.values())]
    chance = frame.line([(0, 0), (1, 1)], QUIET, dashed=True)
    return picture([frame.box(), chance, *lines, frame.legend(list(known))])


def _points(path: Path) -> list[Point]:
    shares = np.linspace(0, 1, POINTS)
    levels = np.interp(shares, path.shares, path.recovered)
    return [(float(at), float(level)) for at, level in zip(shares, levels, strict=True)]
