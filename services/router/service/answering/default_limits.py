"""The limits of a request whose envelope leaves them open."""

from collections.abc import Mapping
from functools import reduce
from math import ceil

from kernel.arbitration.defaults import ARBITRATION_SAMPLES, SOLVER_SAMPLES, SOLVERS
from kernel.envelope import LARGEST_LIMIT, Limits, largest_limits
from kernel.policy import Policy, Strategy
from services.router.service.answering.values import (
    AnswerRequest,
    ArbitrationOptions,
)

# Samples of the arbiter where a request leaves them open (papers.md 2.1): each may be the answer.
DEFAULT_ARBITRATION_GENERATIONS = SOLVERS * (SOLVER_SAMPLES + 1) + ARBITRATION_SAMPLES


def default_limits(
    usual: Limits, own: Mapping[Strategy, Limits], policy: Policy | None
) -> Mapping[Strategy | None, Limits]:
    """Return the default envelope by strategy; `None` is for requests that leave the strategy to the router.

    The envelope of a request is fixed before its strategy is: so an open choice has room for every possible one.

    Args:
        usual: The envelope of a strategy without one of its own.
        own: Those that have one.
        policy: The table that may choose them; None where it is off.
    """
    rows = policy.rows if policy else ()
    chosen = [limits for strategy, limits in own.items() if any(row.strategy == strategy for row in rows)]
    by_strategy: dict[Strategy | None, Limits] = {strategy: own.get(strategy, usual) for strategy in Strategy}
    return by_strategy | {None: reduce(largest_limits, chosen, usual)}


def widened_limits(
    default: Limits, request: AnswerRequest, samples: int, named: Strategy | None = None, *, answer_tokens: int = 0
) -> Limits:
    """Return the default envelope, widened to the answers, or the arbitration, that the caller asks for.

    Args:
        default: The envelope of a request that asks for nothing out of the ordinary.
        request: The request.
        samples: Answers that it asks of a single-pass call [count, >= 1].
        named: The strategy that it names.
        answer_tokens: Tokens of each of several answers where the request states none [count, >= 0].
    """
    generations = arbitration_generations(request.arbitration) if named is Strategy.ARBITER else 0
    if named in (Strategy.VOTE, Strategy.CASCADE) and request.vote is not None:
        samples = max(samples, request.vote.most or 0)
    factor = max(1.0, generations / DEFAULT_ARBITRATION_GENERATIONS)
    tokens_each = request.max_tokens or (answer_tokens if samples > 1 else 0)
    tokens = (generations or 2 * samples) * tokens_each
    return Limits(
        max_generations=_capped(max(ceil(default.max_generations * factor), samples + 1)),
        max_generated_tokens=_capped(max(ceil(default.max_generated_tokens * factor), tokens)),
        timeout_ms=default.timeout_ms,
    )


def _capped(limit: int) -> int:
    return min(LARGEST_LIMIT, limit)


def arbitration_generations(options: ArbitrationOptions | None) -> int:
    """Return the generations of an arbitration that draws every sample [count].

    Example:
        >>> arbitration_generations(None)
        62
        >>> arbitration_generations(ArbitrationOptions(solvers=3, arbitration_samples=20))
        38
    """
    options = options or ArbitrationOptions()
    solvers, each = options.solvers or SOLVERS, options.solver_samples or SOLVER_SAMPLES
    full = solvers * (each + 1) + (options.arbitration_samples or ARBITRATION_SAMPLES)
    return max(full, options.self_consistency_samples or 0)
