"""A frame with two axes, and what is drawn in it. Pure."""

from collections.abc import Sequence
from html import escape

from kernel.values import value

WIDTH, HEIGHT, MARGIN = 360, 300, 44
COLOURS = (
    "#1b6ca8", "#c8553d", "#3a7d44", "#8d5a97", "#7a7a7a", "#b8860b", "#2f9e9e", "#d68fb5", "#6b4f3a", "#1d1d1d",
    "#9bbf3b", "#5f6fd0",
)  # fmt: skip
# Room for names beside a frame [pixels].
KEY = 170
QUIET = "#bbbbbb"

Point = tuple[float, float]
Tick = tuple[float, str]

UNIT_TICKS: Sequence[Tick] = ((0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1"))
ENDS: Sequence[Tick] = ((0.0, "0"), (1.0, "1"))


@value
class Frame:
    """A frame in which a chart is drawn.

    Attributes:
        across: What the horizontal axis shows.
        up: What the vertical axis shows.
        x: Range of the horizontal axis.
        y: Range of the vertical axis.
        x_ticks: Marks of the horizontal axis.
        y_ticks: Marks of the vertical axis.
        width: Width of the picture [pixels].
    """

    across: str
    up: str
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[Tick] = UNIT_TICKS
    y_ticks: Sequence[Tick] = ENDS
    width: int = WIDTH

    def place(self, x: float, y: float) -> Point:
        """The place of a point in the picture [pixels]; a point outside the ranges is put on the border.

        Example:
            >>> Frame(across="", up="").place(0.5, 1.0)
            (180.0, 44.0)
        """
        right = _share(x, self.x) * (self.width - 2 * MARGIN)
        high = _share(y, self.y) * (HEIGHT - 2 * MARGIN)
        return MARGIN + right, HEIGHT - MARGIN - high

    def box(self) -> str:
        """The border with its marks and labels."""
        inner = f'width="{self.width - 2 * MARGIN}" height="{HEIGHT - 2 * MARGIN}"'
        parts = [f'<rect x="{MARGIN}" y="{MARGIN}" {inner} fill="none" stroke="#888888"/>']
        for at, label in self.x_ticks:
            parts.append(text((self.place(at, self.y[0])[0], HEIGHT - MARGIN + 14), label, anchor="middle"))
        for at, label in self.y_ticks:
            parts.append(text((MARGIN - 4, self.place(self.x[0], at)[1] + 4), label, anchor="end"))
        parts.append(text((self.width / 2, HEIGHT - 10), self.across, anchor="middle"))
        middle = HEIGHT / 2
        turned = f'text-anchor="middle" transform="rotate(-90 14 {middle:g})" fill="#333333"'
        parts.append(f'<text x="14" y="{middle:g}" {turned}>{escape(self.up)}</text>')
        return "".join(parts)

    def line(self, points: Sequence[Point], colour: str, *, dashed: bool = False) -> str:
        """A line through `points`."""
        spelled = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*point) for point in points))
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        return f'<polyline points="{spelled}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>'

    def dot(self, point: Point, colour: str, *, radius: float = 3.0) -> str:
        """A dot."""
        x, y = self.place(*point)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}"/>'

    def bar(self, across: tuple[float, float], high: float, colour: str) -> str:
        """A bar from the bottom to `high`."""
        left, top = self.place(across[0], high)
        right, bottom = self.place(across[1], self.y[0])
        size = f'width="{max(0.0, right - left):.1f}" height="{max(0.0, bottom - top):.1f}"'
        return f'<rect x="{left:.1f}" y="{top:.1f}" {size} fill="{colour}" fill-opacity="0.75"/>'

    def whisker(self, x: float, low: float, high: float) -> str:
        """An interval at `x`."""
        return self.line([(x, low), (x, high)], "#333333")

    def key(self, names: Sequence[str]) -> str:
        """Names in their colours, beside the frame on its right, where nothing is drawn over them."""
        left = self.width - MARGIN + 10
        return "".join(
            text((left, MARGIN + 12 + 15 * place), name, colour=colour(place)) for place, name in enumerate(names)
        )

    def legend(self, names: Sequence[str], *, top: bool = False) -> str:
        """Names in their colours, in a corner on the right."""
        first = MARGIN + 14 if top else HEIGHT - MARGIN - 12 - 15 * (len(names) - 1)
        corner = self.width - MARGIN - 4
        return "".join(
            text((corner, first + 15 * place), name, anchor="end", colour=colour(place))
            for place, name in enumerate(names)
        )


def colour(place: int) -> str:
    """The colour of the series at `place`."""
    return COLOURS[place % len(COLOURS)]


def text(at: Point, label: str, *, anchor: str = "start", colour: str = "#333333") -> str:
    """A text in the picture [pixels]; it is escaped."""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(label)}</text>'


def picture(parts: Sequence[str], *, width: int = WIDTH, height: int = HEIGHT) -> str:
    """A whole picture."""
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return f'{head}<rect {size} fill="white"/>{"".join(parts)}</svg>\n'


def side_by_side(panels: Sequence[str]) -> str:
    """Several panels of the usual width, side by side in one picture."""
    moved = [f'<g transform="translate({WIDTH * place},0)">{panel}</g>' for place, panel in enumerate(panels)]
    return picture(moved, width=WIDTH * max(1, len(panels)))


def _share(level: float, span: tuple[float, float]) -> float:
    low, high = span
    return min(1.0, max(0.0, (level - low) / (high - low))) if high > low else 0.0
