"""What a request comes to: its default envelope, and the digests by which it is known again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from hashlib import sha256

from chassis.rest import dumps
from kernel.envelope import LARGEST_LIMIT, Limits, widest
from kernel.policy import Policy
from services.router.core.strategies import Strategy
from services.router.service.values import AnswerRequest, Turn

# Samples of a whole arbitration, each of which may be the answer, and so as long as the caller lets that be.
ARBITRATED = 62


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


def wide_enough(default: Limits, ask: AnswerRequest, samples: int, named: Strategy | None = None) -> Limits:
    """The default envelope, never narrower than the answers the caller asked for."""
    long = ARBITRATED if named is Strategy.ARBITER else 2 * samples
    wide = min(LARGEST_LIMIT, long * (ask.max_tokens or 0))
    return Limits(
        max_generations=max(default.max_generations, min(LARGEST_LIMIT, samples + 1)),
        max_generated_tokens=max(default.max_generated_tokens, wide),
        timeout_ms=default.timeout_ms,
    )


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
