"""Strategies are the ways in which a request can be answered.

Source: ours (papers.md 4.5): System 2 is the dialectic unless the caller names another strategy.
"""

from kernel.activation import Route
from kernel.policy import Strategy
from services.router.errors import UnknownStrategy

# System 2 where answers cannot be compared, and everywhere in the papers.
DEFAULT_SYSTEM_TWO = Strategy.DIALECTIC


def named_strategy(name: str) -> Strategy | None:
    """Return the strategy called `name`; None for an empty name, which leaves the choice to the router.

    Raises:
        UnknownStrategy: For any other name.
    """
    if not name:
        return None
    try:
        return Strategy(name)
    except ValueError:
        known = ", ".join(Strategy)
        raise UnknownStrategy(f"strategy {name!r} is unknown; there are {known}", strategy=name) from None


def system_of(strategy: Strategy) -> Route:
    """Return the system that a strategy belongs to."""
    return Route.SYSTEM_ONE if strategy is Strategy.SYSTEM_ONE else Route.SYSTEM_TWO
