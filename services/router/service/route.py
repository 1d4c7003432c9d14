"""Choose System 1 or System 2, without answering."""

import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from chassis.rest import dumps
from chassis.spend import Priced, Spend
from kernel.envelope import Limits, limits
from kernel.msv import MSV
from kernel.policy import Policy
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
from services.router.core.policy import ruling
from services.router.core.strategies import DEFAULT_SYSTEM_TWO, Strategy, named_strategy, system_of
from services.router.service.assess import Assessment, Assessor, Assessors, milliseconds_since
from services.router.service.kept_decisions import KeptDecisions
from services.router.service.plain_money import affords_assessing, kept_for_an_answer
from services.router.service.subject import Drafted, DrafterOf, Subject, assessable, conversation
from services.router.service.values import AnswerRequest, Routed, RouteRequest, RouteResponse


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
    """What a decision needs.

    Attributes:
        config: The configuration in force.
        assessors: Who measures a state.
        policy: The policy table; None where it is off.
        kept: Decisions of conversations that may go on; None where every turn is assessed.
    """

    config: RoutingConfig
    assessors: Assessors
    policy: Policy | None = None
    kept: KeptDecisions | None = None


@value
class Query:
    """What is to be decided on.

    Attributes:
        subject: The conversation; None when a state is given or a strategy named.
        msv: A ready state.
        named: The strategy that is given, by the caller or by what the request needs.
        because: Why it is given.
        assessor: Name of the assessor; empty for the configured one.
        streamed: Whether the answer is streamed, so that there is no use for one that is there before it is chosen.
        run_id: Run that the decision is for; empty: none, and it is not kept for the next turn.
    """

    subject: Subject | None = None
    msv: MSV | None = None
    named: Strategy | None = None
    because: str = "requested"
    assessor: str = ""
    streamed: bool = False
    run_id: str = ""


@value
class Decision:
    """The choice, and the System 1 answer if assessing made one."""

    routed: Routed
    drafted: Drafted | None = None


def version_of(config: RoutingConfig) -> str:
    """Name of a configuration: `paper` for the paper's, else a digest of it, so that no two share a name."""
    if config == RoutingConfig():
        return "paper"
    return sha256(dumps(replace(config, version=""))).hexdigest()[:12]


async def route(
    ask: RouteRequest,
    *,
    deciding: Deciding,
    default: Limits,
    drafter: DrafterOf,
    models: Sequence[Priced] = (),
    key_name: str = "",
) -> RouteResponse:
    """The choice for a query, or for a ready state.

    Raises:
        UnpricedModel: When the cost is limited, and one of `models`, which may be asked, has no price.
        UnknownStrategy: For a strategy that the router does not have.
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    named = named_strategy(ask.strategy)
    subject = None
    if ask.msv is None and not named:
        messages = conversation(ask.query, ask.messages)
        draft = drafter(AnswerRequest(messages=messages, seed=ask.seed), messages)
        subject = Subject(messages=messages, key_name=key_name, seed=ask.seed, draft=draft)
    query = Query(subject=subject, msv=ask.msv, named=named, assessor=ask.assessor)
    return (await decide(query, Spend(limits(ask.envelope, default), models=models), deciding)).routed


async def decide(query: Query, spend: Spend, deciding: Deciding) -> Decision:
    """The choice as named, else by the activation of the state, which is measured when missing.

    An envelope with no room for more than a plain call gets one.

    Raises:
        UnknownAssessor: For an assessor that the router does not have.
        MalformedRequest: When there is nothing to decide on.
    """
    began, made = time.monotonic(), Assessment(msv=query.msv, assessor="")
    assessor = deciding.assessors.chosen(query.assessor, streamed=query.streamed)
    if query.msv is None and query.named is None and not _carries(query, assessor, spend):
        query = replace(query, named=Strategy.SYSTEM_ONE, because="envelope")
    if query.msv is None and query.named is None:
        if (kept := _kept(query, deciding)) is not None:
            return Decision(routed=kept)
        made = await _assessed(query.subject, assessor, spend)
    config = deciding.config
    level = None if made.msv is None else activation(made.msv, config.weights, config.threshold)
    chosen = _chosen(query, made.msv, level, deciding)
    routed = Routed(
        system=system_of(chosen.strategy),
        strategy=chosen.strategy,
        activation=level,
        msv=made.msv,
        because=chosen.because,
        policy_row=chosen.policy_row,
        config_version=config.version,
        assessor=made.assessor,
        usage=spend.ledger.usage(),
        duration_ms=milliseconds_since(began),
        prompt_digests=made.prompt_digests,
        draft=made.drafted.text if made.drafted else "",
        samples=made.samples,
    )
    if made.assessor:
        _remember(query, routed, deciding)
    return Decision(routed=routed, drafted=made.drafted)


async def _assessed(subject: Subject | None, assessor: Assessor, spend: Spend) -> Assessment:
    assert subject is not None, "without a ready state or a named strategy there is a subject"
    assessable(subject.messages)
    with kept_for_an_answer(spend, subject):
        return await assessor(subject, spend)


def _carries(query: Query, assessor: Assessor, spend: Spend) -> bool:
    """Whether the envelope carries an assessment and an answer."""
    has_money = query.subject is None or affords_assessing(spend.ledger, query.subject)
    return assessor.fits(spend.ledger) and has_money


def _kept(query: Query, deciding: Deciding) -> Routed | None:
    """The decision of the turn before, while the task goes on; who names an assessor wants an assessment."""
    if deciding.kept is None or query.subject is None or query.assessor:
        return None
    routed = deciding.kept.earlier(query.subject)
    if routed is not None:
        _remember(query, routed, deciding)
    return routed


def _remember(query: Query, routed: Routed, deciding: Deciding) -> None:
    if deciding.kept is not None and query.subject is not None:
        deciding.kept.remember(query.subject, routed, query.run_id)


@value
class _Chosen:
    """A strategy, and why it."""

    strategy: Strategy
    because: str
    policy_row: str = ""


def _chosen(query: Query, msv: MSV | None, level: Activation | None, deciding: Deciding) -> _Chosen:
    """The strategy as named, else by the policy table where it has a word in it, else by the activation."""
    if query.named is not None or msv is None or level is None:
        return _Chosen(strategy=query.named or DEFAULT_SYSTEM_TWO, because=query.because)
    choice = choose(level, undetermined=deciding.config.undetermined)
    row = ruling(deciding.policy, msv, level, choice) if deciding.policy else None
    if row is not None:
        return _Chosen(strategy=Strategy(row.strategy), because="policy", policy_row=row.name)
    strategy = DEFAULT_SYSTEM_TWO if choice.system is Route.SYSTEM_TWO else Strategy.SYSTEM_ONE
    return _Chosen(strategy=strategy, because=choice.because)
