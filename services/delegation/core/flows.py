"""Who hands tasks to whom, how often and how well.

Source: SPEC 3.5, section G: delegation precision is the share of delegated tasks whose executor answered right.
"""

from collections.abc import Sequence

from kernel.statistics.intervals import wilson
from kernel.values import value


@value
class Share:
    """A share of right answers with its 95 % Wilson interval [0..1]; all None when nothing was judged."""

    precision: float | None
    low: float | None
    high: float | None


@value
class HandOvers:
    """Counted hand-overs from one agent to another.

    Attributes:
        from_agent: Agent that the tasks were dispatched to.
        to_agent: Agent that executed them.
        tasks: Tasks handed over [count].
        judged: Tasks of these with a verdict [count].
        correct: Tasks of these judged right [count].
        better: Tasks of these whose executor had the better profile at the time [count].
    """

    from_agent: str
    to_agent: str
    tasks: int
    judged: int
    correct: int
    better: int


def precision(correct: int, judged: int) -> Share:
    """Share of right answers among the judged.

    Example:
        >>> precision(8, 10).precision, precision(0, 0).precision
        (0.8, None)
    """
    if not judged:
        return Share(precision=None, low=None, high=None)
    limits = wilson(correct, judged)
    return Share(precision=correct / judged, low=limits.low, high=limits.high)


def delegation_precision(flows: Sequence[HandOvers]) -> Share:
    """Share of right answers among all judged tasks that were handed over.

    Source:
        SPEC 3.5.
    """
    return precision(sum(flow.correct for flow in flows), sum(flow.judged for flow in flows))


def better_profile_share(flows: Sequence[HandOvers]) -> float | None:
    """Share of hand-overs to an agent whose profile was the better one at the time [0..1]; None without any."""
    tasks = sum(flow.tasks for flow in flows)
    return sum(flow.better for flow in flows) / tasks if tasks else None
