"""This module makes docs/evaluation/what-holds.md: each claim of the papers, held against what other pages show.

A row of `what-holds.yaml` says how the line of a page begins that has its figure. The figure is read from that line,
and whether the claim holds follows from its interval; a line that the page no longer has is an error, so that nothing
goes stale unseen. A row without a page is a claim that nothing here decides.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evals.stats.detectable import least_gain
from kernel.values import value

ROWS = Path("docs", "evaluation", "what-holds.yaml")
PAGE = Path("docs", "evaluation", "what-holds.md")
HEAD = """# What holds

For whoever asks which claims of the three [papers](../papers.md) hold on the models that were measured here. This
page is made from the figures of other pages.

- **holds**, **does not hold**: the whole 95 % interval is on the claimed side, or on the other one
- **undecided**: the interval has both sides, nothing differed at all, or ("-") no records of a measurement were kept:
  the command measures it
- **power**: the smallest gain that so many paired items can show where one in six differs; else the number of items

The papers measured models of 7 billion parameters and more. Figures here are of recorded answers of other models, of
simulations, and of one model of 1.5 billion parameters.

"""
TABLE = "| claim | where | here | figure | claimed | power | shown in | command |\n|---|---|---|---|---|---|---|---|\n"
_FIGURE = re.compile(r"(-?\d*\.?\d+)(?:\*\*)? (?:% )?\[(-?\d*\.?\d+), (-?\d*\.?\d+)\]")
_SPREAD = re.compile(r"(-?\d*\.\d+)(?:\*\*)? ± (\d*\.\d+)")
_CLAIM = re.compile(r"(above|below) (-?\d*\.?\d+)")


@value
class Figure:
    """A figure has a value and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def page(root: Path) -> str:
    """Return the page.

    Raises:
        ValueError: When a page no longer has a line that a row quotes, or a row cannot be read; names the row.
    """
    rows = yaml.safe_load((root / ROWS).read_text())
    lines: dict[str, str] = {}
    for row in rows:
        lines[row["paper"]] = lines.get(row["paper"], "") + _line(root, row)
    return HEAD + "\n".join(f"## {paper}\n\n{TABLE}{text}" for paper, text in lines.items())


def states(root: Path, page: str) -> Mapping[str, int]:
    """Return how many claims rest on a page, by whether they hold."""
    rows = [row for row in yaml.safe_load((root / ROWS).read_text()) if row.get("page") == page]
    return Counter(state(figure(_of_page(root, row), row.get("which", -1)), row["claimed"]) for row in rows)


def _line(root: Path, row: Mapping[str, Any]) -> str:
    cells = (
        row["claim"],
        row["where"],
        *_held(root, row),
        f"`{row['command']}`",
    )
    return f"| {' | '.join(cells)} |\n"


def _held(root: Path, row: Mapping[str, Any]) -> Sequence[str]:
    if "page" not in row:
        return ["**undecided**", "-", row["claimed"], "-", "-"]
    line = _of_page(root, row)
    found = figure(line, row.get("which", -1))
    return [
        f"**{state(found, row['claimed'])}**",
        f"{row['measure']} {shown(found)}",
        row["claimed"],
        _power(row, line),
        f"[{row['page'].removesuffix('.md')}]({row['page']})",
    ]


def _of_page(root: Path, row: Mapping[str, Any]) -> str:
    """Return the line of a row's page that begins as the row says, below its heading if any."""
    text = (root / PAGE.parent / row["page"]).read_text()
    if "under" in row:
        text = text.partition(f"\n## {row['under']}\n")[2].partition("\n## ")[0]
    line = next((line for line in text.splitlines() if line.startswith(row["line"])), "")
    if not line:
        raise ValueError(f"{ROWS}: {row['page']} no longer has {row['line']!r}, which shows that {row['claim']!r}")
    return line


def _power(row: Mapping[str, Any], line: str) -> str:
    """Return what so many items can show."""
    items = row["items"]
    if isinstance(items, str):
        items = int(line.strip("| ").split(" | ")[int(items.removeprefix("cell "))].replace(",", ""))
    least = f"{100 * least_gain(items):.0f} points, " if row.get("paired") else ""
    return f"{least}{items:,} items"


def figure(line: str, which: int = -1) -> Figure:
    """Return one of the figures of a line, by default the last.

    Raises:
        ValueError: When the line has none.

    Example:
        >>> figure("| all (24) | 0.46 [0.25, 0.67] | 390 | -0.083 [-0.292, 0.125] |")
        Figure(value=-0.083, low=-0.292, high=0.125)
        >>> figure("| CE | 0 % | **.5** ± .25 |")
        Figure(value=0.5, low=0.25, high=0.75)
    """
    found = [Figure(value=float(a), low=float(b), high=float(c)) for a, b, c in _FIGURE.findall(line)]
    if not found:
        spread = [(float(a), float(b)) for a, b in _SPREAD.findall(line)]
        found = [Figure(value=a, low=round(a - b, 9), high=round(a + b, 9)) for a, b in spread]
    if not found:
        raise ValueError(f"{line!r} has no figure with its interval: 0.1 [-0.1, 0.2], or 0.1 ± 0.05")
    return found[which]


def state(found: Figure, claimed: str) -> str:
    """Return whether a claim holds by the whole interval of a figure.

    Raises:
        ValueError: When the claim is neither `above` nor `below` a number.

    Example:
        >>> [state(Figure(value=0.1, low=low, high=0.2), "above 0") for low in (0.05, -0.1)]
        ['holds', 'undecided']
        >>> state(Figure(value=0.4, low=0.3, high=0.5), "below 0.087")
        'does not hold'
    """
    read = _CLAIM.fullmatch(claimed)
    if read is None:
        raise ValueError(f"{claimed!r} is no claim; write `above 0` or `below 0.087`")
    than = float(read[2])
    low, high = (found.low - than, found.high - than) if read[1] == "above" else (than - found.high, than - found.low)
    if found.low == found.high:
        return "undecided"
    return "holds" if low > 0 else "does not hold" if high < 0 else "undecided"


def shown(found: Figure) -> str:
    """Return a figure with its interval.

    Example:
        >>> shown(Figure(value=-0.5, low=-1, high=0.25))
        '-0.5 [-1, 0.25]'
    """
    return f"{found.value:g} [{found.low:g}, {found.high:g}]"
