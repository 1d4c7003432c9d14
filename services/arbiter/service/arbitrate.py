"""Arbitrate one question by models."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from chassis.serving.events import Emit, emitted
from configuration.agents import AgentConfig
from inference.spend import Spend
from kernel.envelope import limits
from sandbox.mathematics import Calculating, Here
from services.arbiter.service.agents import DefaultAgents, SamplingModelClients, StageAgents, seats
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.plan import ArbitrationDefaults, Plan, base_seed, planned, temperatures
from services.arbiter.service.result import ArbitrationOutcome, finished, settled, tell_metrics
from services.arbiter.service.stage_runner import SamplingStages
from services.arbiter.service.values import ArbitrateRequest, ArbitrationStarted, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationContext:
    """Everybody and everything that an arbitration needs from the world.

    Attributes:
        agents: The configured agents.
        voices: Their voices.
        tracer: Makes the embedding measures.
        defaults: What a request that leaves something out gets.
        usual: Who takes part when a request names nobody.
        tracing_timeout_s: Time that the embedding measures may take after the answer, if as much is left [s].
        calculator: Who compares expressions.
    """

    agents: Callable[[], Sequence[AgentConfig]]
    voices: SamplingModelClients
    tracer: Tracer
    defaults: ArbitrationDefaults
    usual: DefaultAgents
    tracing_timeout_s: float = 5.0
    calculator: Calculating = field(default_factory=Here)


def arbitrate(ask: ArbitrateRequest, *, bench: ArbitrationContext) -> AsyncGenerator[Event, None]:
    """Events of one arbitration; the last is `ArbitrationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, with two, or with agents that fit no solvers.
        RequestOverLimit: For more solvers or samples than are allowed.
        UnknownAgent: For an agent that is not configured.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        MetacogError: The refusal, when nothing could be sampled at all.
    """
    plan = planned(ask, bench.defaults)
    seated = seats(ask, plan.solvers, bench.agents(), bench.voices, bench.usual)
    return emitted(lambda emit: _run(ask, plan, seated, bench, emit))


async def _run(
    ask: ArbitrateRequest, plan: Plan, seated: StageAgents, bench: ArbitrationContext, emit: Emit[Event]
) -> None:
    began = time.monotonic()
    spend = Spend(limits(ask.envelope, plan.wide_enough(bench.defaults.limits)), models=seated.voices)
    emit(_started(plan, seated))
    stages = SamplingStages(plan, temperatures(ask, bench.defaults), seated, spend, base_seed(ask))
    course = ArbitrationRun(plan, stages, spend, emit, bench.calculator.within(spend.seconds_left))
    await course.run()
    ended = ArbitrationOutcome(plan=plan, course=course, stages=stages, usage=spend.ledger.usage(), began=began)
    emit(await settled(ended))
    end = await finished(ended, bench.tracer, min(bench.tracing_timeout_s, spend.seconds_left()))
    tell_metrics(end)
    emit(end)


def _started(plan: Plan, seated: StageAgents) -> ArbitrationStarted:
    return ArbitrationStarted(
        run_id=plan.run_id,
        mode=plan.mode,
        variant=plan.variant,
        solver_agents=[seat.agent.id for seat in seated.solvers],
        critic_agent=seated.critic.agent.id if seated.critic else "",
        arbiter_agent=seated.arbiter.agent.id,
        planned_generations=plan.generations,
    )
