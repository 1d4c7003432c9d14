"""Agents assess themselves: their verbalized confidence and their profile are combined."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from chassis.clock import REQUEST_ENDS_AT, milliseconds_since
from chassis.prompts import Prompt, reordered
from configuration.agents import AgentConfig
from inference import Call, ModelClients, Spend, UnparsableOutput, WorkKind, read_document
from kernel.agents import participants
from kernel.confidence.decision import assessed_agent
from kernel.confidence.rules import Ablation
from kernel.conversation import chat_of_prompt
from kernel.envelope import BudgetExhausted, StageUsage, limits
from kernel.errors import MetacogError
from kernel.learning.profiles import ProfileEstimate, profile_estimate
from kernel.msv.ratings import SCALE, CountsPlaces, other_order, places_of, rating_schema, read_rating
from kernel.statistics.recalibration import calibrated
from kernel.votes.states import ProbabilityState
from services.delegation import prompts
from services.delegation.metrics import ASSESSED
from services.delegation.service.dimensions import DimensionFinder
from services.delegation.service.monitoring import RecalibrationMap
from services.delegation.service.task_context import (
    Agents,
    ProfileLookup,
    TaskContext,
    TaskDefaults,
    checked_question,
    clients_of,
    rules_in_force,
)
from services.delegation.service.values import AgentAssessed, SelfAssessRequest, SelfAssessResponse

# The three questions, in the order of the prompt.
QUESTIONS = ("expertise", "approach", "knowledge")
ASSESS_MAX_TOKENS = 48
ATTEMPTS = 2
# Why a verbalized confidence is not used.
UNINFORMATIVE = "uninformative"

Recalibrations = Callable[[], Mapping[str, RecalibrationMap]]
Uninformative = Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAssessContext:
    """The context holds everything that self-assessments without a solution need.

    Attributes:
        agents: The configured agents.
        dimensions: Finds the dimensions of a task.
        model_clients: Model clients of the agents.
        profiles: The source of profiles.
        recalibrations: Maps of verbalized confidences, by agent.
        uninformative: Agents whose verbalized confidence has no weight.
        defaults: The values of what a request leaves out.
    """

    agents: Agents
    dimensions: DimensionFinder
    model_clients: ModelClients
    profiles: ProfileLookup
    recalibrations: Recalibrations
    uninformative: Uninformative = frozenset
    defaults: TaskDefaults


async def self_assess(request: SelfAssessRequest, *, context: SelfAssessContext) -> SelfAssessResponse:
    """Return each agent's assessment of a task that no agent solves, in the order of the request.

    Raises:
        MalformedRequest, RequestOverLimit: For an unusable task.
        UnknownDimension, UnknownAgent, NoAgents: For what is not configured.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        MetacogError: When the dimension had to be classified and could not be.
    """
    started = time.monotonic()
    context.model_clients.begin_run()
    agents = participants(request.agents, {agent.id: agent for agent in context.agents()})
    models = clients_of(context.model_clients, agents.values())
    task = TaskContext(
        question=checked_question(request.question, request.messages, context.defaults.task_characters),
        agents=agents,
        rules=rules_in_force(request.parameters, context.defaults.rules),
        spend=Spend(limits(request.envelope, context.defaults.limits, context.defaults.ceilings), models=models),
        model_clients=context.model_clients,
        emit=lambda _event: None,
        seed=request.seed,
    )
    REQUEST_ENDS_AT.set(task.spend.deadline)
    dimensions = await context.dimensions.find(request, task)
    profiles = await context.profiles.of(list(agents), [each.dimension for each in dimensions])
    names = list(dict.fromkeys(request.agents)) or list(agents)
    ledger = task.spend.ledger
    assessor = SelfAssessor(task, context.recalibrations, context.uninformative, alone=True)
    assessments = await assessor.assess_all(names, {name: profile_estimate(own) for name, own in profiles.items()})
    return SelfAssessResponse(
        assessments=assessments,
        dimensions=dimensions,
        parameters=task.rules,
        usage=ledger.usage(),
        budget_exhausted=ledger.exhausted,
        duration_ms=milliseconds_since(started),
    )


def affordable_assessments(task: TaskContext) -> int:
    """Return how many assessments the envelope pays for [count]."""
    ledger = task.spend.ledger
    return min(ledger.generations_left, ledger.tokens_left // ASSESS_MAX_TOKENS)


class SelfAssessor:
    """The self-assessor obtains self-assessments for one task, inside its envelope.

    Args:
        task: The task.
        recalibrations: Maps of verbalized confidences, by agent.
        uninformative: Agents whose verbalized confidence has no weight, unless the paper's rule is in force.
        alone: Whether nothing comes after them; else each round of them gets half of the time that is left.
    """

    def __init__(
        self, task: TaskContext, recalibrations: Recalibrations, uninformative: Uninformative, *, alone: bool = False
    ) -> None:
        self._task = task
        self._alone = alone
        is_constant = Ablation.WITHOUT_SELF_ASSESSMENT in task.ablations
        self._maps = recalibrations() if task.rules.recalibrate and not is_constant else {}
        self._weightless = frozenset() if task.rules.follows_paper or is_constant else frozenset(uninformative())

    async def assess_all(self, agents: Sequence[str], estimates: Mapping[str, ProfileEstimate]) -> list[AgentAssessed]:
        """Return assessments of `agents`, obtained in parallel and emitted as they arrive, inside the envelope."""
        affordable = affordable_assessments(self._task)
        async with asyncio.TaskGroup() as group:
            pending = [
                group.create_task(self.assess(agent, estimates[agent], is_affordable=index < affordable))
                for index, agent in enumerate(agents)
            ]
        return [each.result() for each in pending]

    async def assess(self, agent: str, estimate: ProfileEstimate, *, is_affordable: bool = True) -> AgentAssessed:
        """Return the assessment of one agent; without a readable reply its verbalized confidence is unknown."""
        ablations = self._task.ablations
        if Ablation.WITHOUT_VERBALIZED in ablations:
            assessment = self.profile_based(agent, estimate, "ablation", profile_alone=True)
        elif Ablation.WITHOUT_SELF_ASSESSMENT in ablations:
            constant = self._task.rules.constant_verbalized
            assessment = self._assessment(agent, estimate, constant, profile_alone=False)
        elif not is_affordable:
            self._task.spend.ledger.exhausted = True
            assessment = self.profile_based(agent, estimate, "budget")
        else:
            assessment = await self._verbalized(self._task.agents[agent], estimate)
        self._task.emit(assessment)
        return assessment

    def profile_based(
        self, agent: str, estimate: ProfileEstimate, reason: str, *, profile_alone: bool = False
    ) -> AgentAssessed:
        """Return the assessment of an agent by its profile; `reason` is why there is no verbalized confidence."""
        ASSESSED.labels(reason).inc()
        return self._assessment(agent, estimate, None, profile_alone=profile_alone, unknown_reason=reason)

    async def _verbalized(self, agent: AgentConfig, estimate: ProfileEstimate) -> AgentAssessed:
        started = time.monotonic()
        prompt = self._task.recorded(prompts.self_assessment(question=self._task.question))
        reply = _RatingReply()
        try:
            async with nullcontext() if self._alone else self._task.half_of_time_left():
                await self._request_ratings(reply, agent, prompt)
        except TimeoutError:
            reply.unknown_reason = "too_slow"
        ratings, reason = reply.ratings, reply.unknown_reason
        raw = round(sum(ratings.values()) / len(ratings), 12) if ratings else None
        ASSESSED.labels("rated" if ratings else reason).inc()
        return self._assessment(
            agent.id,
            estimate,
            raw,
            profile_alone=False,
            ratings=ratings,
            unknown_reason=(UNINFORMATIVE if agent.id in self._weightless else "") if ratings else reason,
            attempts=reply.attempts,
            prompt_digest=prompt.digest,
            usage=reply.usage,
            duration_ms=milliseconds_since(started),
        )

    async def _request_ratings(self, reply: "_RatingReply", agent: AgentConfig, prompt: Prompt) -> None:
        """Request the ratings, a second time where they cannot be read, or count their places, in another order."""
        client = self._task.model_clients.of(agent)
        order: Sequence[str] = QUESTIONS
        try:
            for attempt in range(1, ATTEMPTS + 1):
                reply.attempts = attempt
                asked = reordered(prompt, places_of(order, QUESTIONS)).text
                completion = await client.complete(self._call(agent, asked, attempt), self._task.spend)
                reply.usage = reply.usage.plus(completion.usage)
                try:
                    reply.ratings = read_ratings(completion.samples[0].text, order)
                    return
                except UnparsableOutput as error:
                    if isinstance(error.__cause__, CountsPlaces):
                        order = other_order(QUESTIONS)
        except BudgetExhausted:
            reply.unknown_reason = "budget"
        except MetacogError as error:
            reply.unknown_reason = error.reason

    def _assessment(
        self, agent: str, estimate: ProfileEstimate, raw: float | None, *, profile_alone: bool, **more: object
    ) -> AgentAssessed:
        is_used = raw is not None and agent not in self._weightless
        fitted = self._maps.get(agent)
        verbalized = calibrated(fitted.points if fitted else (), raw) if raw is not None and is_used else None
        combined = assessed_agent(verbalized, estimate, self._task.rules, profile_alone=profile_alone)
        facts: dict[str, object] = {
            "agent": agent,
            "model": self._task.model_clients.of(self._task.agents[agent]).model,
            "verbalized": verbalized,
            "profile": estimate.profile,
            "confidence": round(combined.confidence, 12),
            "disagreement": None if combined.disagreement is None else round(combined.disagreement, 12),
            "threshold": round(combined.threshold, 12),
            "verbalized_raw": raw,
            "limiting_dimension": estimate.limiting_dimension,
            "observations": estimate.observations,
            "eligible": combined.eligible,
            "ineligible_reason": combined.ineligible_reason,
            "verbalized_state": None if verbalized is None else _state(fitted),
            "verbalized_labels": fitted.observations if fitted and verbalized is not None else 0,
            **more,
        }
        return AgentAssessed(**facts)  # type: ignore[arg-type]

    def _call(self, agent: AgentConfig, prompt: str, attempt: int) -> Call:
        return Call(
            messages=chat_of_prompt(agent.system_prompt, prompt),
            max_tokens=ASSESS_MAX_TOKENS,
            schema=rating_schema(QUESTIONS),
            temperature=0.0 if attempt == 1 else 0.7,
            seed=self._task.seed_of("assess", agent.id, str(attempt)),
            thinking=False,
            stage="assess",
            work=WorkKind.ASSESS,
            floor_tokens=min(ASSESS_MAX_TOKENS, 16),
        )


class _RatingReply:
    """The reply holds the ratings of one agent as far as they have arrived."""

    def __init__(self) -> None:
        self.ratings: Mapping[str, float] = {}
        self.unknown_reason = "unparseable"
        self.attempts = 0
        self.usage = StageUsage()


def read_ratings(text: str, order: Sequence[str] = QUESTIONS) -> dict[str, float]:
    """Return an agent's answers to the three questions by name [0..1], which were asked in this order.

    Raises:
        UnparsableOutput: When they are not there.

    Example:
        >>> read_ratings('{"r": [90, 45, 0]}')
        {'expertise': 0.9, 'approach': 0.45, 'knowledge': 0.0}
    """
    document = read_document(text, rating_schema(QUESTIONS)).content
    try:
        return {name: number / SCALE for name, number in read_rating(document, order).items()}
    except ValueError as error:
        raise UnparsableOutput(f"the rating cannot be used: {error}", problem=str(error)) from error


def _state(fitted: RecalibrationMap | None) -> ProbabilityState:
    return ProbabilityState.FITTED if fitted else ProbabilityState.UNCALIBRATED
