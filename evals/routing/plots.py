"""The pictures of the report, as SVG: activation by outcome, and the receiver's curve of each assessor. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.plots.frame import QUIET, Frame, Point, colour, picture, side_by_side
from evals.routing.separation import Columns

BINS = 20


def receiver_curve(known: Columns) -> Sequence[Point]:
    """Share of right and of wrong answers at or above each level, from the highest level down.

    Example:
        >>> levels, wrong = np.array([0.9, 0.5, 0.1]), np.array([True, False, False])
        >>> receiver_curve(Columns(levels=levels, wrong=wrong, groups=np.zeros(3, dtype=np.intp)))
        [(0.0, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 1.0)]
    """
    wrong, right = int(known.wrong.sum()), int((~known.wrong).sum())
    if not wrong or not right:
        return []
    at = [known.levels >= level for level in sorted(set(known.levels.tolist()), reverse=True)]
    points = [(float((~known.wrong)[high].sum() / right), float(known.wrong[high].sum() / wrong)) for high in at]
    return [(0.0, 0.0), *points]


def receiver_plot(by_assessor: Mapping[str, Columns]) -> str:
    """The curves of all assessors in one picture."""
    frame = Frame(across="System 1 right, sent to System 2", up="System 1 wrong, sent to System 2")
    lines = [frame.line(receiver_curve(known), colour(place)) for place, known in enumerate(by_assessor.values())]
    chance = frame.line([(0, 0), (1, 1)], QUIET, dashed=True)
    return picture([frame.box(), chance, *lines, frame.legend(list(by_assessor))])


def outcome_plot(by_assessor: Mapping[str, Columns], threshold: float) -> str:
    """Return the distributions of activations where System 1 is right and where it is wrong, by assessor."""
    return side_by_side([_panel(name, known, threshold) for name, known in by_assessor.items()])


def _panel(name: str, known: Columns, threshold: float) -> str:
    kinds = {"right": known.levels[~known.wrong], "wrong": known.levels[known.wrong]}
    shares = {kind: _shares(levels) for kind, levels in kinds.items()}
    top = max([0.01, *(max(each) for each in shares.values())])
    ticks = ((0.0, "0"), (top, f"{100 * top:.0f} %"))
    frame = Frame(across=f"activation ({name})", up="share of items", y=(0.0, top), y_ticks=ticks)
    parts = [frame.box(), frame.legend([f"{kind} ({len(levels)})" for kind, levels in kinds.items()], top=True)]
    for place, kind in enumerate(kinds):
        steps = [(edge / BINS, each) for at, each in enumerate(shares[kind]) for edge in (at, at + 1)]
        parts.append(frame.line([(0, 0), *steps, (1, 0)], colour(place)))
    parts.append(frame.line([(threshold, 0), (threshold, top)], QUIET, dashed=True))
    return "".join(parts)


def _shares(levels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Sequence[float]:
    counts, _ = np.histogram(levels, bins=BINS, range=(0.0, 1.0))
    return [float(count) / max(1, len(levels)) for count in counts]
