"""Choose System 1 or System 2, without answering."""

import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from chassis.rest import dumps
from chassis.spend import Spend
from kernel.envelope import Limits, limits
from kernel.msv import MSV
from kernel.ratings import RATING_MAX_TOKENS
from kernel.values import value
from services.router.core.activation import (
    PAPER_THRESHOLD,
    PAPER_WEIGHTS,
    Activation,
    ActivationWeights,
    Route,
    activation,
    choose,
)
from services.router.core.strategies import DEFAULT_SYSTEM_TWO, Strategy, named_strategy, system_of
from services.router.service.assess import STAGE, Assessor, assessable, conversation, milliseconds_since
from services.router.service.values import Routed, RouteRequest, RouteResponse, Turn


@value
class RoutingConfig:
    """How the choice is made.

    Attributes:
        version: Name under which weights and threshold are recorded with each decision.
        weights: Weights of the activation.
        threshold: System 2 if and only if the activation reaches it [0..1].
        undetermined: System for a state of which too little is known.
    """

    version: str = "paper"
    weights: ActivationWeights = PAPER_WEIGHTS
    threshold: float = PAPER_THRESHOLD
    undetermined: Route = Route.SYSTEM_TWO


@value
class Deciding:
    """What a decision needs: the configuration in force and the assessor."""

    config: RoutingConfig
    assessor: Assessor


@value
class Query:
    """What is to be decided on.

    Attributes:
        messages: The conversation; not looked at when a state is given or a strategy named.
        msv: A ready state.
        named: The strategy that is given, by the caller or by what the request needs.
        because: Why it is given.
        seed: Makes the assessment repeatable.
    """

    messages: Sequence[Turn] = ()
    msv: MSV | None = None
    named: Strategy | None = None
    because: str = "requested"
    seed: int | None = None


def version_of(config: RoutingConfig) -> str:
    """Name of a configuration: `paper` for the paper's, else a digest of it, so that no two share a name."""
    if config == RoutingConfig():
        return "paper"
    return sha256(dumps(replace(config, version=""))).hexdigest()[:12]


async def route(ask: RouteRequest, *, deciding: Deciding, default: Limits) -> RouteResponse:
    """The choice for a query, or for a ready state.

    Raises:
        UnknownStrategy: For a strategy that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    named = named_strategy(ask.strategy)
    messages = () if ask.msv is not None or named else conversation(ask.query, ask.messages)
    query = Query(messages=messages, msv=ask.msv, named=named, seed=ask.seed)
    return await decide(query, Spend(limits(ask.envelope, default)), deciding)


async def decide(query: Query, spend: Spend, deciding: Deciding) -> Routed:
    """The choice as named, else by the activation of the state, which is measured when missing.

    An envelope with no room for more than a plain call gets one.
    """
    began, msv, assessor = time.monotonic(), query.msv, ""
    if msv is None and query.named is None and not _roomy(spend):
        query = replace(query, named=Strategy.SYSTEM_ONE, because="envelope")
    if msv is None and query.named is None:
        assessment = await deciding.assessor(assessable(query.messages), spend, query.seed)
        msv, assessor = assessment.msv, assessment.assessor
    config = deciding.config
    level = None if msv is None else activation(msv, config.weights, config.threshold)
    system, strategy, because = _chosen(query, level, config)
    return Routed(
        system=system,
        strategy=strategy,
        activation=level,
        msv=msv,
        because=because,
        config_version=config.version,
        assessor=assessor,
        usage=spend.ledger.usage([STAGE]),
        duration_ms=milliseconds_since(began),
    )


def _roomy(spend: Spend) -> bool:
    """Whether the envelope carries an assessment and still an answer."""
    return spend.ledger.generations_left > 1 and spend.ledger.tokens_left >= 2 * RATING_MAX_TOKENS


def _chosen(query: Query, level: Activation | None, config: RoutingConfig) -> tuple[Route, Strategy, str]:
    if query.named is not None or level is None:
        strategy = query.named or DEFAULT_SYSTEM_TWO
        return system_of(strategy), strategy, query.because
    choice = choose(level, undetermined=config.undetermined)
    strategy = DEFAULT_SYSTEM_TWO if choice.system is Route.SYSTEM_TWO else Strategy.SYSTEM_ONE
    return choice.system, strategy, choice.because
