"""These rules say which strategies are tried, in which order, and when an error ends that.

Source: ours (papers.md 4.5): a failed strategy falls back to another one, then to System 1.
"""

from kernel.errors import MetacogError, Overloaded
from kernel.policy import Strategy
from services.router.core.strategies import DEFAULT_SYSTEM_TWO

# Errors that another strategy would not mend: what was asked is wrong.
REQUEST_ERRORS = frozenset(
    {
        "MALFORMED_REQUEST",
        "MSV_OUT_OF_RANGE",
        "INVALID_ENVELOPE",
        "INVALID_SAMPLING",
        "UNKNOWN_AGENT",
        "UNKNOWN_DIMENSION",
    }
)
# The same where the caller named the strategy: it knows what it may ask of that one.
NAMED_STRATEGY_ERRORS = frozenset({"REQUEST_OVER_LIMIT", "NO_CASCADE"})


def fallbacks(failed: Strategy) -> tuple[Strategy, ...]:
    """Return the strategies that are tried after `failed`, in order; System 1 is always last and has none.

    Example:
        >>> [s.value for s in fallbacks(Strategy.ARBITER)], fallbacks(Strategy.SYSTEM_ONE)
        (['dialectic', 'system1'], ())
    """
    if failed is Strategy.SYSTEM_ONE:
        return ()
    if failed is Strategy.CASCADE:  # which is there to cost less than deliberation
        return (Strategy.SYSTEM_ONE,)
    return tuple(s for s in (DEFAULT_SYSTEM_TWO, Strategy.SYSTEM_ONE) if s is not failed)


def attempts(chosen: Strategy, *, fallback: bool, keeps_format: bool = False) -> list[tuple[Strategy, Strategy | None]]:
    """Return the strategies to try, each with the one that is tried when it fails.

    Args:
        chosen: The strategy that is tried first.
        fallback: Whether others may follow.
        keeps_format: Whether the answer needs more than one text, such as a call of a tool: then only System 1 follows.

    Example:
        >>> [(tried.value, after and after.value) for tried, after in attempts(Strategy.DIALECTIC, fallback=True)]
        [('dialectic', 'system1'), ('system1', None)]
    """
    following = [one for one in fallbacks(chosen) if not keeps_format or one is Strategy.SYSTEM_ONE]
    order = [chosen, *(following if fallback else ())]
    return list(zip(order, [*order[1:], None], strict=True))


def forbids_fallback(error: MetacogError, *, named: bool, seconds_left: float) -> bool:
    """Return whether no fallback is tried: the request is wrong, its time is over, or the strategy it names is busy.

    Args:
        error: Why the strategy failed.
        named: Whether the caller named it.
        seconds_left: Time until the request's deadline [s].
    """
    own_choice = named and (isinstance(error, Overloaded) or error.reason in NAMED_STRATEGY_ERRORS)
    return own_choice or error.reason in REQUEST_ERRORS or seconds_left <= 0
