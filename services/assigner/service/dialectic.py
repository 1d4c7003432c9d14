"""This use case runs the dialectic: agents assess themselves, get roles, and write the stages in turn.

Source: MSV, five roles (papers.md 1.5).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from chassis.clock import milliseconds_since
from chassis.ids import new_id
from chassis.log import logger
from chassis.serving.events import Emit, stream_of
from chassis.telemetry import STAGE_SECONDS
from configuration.agents import AgentConfig
from inference import DeadlineExceeded, ModelClients, PromptTooLong, Spend
from kernel.agents import participants
from kernel.assignment import InfeasibleAssignment
from kernel.conversation import question_text
from kernel.envelope import DEFAULT_CEILINGS, NO_USAGE, BudgetExhausted, Ceilings, Limits, limits
from kernel.errors import MetacogError
from kernel.msv import MSV
from kernel.msv.affect import AffectAnalyser
from kernel.msv.ratings import RATING_MAX_TOKENS
from kernel.msv.signals import EQUAL, PartWeights
from kernel.outcomes import Outcome, degraded_reasons, is_degraded
from kernel.roles import (
    AUTHOR,
    CHAIN,
    FINAL_STAGE,
    NOTE_EXPERIENCE,
    NOTE_IMPORTANCE,
    Concern,
    Role,
    Stage,
    cross_domain_concern,
)
from kernel.seeds import derived_seed
from services.assigner import metrics
from services.assigner.core.comparison import others_in_random_order
from services.assigner.core.stages import ANSWERS, STAGES
from services.assigner.service.role_assigner import AssignmentPolicy, RoleAssigner
from services.assigner.service.stage_runner import PATIENCE, DialecticTask, StageAttempt, StageRunner
from services.assigner.service.state_assessor import StateAssessor, with_experience
from services.assigner.service.values import (
    AgentAssessed,
    DeliberateRequest,
    DeliberationFinished,
    DeliberationStarted,
    Event,
    KnownAgentExperience,
    KnownExperience,
    RolesAssigned,
    StageFinished,
    StageMeasured,
)

# Attempts on a stage: twice on its agent, then once on the next best.
ATTEMPTS = 3
# Components of the question, where they were measured: they are the same for all agents.
QUESTION_COMPONENTS = ("emotional_response", "importance")
# Why experience is unknown where delegation cannot be asked: that with a text, and that with the question.
NOT_ASKED = "METACOG_ASSIGNER_DELEGATION_ADDRESS names no service to ask"
NOT_STATED = f"the caller does not state it, and {NOT_ASKED}"
NO_SYNTHESIS = "the chain did not reach a synthesis"

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialecticDefaults:
    """A request gets these values for what it leaves out.

    Attributes:
        limits: The envelope.
        ceilings: The most that the envelope of a request may have.
        stage_max_tokens: Tokens of one stage's text [count].
        input_max_tokens: Tokens of each earlier text in a prompt; longer ones are shortened [count].
        policy: How roles are assigned.
        part_weights: What each part of a rating counts in its component.
        important: Importance from which the generalist writes a note [0..1].
        familiar: Experience above which it does not [0..1].
    """

    limits: Limits
    ceilings: Ceilings = DEFAULT_CEILINGS
    stage_max_tokens: int = 256
    input_max_tokens: int = 512
    policy: AssignmentPolicy = field(default_factory=AssignmentPolicy)
    part_weights: PartWeights = EQUAL
    important: float = NOTE_IMPORTANCE
    familiar: float = NOTE_EXPERIENCE


class ExperienceSource(Protocol):
    """This source finds each agent's experience with a question or text; it never raises a `MetacogError`."""

    async def __call__(self, text: str, agents: Sequence[str], *, timeout_s: float) -> KnownExperience:
        """Return what is known of the experience of `agents`, with the reason where it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliberationContext:
    """The context holds the agents, clients and defaults that every deliberation uses.

    Attributes:
        agents: Returns the configured agents.
        model_clients: The model clients of the agents.
        affect: Measures affect in a text.
        defaults: The values of a request that leaves something out.
        experience: Finds the agents' experience where the request does not state it; None where that is not possible.
    """

    agents: Callable[[], Sequence[AgentConfig]]
    model_clients: ModelClients
    affect: AffectAnalyser
    defaults: DialecticDefaults
    experience: ExperienceSource | None = None


def deliberate(request: DeliberateRequest, *, context: DeliberationContext) -> AsyncGenerator[Event, None]:
    """Yield the events of one deliberation; the last is `DeliberationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, with two, or for a fixed assignment that leaves out a role.
        NoAgents: When no agents are configured.
        UnknownAgent: For an agent that is not configured.
        InfeasibleAssignment: When the agents may not hold five roles.
        MetacogError: The error that left no answer at all.
    """
    context.model_clients.begin_run()
    chosen = participants(request.agents, {agent.id: agent for agent in context.agents()})
    agents = sorted(chosen.values(), key=lambda agent: agent.id)
    question = question_text(request.question, request.messages)
    role_assigner = RoleAssigner(
        agents,
        context.defaults.policy,
        kind=request.assignment_kind,
        fixed=request.fixed_assignment,
        seed=_assignment_seed(request.assignment_seed, request.seed),
        keep_apart=request.keep_apart,
    )
    return stream_of(lambda emit: DialecticRun(request, question, agents, role_assigner, context, emit).run())


def _assignment_seed(assignment_seed: int | None, seed: int | None) -> int | None:
    if assignment_seed is None and seed is not None:
        return derived_seed(seed, "assignment")
    return assignment_seed


class DialecticRun:
    """This run is one deliberation under way."""

    def __init__(
        self,
        request: DeliberateRequest,
        question: str,
        agents: Sequence[AgentConfig],
        role_assigner: RoleAssigner,
        context: DeliberationContext,
        emit: Emit[Event],
    ) -> None:
        defaults, model_clients = context.defaults, context.model_clients
        stage_max_tokens = request.stage_max_tokens or defaults.stage_max_tokens
        self._task = DialecticTask(
            question=question,
            stage_max_tokens=stage_max_tokens,
            answer_max_tokens=request.answer_max_tokens or stage_max_tokens,
            input_max_tokens=defaults.input_max_tokens,
            draft=request.draft,
            answer_type=request.answer_type,
            seed=request.seed,
            part_weights=defaults.part_weights,
        )
        self._question_msv = request.msv
        self._stated_experience = request.experience
        self._experience_source = context.experience
        self._measures_stages = request.measure_stages
        self._defaults = defaults
        self._agents = {agent.id: agent for agent in agents}
        self._role_assigner = role_assigner
        self._emit = emit
        self._started_at = time.monotonic()
        self._run_id = request.run_id or new_id()
        models = [model_clients.assessor(), *map(model_clients.of, agents)]
        self._spend = Spend(limits(request.envelope, defaults.limits, defaults.ceilings), models=models)
        self._assessor = StateAssessor(self._task, model_clients, self._spend, context.affect)
        self._runner = StageRunner(self._task, model_clients, self._spend, emit)
        self._assessments: list[AgentAssessed] = []
        self._stages: list[StageFinished] = []
        self._measurements: list[StageMeasured] = []
        self._note: StageFinished | None = None
        self._failed_agents: set[str] = set()
        self._reasons: list[str] = []
        self._roles: RolesAssigned

    async def run(self) -> None:
        """Emit every event, the finish last."""
        self._emit(DeliberationStarted(run_id=self._run_id, agents=list(self._agents)))
        error: MetacogError | None = None
        try:
            await self._assess_agents()
            self._set_roles(self._role_assigner.first(self._assessments))
            await self._run_chain()
        except MetacogError as raised:
            error = raised
            self._reasons.append(f"{raised.reason}: {raised.message}")
        concern = self._concern()
        # Before the note reserves its own.
        affordable = self._affordable_ratings(kept_tokens=self._note_tokens() if concern.raised else 0)
        async with asyncio.TaskGroup() as group:
            if self._measures_stages:
                group.create_task(self._measure_stages(affordable))
            if concern.raised:
                await self._run_note()
        answer = self._answer()
        error = error or self._runner.error
        if error is not None and answer is None:
            raise error
        finished = self._finished(answer, concern.reason)
        metrics.record_deliberation(finished)
        self._emit(finished)

    async def _assess_agents(self) -> None:
        """Assess all agents at once, one short call each, as far as the envelope leaves the stages enough."""
        ledger = self._spend.ledger
        affordable = min(ledger.generations_left - len(CHAIN), ledger.tokens_left // 2 // RATING_MAX_TOKENS)
        repeatable = affordable >= 2 * len(self._agents)
        async with asyncio.TaskGroup() as group:
            experience = group.create_task(self._experience())
            tasks = [
                group.create_task(self._assess(agent, experience, affordable=place < affordable, repeatable=repeatable))
                for place, agent in enumerate(self._agents.values())
            ]
        self._assessments = [task.result() for task in tasks]

    async def _experience(self) -> KnownExperience:
        """Return the agents' experience: as the caller states it, else as delegation returns it in a short time."""
        if self._stated_experience is not None:
            return self._stated_experience
        return await self._experience_with(self._task.question, reason=NOT_STATED)

    async def _experience_with(self, text: str, *, reason: str = NOT_ASKED) -> KnownExperience:
        """Return the agents' experience with a text, as delegation returns it in a short time.

        Args:
            text: The text.
            reason: Why it is unknown where delegation cannot be asked.
        """
        if self._experience_source is None:
            return KnownExperience(unknown_reason=reason)
        timeout_s = self._spend.seconds_left() * PATIENCE
        return await self._experience_source(text, list(self._agents), timeout_s=timeout_s)

    async def _assess(
        self, agent: AgentConfig, experience: asyncio.Task[KnownExperience], *, affordable: bool, repeatable: bool
    ) -> AgentAssessed:
        found = await self._assessor.agent(agent, affordable=affordable, repeatable=repeatable)
        assessed = self._with_known_components(found, (await experience).of(agent.id))
        self._emit(assessed)
        return assessed

    def _with_known_components(self, assessed: AgentAssessed, experience: KnownAgentExperience) -> AgentAssessed:
        """Return the agent's state, with what is known of the question and of the agent's own experience."""
        question_msv = self._question_msv
        of_question = (
            {} if question_msv is None else {name: getattr(question_msv, name) for name in QUESTION_COMPONENTS}
        )
        known = {name: level for name, level in of_question.items() if level is not None}
        reasons = {name: reason for name, reason in assessed.msv.unknown_reasons.items() if name not in known}
        msv = replace(assessed.msv, **known, unknown_reasons=reasons)
        return replace(assessed, msv=with_experience(msv, experience))

    def _set_roles(self, roles: RolesAssigned) -> None:
        self._roles = roles
        self._emit(roles)

    async def _run_chain(self) -> None:
        """Run the stages in order, up to one that fails."""
        for place, stage in enumerate(CHAIN):
            earlier = {done.stage: done.text for done in self._stages}
            finished = await self._run_stage(stage, earlier, stages_left=len(CHAIN) - place)
            if not finished.succeeded:
                self._reasons.append(f"{stage} failed: {finished.failure}")
                return

    async def _run_stage(self, stage: Stage, earlier: Mapping[Stage, str], *, stages_left: int) -> StageFinished:
        """Run one stage on its agent, on its agent again, then on the next best agent."""
        role, number, spent = AUTHOR[stage], 1, NO_USAGE
        while True:
            agent = self._agents[self._roles.assignment[role]]
            attempt = StageAttempt(
                stage=stage, agent=agent, number=number, stages_left=stages_left, is_last=self._is_last(number)
            )
            finished = await self._runner.run(attempt, earlier)
            spent = spent.plus(finished.usage)
            if finished.succeeded or number == ATTEMPTS:
                break
            _log.warning("stage failed", stage=stage, agent=agent.id, attempt=number, failure=finished.failure)
            # Another attempt of the same agent would meet the same limit.
            is_too_long = isinstance(self._runner.error, PromptTooLong)
            if (is_too_long or number == ATTEMPTS - 1) and not self._reassign_roles(agent.id, role):
                break
            number = ATTEMPTS if is_too_long else number + 1
        finished = replace(finished, usage=spent)
        self._stages.append(finished)
        self._emit_stage(finished)
        return finished

    def _is_last(self, number: int) -> bool:
        return number == ATTEMPTS or (number == ATTEMPTS - 1 and len(self._failed_agents) + 1 >= len(self._agents))

    def _reassign_roles(self, agent: str, role: Role) -> bool:
        """Assign the roles not yet played without `agent`; return whether that was possible."""
        self._failed_agents.add(agent)
        if len(self._failed_agents) == len(self._agents):
            return False
        played = {AUTHOR[done.stage]: done.agent for done in self._stages}
        reason = f"{agent} failed as {role}"
        try:
            roles = self._role_assigner.again(self._assessments, self._failed_agents, played, reason)
        except InfeasibleAssignment:
            return False
        self._set_roles(roles)
        self._reasons.append(f"{reason}; {roles.assignment[role]} stood in")
        metrics.REASSIGNMENTS.inc()
        return True

    def _emit_stage(self, finished: StageFinished) -> None:
        self._emit(finished)
        STAGE_SECONDS.labels(finished.stage.lower()).observe(finished.duration_ms / 1000)

    async def _measure_stages(self, affordable: int) -> None:
        """Measure every text beside all the others, the last first where the envelope does not pay for all.

        Args:
            affordable: Ratings that the envelope pays for [count, >= 0].
        """
        written = [done for done in self._stages if done.succeeded]
        beside = others_in_random_order([done.stage for done in written], self._comparison_seed())
        texts = {done.stage: done.text for done in written}
        async with asyncio.TaskGroup() as group:
            for place, done in enumerate(reversed(written)):
                others = {stage: texts[stage] for stage in beside[done.stage]}
                repeatable = affordable >= 2 * len(written)
                group.create_task(self._measure(done, others, affordable=place < affordable, repeatable=repeatable))

    async def _measure(
        self, done: StageFinished, others: Mapping[Stage, str], *, affordable: bool, repeatable: bool
    ) -> None:
        """Emit the state of a text, with the largest experience that an agent has with it."""
        async with asyncio.TaskGroup() as group:
            experience = group.create_task(self._experience_with(done.text))
            measured = await self._assessor.text(done, others, affordable=affordable, repeatable=repeatable)
        measured = replace(measured, msv=with_experience(measured.msv, experience.result().largest()))
        self._measurements.append(measured)
        self._emit(measured)

    def _affordable_ratings(self, *, kept_tokens: int) -> int:
        """Return the ratings that the envelope pays for [count, >= 0], beside a generation of so many tokens."""
        ledger = self._spend.ledger
        generations = ledger.generations_left - bool(kept_tokens)
        return max(0, min(generations, (ledger.tokens_left - kept_tokens) // RATING_MAX_TOKENS))

    def _note_tokens(self) -> int:
        most = STAGES[Stage.NOTE].most_tokens
        return self._task.stage_max_tokens if most is None else min(most, self._task.stage_max_tokens)

    def _comparison_seed(self) -> int:
        """Return the seed of the orders in which texts are shown: the request's, else one of the run's own."""
        return derived_seed(self._task.seed or 0, self._run_id if self._task.seed is None else "", "beside")

    def _concern(self) -> Concern:
        """Return whether the generalist writes its note on the finished answer, and why."""
        if not self._stages or self._stages[-1].stage is not FINAL_STAGE or not self._stages[-1].succeeded:
            return Concern(raised=False, reason=NO_SYNTHESIS)
        defaults = self._defaults
        return cross_domain_concern(self._note_msv(), important=defaults.important, familiar=defaults.familiar)

    async def _run_note(self) -> None:
        """Run the generalist's note; one that cannot be had is reported."""
        agent = self._agents[self._roles.assignment[AUTHOR[Stage.NOTE]]]
        attempt = StageAttempt(stage=Stage.NOTE, agent=agent, number=1, stages_left=1, is_last=True)
        try:
            self._note = await self._runner.run(attempt, {done.stage: done.text for done in self._stages})
        except MetacogError as error:
            self._reasons.append(f"{Stage.NOTE} failed: {error.reason}: {error.message}")
            return
        self._emit_stage(self._note)
        if not self._note.succeeded:
            self._reasons.append(f"{Stage.NOTE} failed: {self._note.failure}")

    def _note_msv(self) -> MSV:
        """Return the state that decides on the note: the request's, else importance as agents rate it on average."""
        question_msv = self._question_msv
        if question_msv is not None and question_msv.importance is not None:
            return question_msv
        rated = [each.msv.importance for each in self._assessments if each.msv.importance is not None]
        importance = round(sum(rated) / len(rated), 12) if rated else None
        return MSV(importance=importance, experience=question_msv.experience if question_msv else None)

    def _answer(self) -> StageFinished | None:
        succeeded = {done.stage: done for done in self._stages if done.succeeded}
        return next((succeeded[stage] for stage in ANSWERS if stage in succeeded), None)

    def _finished(self, answer: StageFinished | None, note_reason: str) -> DeliberationFinished:
        outcome = Outcome.ANSWERED if answer else Outcome.ABSTAINED
        reasons = degraded_reasons(outcome, self._reasons)
        limit = (BudgetExhausted.reason, DeadlineExceeded.reason)
        return DeliberationFinished(
            answer=answer.text if answer else "",
            outcome=outcome,
            note=self._note.text if self._note else "",
            note_reason=note_reason,
            stages=self._stages,
            measurements=sorted(self._measurements, key=lambda measured: CHAIN.index(measured.stage)),
            assessments=self._assessments,
            roles=self._roles,
            usage=self._spend.ledger.usage(),
            degraded=is_degraded(reasons),
            degraded_reasons=reasons,
            budget_exhausted=self._spend.ledger.exhausted or any(reason.startswith(limit) for reason in reasons),
            duration_ms=milliseconds_since(self._started_at),
            run_id=self._run_id,
            note_stage=self._note,
        )
