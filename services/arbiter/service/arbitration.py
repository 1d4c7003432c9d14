"""This use case has models solve, criticise and arbitrate one question."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from chassis.serving.events import Emit, stream_of
from configuration.agents import AgentConfig
from inference import ModelClients, Spend
from kernel.envelope import limits
from sandbox.mathematics import MathematicsSource
from services.arbiter import metrics
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.plan import ArbitrationDefaults, Plan, base_seed, build_plan, temperatures
from services.arbiter.service.result import ArbitrationOutcome, answer_settled, arbitration_finished
from services.arbiter.service.stage_agents import DefaultAgents, StageAgents, choose_agents
from services.arbiter.service.stage_runner import SamplingStages
from services.arbiter.service.values import ArbitrateRequest, ArbitrationStarted, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationContext:
    """The context holds the agents, clients and defaults that every arbitration uses.

    Attributes:
        agents: Returns the configured agents.
        model_clients: Their model clients.
        tracer: Computes the embedding measures.
        defaults: The values of a request that leaves something out.
        default_agents: The agents that take part when a request names none.
        calculator: Compares mathematical expressions.
        tracing_timeout_s: Time that the embedding measures may take after the answer, if as much is left [s].
    """

    agents: Callable[[], Sequence[AgentConfig]]
    model_clients: ModelClients
    tracer: Tracer
    defaults: ArbitrationDefaults
    default_agents: DefaultAgents
    calculator: MathematicsSource
    tracing_timeout_s: float = 5.0


def arbitrate(request: ArbitrateRequest, *, context: ArbitrationContext) -> AsyncGenerator[Event, None]:
    """Yield the events of one arbitration; the last is `ArbitrationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, with two, or with agents that fit no solvers.
        RequestOverLimit: For more solvers or samples than are allowed.
        UnknownAgent: For an agent that is not configured.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        MetacogError: The error, when nothing could be sampled at all.
    """
    context.model_clients.begin_run()
    plan = build_plan(request, context.defaults)
    agents = choose_agents(request, plan.solvers, context.agents(), context.model_clients, context.default_agents)
    return stream_of(lambda emit: _run(request, plan, agents, context, emit))


async def _run(
    request: ArbitrateRequest, plan: Plan, agents: StageAgents, context: ArbitrationContext, emit: Emit[Event]
) -> None:
    started_at = time.monotonic()
    defaults = context.defaults
    found = limits(request.envelope, plan.sufficient_limits(defaults.limits), defaults.ceilings)
    spend = Spend(found, models=agents.clients)
    emit(_started(plan, agents))
    stages = SamplingStages(plan, temperatures(request, context.defaults), agents, spend, base_seed(request))
    mathematics = context.calculator.within(spend.seconds_left)
    run = ArbitrationRun(plan, stages, spend, emit, mathematics)
    await run.run()
    outcome = ArbitrationOutcome(plan=plan, run=run, stages=stages, usage=spend.ledger.usage(), started_at=started_at)
    emit(await answer_settled(outcome))
    timeout_s = min(context.tracing_timeout_s, spend.seconds_left())
    finished = await arbitration_finished(outcome, context.tracer, timeout_s)
    metrics.record_arbitration(finished)
    emit(finished)


def _started(plan: Plan, agents: StageAgents) -> ArbitrationStarted:
    return ArbitrationStarted(
        run_id=plan.run_id,
        mode=plan.mode,
        variant=plan.variant,
        solver_agents=[each.config.id for each in agents.solvers],
        critic_agent=agents.critic.config.id if agents.critic else "",
        arbiter_agent=agents.arbiter.config.id,
        planned_generations=plan.generations,
    )
