"""What a request comes to: its default envelope, and the digests by which it is known again."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import reduce
from hashlib import sha256
from math import ceil
from typing import Any

from chassis.rest import dumps
from kernel.envelope import LARGEST_LIMIT, Limits, widest
from kernel.policy import Policy
from services.router.core.strategies import Strategy
from services.router.service.values import AnswerRequest, ArbitrationOptions, Turn

# What the arbiter draws where a request leaves it open (SPEC 2.1): each of its samples may be the answer.
SOLVERS, SOLVER_SAMPLES, ARBITRATION_SAMPLES = 2, 5, 50
ARBITRATED = SOLVERS * (SOLVER_SAMPLES + 1) + ARBITRATION_SAMPLES


def default_limits(
    usual: Limits, own: Mapping[Strategy, Limits], policy: Policy | None
) -> Mapping[Strategy | None, Limits]:
    """Default envelope by strategy; `None` is for requests that leave it to the router.

    What a request may spend is settled before its strategy is: so an open choice has room for whatever may be chosen.

    Args:
        usual: The envelope of a strategy without one of its own.
        own: Those that have one.
        policy: The table that may choose them; None where it is off.
    """
    rows = policy.rows if policy else ()
    chosen = [limits for strategy, limits in own.items() if any(row.strategy == strategy for row in rows)]
    by_strategy: dict[Strategy | None, Limits] = {strategy: own.get(strategy, usual) for strategy in Strategy}
    return by_strategy | {None: reduce(widest, chosen, usual)}


def wide_enough(
    default: Limits, ask: AnswerRequest, samples: int, named: Strategy | None = None, *, answer_tokens: int = 0
) -> Limits:
    """The default envelope, never narrower than the answers, or the arbitration, that the caller asked for.

    Args:
        default: The envelope of a request that asks for nothing out of the ordinary.
        ask: The request.
        samples: Answers that it wants of a plain call [count, >= 1].
        named: The strategy that it names.
        answer_tokens: Tokens of each of several answers where the request states none [count, >= 0].
    """
    drawn = arbitrated(ask.arbitration) if named is Strategy.ARBITER else 0
    more = max(1.0, drawn / ARBITRATED)
    each = ask.max_tokens or (answer_tokens if samples > 1 else 0)
    wide = (drawn or 2 * samples) * each
    return Limits(
        max_generations=_held(max(ceil(default.max_generations * more), samples + 1)),
        max_generated_tokens=_held(max(ceil(default.max_generated_tokens * more), wide)),
        timeout_ms=default.timeout_ms,
    )


def _held(limit: int) -> int:
    return min(LARGEST_LIMIT, limit)


def arbitrated(options: ArbitrationOptions | None) -> int:
    """Generations of an arbitration that draws every sample [count].

    Example:
        >>> arbitrated(None), arbitrated(ArbitrationOptions(solvers=3, arbitration_samples=20))
        (62, 38)
    """
    options = options or ArbitrationOptions()
    solvers, each = options.solvers or SOLVERS, options.solver_samples or SOLVER_SAMPLES
    full = solvers * (each + 1) + (options.arbitration_samples or ARBITRATION_SAMPLES)
    return max(full, options.self_consistency_samples or 0)


def chosen(options: ArbitrationOptions | None) -> Mapping[str, Any]:
    """The options that the caller chose, by name."""
    if options is None:
        return {}
    given = {one.name: getattr(options, one.name) for one in fields(options)}
    return {name: value for name, value in given.items() if value not in (None, "", ())}


def request_digest(ask: AnswerRequest, request: bytes) -> str:
    """Digest of all that was asked [sha256, hexadecimal]: a repetition has the same.

    Args:
        ask: The request.
        request: The client's own, which tells more; empty: there is none.
    """
    return sha256(request or dumps(replace(ask, request_id="") if ask.request_id else ask)).hexdigest()


def messages_digest(messages: Sequence[Turn]) -> str:
    """Digest of a conversation [sha256, hexadecimal]."""
    return sha256(dumps(list(messages))).hexdigest()
