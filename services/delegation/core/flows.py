"""Flows count how often each agent delegates to each other, and with which share of right answers.

Source: MetaCogAgent V-B, V-G (papers.md 3.5): delegation precision is the share of delegated tasks whose executor
answered right.
"""

from collections.abc import Sequence

from kernel.statistics.intervals import wilson
from kernel.values import value


@value
class Share:
    """A share of right answers has a 95 % Wilson interval [0..1]; all fields are None without labels."""

    precision: float | None
    low: float | None
    high: float | None


@value
class DelegationCounts:
    """These counts describe the delegations from one agent to another.

    Attributes:
        from_agent: Agent that the tasks were dispatched to.
        to_agent: Agent that executed them.
        tasks: Delegated tasks [count].
        labelled: Tasks of these with a label [count].
        correct: Tasks of these labelled right [count].
        better: Tasks of these whose executor had the better profile at the time [count].
    """

    from_agent: str
    to_agent: str
    tasks: int
    labelled: int
    correct: int
    better: int


def precision(correct: int, labelled: int) -> Share:
    """Return the share of right answers among the labelled.

    Args:
        correct: Right ones among the labelled [count, 0..labelled].
        labelled: Labelled answers [count, >= 0].

    Example:
        >>> precision(8, 10).precision, precision(0, 0).precision
        (0.8, None)
    """
    if not labelled:
        return Share(precision=None, low=None, high=None)
    limits = wilson(correct, labelled)
    return Share(precision=correct / labelled, low=limits.low, high=limits.high)


def delegation_precision(flows: Sequence[DelegationCounts]) -> Share:
    """Return the share of right answers among all labelled tasks that were delegated.

    Source:
        MetaCogAgent V-B (papers.md 3.5).
    """
    return precision(sum(flow.correct for flow in flows), sum(flow.labelled for flow in flows))


def better_profile_share(flows: Sequence[DelegationCounts]) -> float | None:
    """Return the share of delegations to an agent with a better profile at the time [0..1]; None without any."""
    tasks = sum(flow.tasks for flow in flows)
    return sum(flow.better for flow in flows) / tasks if tasks else None
