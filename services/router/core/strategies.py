"""The ways in which a request can be answered, and what stands in when one of them fails.

Source: DESIGN "One request": System 2 is the dialectic unless the caller names another strategy; a failed strategy
falls back to another one, then to System 1.
"""

from enum import StrEnum

from kernel.activation import Route
from kernel.errors import Code, MetacogError


class UnknownStrategy(MetacogError):
    """The request names a strategy that the router does not have."""

    code = Code.INVALID_ARGUMENT
    reason = "UNKNOWN_STRATEGY"


class Strategy(StrEnum):
    """A way to answer."""

    SYSTEM_ONE = "system1"
    DIALECTIC = "dialectic"
    ARBITER = "arbiter"
    DELEGATION = "delegation"


DEFAULT_SYSTEM_TWO = Strategy.DIALECTIC


def named_strategy(name: str) -> Strategy | None:
    """The strategy called `name`; None for an empty name, which leaves the choice to the router.

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
    """System that a strategy belongs to."""
    return Route.SYSTEM_ONE if strategy is Strategy.SYSTEM_ONE else Route.SYSTEM_TWO


def stand_ins(failed: Strategy) -> tuple[Strategy, ...]:
    """Strategies that may stand in for `failed`, in order; System 1 is always last and has none.

    Example:
        >>> [s.value for s in stand_ins(Strategy.ARBITER)], stand_ins(Strategy.SYSTEM_ONE)
        (['dialectic', 'system1'], ())
    """
    if failed is Strategy.SYSTEM_ONE:
        return ()
    return tuple(s for s in (DEFAULT_SYSTEM_TWO, Strategy.SYSTEM_ONE) if s is not failed)
