"""Tables and numbers in markdown, as every report writes them. Pure."""

from collections.abc import Sequence

from evals.stats.detectable import least_gain
from evals.stats.separation import Band
from evals.stats.shares import Share
from kernel.statistics.bootstrap import Estimate
from kernel.statistics.discrimination import Discrimination

UNKNOWN = "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table.

    Example:
        >>> print(table(["set", "items"], [["a|b", "3"]]))
        | set | items |
        |---|---|
        | a\|b | 3 |
    """
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("|---" * len(row) + "|" if row[0] == "---" else f"| {' | '.join(row)} |" for row in lines)


def number(value: float | None, decimals: int = 2) -> str:
    """A number; `-` for none.

    Example:
        >>> number(0.456), number(1234.5, 0), number(-0.001), number(None)
        ('0.46', '1,234', '0.00', '-')
    """
    return UNKNOWN if value is None else f"{round(value, decimals) + 0.0:,.{decimals}f}"


def ranged(value: float | None, low: float | None, high: float | None, decimals: int = 2) -> str:
    """A number with its interval.

    Example:
        >>> ranged(0.5, 0.4, 0.6), ranged(0.5, None, None)
        ('0.50 [0.40, 0.60]', '0.50')
    """
    if value is None or low is None or high is None:
        return number(value, decimals)
    return f"{number(value, decimals)} [{number(low, decimals)}, {number(high, decimals)}]"


def area(found: Discrimination) -> str:
    """An area with its interval, and a `~` where that is not DeLong's."""
    return ranged(found.auroc, found.low, found.high) + ("" if found.exact or found.auroc is None else " ~")


def estimate(found: Estimate) -> str:
    """A statistic with its interval."""
    return ranged(found.value, found.low, found.high)


def gain(found: Estimate) -> str:
    """A difference with its interval, fine enough to see on which side of 0 it lies."""
    return ranged(found.value, found.low, found.high, 3)


def power(items: int) -> str:
    """Return which gain so many paired items can show.

    Example:
        >>> power(200)
        'a gain of 5.7 points or more would show, where one item in six differs'
    """
    least = number(100 * least_gain(items), 1)
    return f"a gain of {least} points or more would show, where one item in six differs"


def band(found: Band) -> str:
    """Return where chance puts a statistic."""
    return ranged(found.mean, found.low, found.high)


def share(found: Share) -> str:
    """A share in percent with its interval.

    Example:
        >>> from evals.stats.shares import share as counted
        >>> share(counted([True, False])), share(counted([]))
        ('50 % [9, 91]', '-')
    """
    if found.value is None:
        return UNKNOWN
    return f"{100 * found.value:.0f} % [{100 * found.interval.low:.0f}, {100 * found.interval.high:.0f}]"
