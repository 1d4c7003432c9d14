"""Which strategies are tried, in which order, and when a refusal ends that."""

from contextlib import AbstractContextManager, nullcontext

from kernel.activation import Route
from kernel.errors import MetacogError
from services.router.core.strategies import Strategy, stand_ins, system_of
from services.router.service.answering.admission import Admission, Overloaded

# Refusals that another strategy would not mend: what was asked is wrong.
CALLERS_MATTER = frozenset(
    {"MALFORMED_REQUEST", "MSV_OUT_OF_RANGE", "INVALID_ENVELOPE", "INVALID_SAMPLING", "UNKNOWN_AGENT"}
)
# The same where the caller named the strategy: what it may ask of that one is known to it.
NAMED_CALLERS_MATTER = frozenset({"REQUEST_OVER_LIMIT"})


def attempts(chosen: Strategy, *, fallback: bool) -> list[tuple[Strategy, Strategy | None]]:
    """Strategies to try, each with the one that stands in when it fails.

    Example:
        >>> [(tried.value, after and after.value) for tried, after in attempts(Strategy.DIALECTIC, fallback=True)]
        [('dialectic', 'system1'), ('system1', None)]
    """
    order = [chosen, *(stand_ins(chosen) if fallback else ())]
    return list(zip(order, [*order[1:], None], strict=True))


def is_final(refusal: MetacogError, *, named: bool, seconds_left: float) -> bool:
    """Whether no other strategy may stand in: the request is wrong, its time is over, or what it names is busy.

    Args:
        refusal: Why the strategy failed.
        named: Whether the caller named it.
        seconds_left: Time until the request's deadline [s].
    """
    final = named and (isinstance(refusal, Overloaded) or refusal.reason in NAMED_CALLERS_MATTER)
    return final or refusal.reason in CALLERS_MATTER or seconds_left <= 0


def place_for(strategy: Strategy, admission: Admission) -> AbstractContextManager[None]:
    """The place that `strategy` needs while it works: one of System 2 deliberates."""
    return admission.deliberation() if system_of(strategy) is Route.SYSTEM_TWO else nullcontext()
