"""The pictures of the report, as SVG: activation by outcome, and the receiver's curve of each assessor. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from evals.routing.separating import Columns

WIDTH, HEIGHT, MARGIN = 360, 300, 44
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8d5a97", "#7a7a7a")
BINS = 20

Point = tuple[float, float]


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
    lines = [_line([(0, 0), (1, 1)], "#bbbbbb", dashed=True)]
    for place, (name, known) in enumerate(by_assessor.items()):
        colour = COLOURS[place % len(COLOURS)]
        lines.append(_line(receiver_curve(known), colour))
        lines.append(_text(WIDTH - MARGIN - 4, HEIGHT - MARGIN - 12 - 15 * place, name, anchor="end", colour=colour))
    return _picture([_frame("System 1 right, sent to System 2", "System 1 wrong, sent to System 2"), *lines])


def outcome_plot(by_assessor: Mapping[str, Columns], threshold: float) -> str:
    """How activations are distributed where System 1 is right and where it is wrong, one panel for each assessor."""
    panels = [
        f'<g transform="translate({WIDTH * place},0)">{_panel(name, known, threshold)}</g>'
        for place, (name, known) in enumerate(by_assessor.items())
    ]
    return _picture(panels, panels=max(1, len(panels)))


def _panel(name: str, known: Columns, threshold: float) -> str:
    kinds = (("right", known.levels[~known.wrong], COLOURS[0]), ("wrong", known.levels[known.wrong], COLOURS[1]))
    shares = {kind: _shares(levels) for kind, levels, _ in kinds}
    top = max([0.01, *(max(each) for each in shares.values())])
    parts = [_frame(f"activation ({name})", "share of items", f"{100 * top:.0f} %")]
    for place, (kind, levels, colour) in enumerate(kinds):
        steps = [(edge / BINS, each / top) for at, each in enumerate(shares[kind]) for edge in (at, at + 1)]
        parts.append(_line([(0, 0), *steps, (1, 0)], colour))
        label = f"{kind} ({len(levels)})"
        parts.append(_text(WIDTH - MARGIN - 4, MARGIN + 14 + 15 * place, label, anchor="end", colour=colour))
    parts.append(_line([(threshold, 0), (threshold, 1)], "#bbbbbb", dashed=True))
    return "".join(parts)


def _shares(levels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Sequence[float]:
    counts, _ = np.histogram(levels, bins=BINS, range=(0.0, 1.0))
    return [float(count) / max(1, len(levels)) for count in counts]


def _picture(parts: Sequence[str], panels: int = 1) -> str:
    size = f'width="{WIDTH * panels}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return f'{head}<rect {size} fill="white"/>{"".join(parts)}</svg>\n'


def _frame(across: str, up: str, top: str = "1") -> str:
    inner_width, inner_height = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    box = (
        f'<rect x="{MARGIN}" y="{MARGIN}" width="{inner_width}" height="{inner_height}" fill="none" stroke="#888888"/>'
    )
    ticks = [
        _text(_across(tick), HEIGHT - MARGIN + 14, f"{tick:g}", anchor="middle") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    middle = HEIGHT / 2
    side = (
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})" fill="#333333">{up}</text>'
    )
    ticks += [_text(MARGIN - 4, _up(share) + 4, tick, anchor="end") for share, tick in ((0.0, "0"), (1.0, top))]
    return box + "".join(ticks) + _text(WIDTH / 2, HEIGHT - 10, across, anchor="middle") + side


def _line(points: Sequence[Point], colour: str, *, dashed: bool = False) -> str:
    spelled = " ".join(f"{_across(x):.1f},{_up(y):.1f}" for x, y in points)
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<polyline points="{spelled}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'


def _text(x: float, y: float, said: str, *, anchor: str, colour: str = "#333333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{said}</text>'


def _across(share: float) -> float:
    return MARGIN + share * (WIDTH - 2 * MARGIN)


def _up(share: float) -> float:
    return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)
