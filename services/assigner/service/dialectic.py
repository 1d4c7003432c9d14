"""One deliberation under way.

Source: SPEC 1.5.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from chassis.ids import new_id
from chassis.log import logger
from chassis.serving.events import Emit, emitted
from chassis.telemetry import STAGE_SECONDS
from configuration.agents import AgentConfig
from inference.errors import DeadlineExceeded, PromptTooLong
from inference.spend import Spend
from kernel.assignment import InfeasibleAssignment, NoAgents
from kernel.envelope import NOTHING_SPENT, BudgetExhausted, Limits, limits
from kernel.errors import MalformedRequest, MetacogError, UnknownAgent
from kernel.msv import MSV
from kernel.msv.affect import AffectAnalyser
from kernel.msv.ratings import RATING_MAX_TOKENS
from kernel.outcomes import Outcome
from kernel.roles import AUTHOR, CHAIN, FAMILIAR, IMPORTANT, Role, Stage, cross_domain_concern
from services.assigner import metrics
from services.assigner.service.role_assigner import AssignmentPolicy, RoleAssigner
from services.assigner.service.stage_runner import Attempt, StageModelClients, StageRunner, StateAssessor
from services.assigner.service.values import (
    AgentAssessed,
    DeliberateRequest,
    DeliberationFinished,
    DeliberationStarted,
    Event,
    RolesAssigned,
    StageFinished,
    StageMeasured,
)

# Attempts on a stage: twice on its agent, then once on the next best.
ATTEMPTS = 3
# Texts that answer the question, best first: a challenge is none.
ANSWERING = (Stage.SYNTHESIS, Stage.RESOLUTION, Stage.THESIS)
# What is the same for all agents where somebody has measured it: it belongs to the query.
OF_THE_QUERY = ("emotional_response", "experience", "importance")

_log = logger(__name__)


class RunDefaults(Protocol):
    """What a request that leaves something out gets."""

    @property
    def limits(self) -> Limits:
        """The envelope."""

    @property
    def stage_max_tokens(self) -> int:
        """Tokens of one stage's text [count]."""

    @property
    def input_max_tokens(self) -> int:
        """Tokens of each earlier text in a prompt [count]."""

    @property
    def important(self) -> float:
        """Importance from which the generalist speaks [0..1]."""

    @property
    def familiar(self) -> float:
        """Experience above which it does not [0..1]."""


class DialecticParts(Protocol):
    """What a deliberation needs from the world."""

    @property
    def voices(self) -> StageModelClients:
        """Who speaks for whom."""

    @property
    def affect(self) -> AffectAnalyser:
        """Measures affect."""

    @property
    def defaults(self) -> RunDefaults:
        """What is usual."""


class DialecticRun:
    """One deliberation under way."""

    def __init__(
        self,
        ask: DeliberateRequest,
        question: str,
        agents: Sequence[AgentConfig],
        seating: RoleAssigner,
        world: DialecticParts,
        emit: Emit[Event],
    ) -> None:
        self._ask = ask
        self._usual = world.defaults
        self._agents = {agent.id: agent for agent in agents}
        self._seating = seating
        self._emit = emit
        self._began = time.monotonic()
        self._run_id = ask.run_id or new_id()
        voices = [world.voices.assessor(), *map(world.voices.of, agents)]
        self._spend = Spend(limits(ask.envelope, self._usual.limits), models=voices)
        self._assessing = StateAssessor(
            question,
            world.voices,
            self._spend,
            seed=ask.seed,
            emotions=world.affect(question),
            input_max_tokens=self._usual.input_max_tokens,
        )
        self._speaking = StageRunner(question, world.voices, self._spend, ask, emit, self._usual)
        self._assessments: list[AgentAssessed] = []
        self._stages: list[StageFinished] = []
        self._measured: list[StageMeasured] = []
        self._note: StageFinished | None = None
        self._failed: set[str] = set()
        self._reasons: list[str] = []
        self._roles: RolesAssigned

    async def run(self) -> None:
        """Emit every event, the finish last."""
        self._emit(DeliberationStarted(run_id=self._run_id, agents=list(self._agents)))
        refusal: MetacogError | None = None
        note_reason = "the chain did not reach a synthesis"
        async with asyncio.TaskGroup() as background:
            try:
                await self._assess_agents()
                self._give_roles(self._seating.first(self._assessments))
                await self._chain(background)
                note_reason = await self._watch()
            except MetacogError as raised:
                refusal = raised
                self._reasons.append(f"{raised.reason}: {raised.message}")
        answer = self._answer()
        refusal = refusal or self._speaking.refusal
        if refusal is not None and answer is None:
            raise refusal
        finished = self._finished(answer, note_reason)
        metrics.of_deliberation(finished)
        self._emit(finished)

    async def _assess_agents(self) -> None:
        """All agents at once, one short call each, as far as the envelope leaves the stages enough."""
        ledger = self._spend.ledger
        affordable = min(ledger.generations_left - len(CHAIN), ledger.tokens_left // 2 // RATING_MAX_TOKENS)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._assess(agent, affordable=place < affordable))
                for place, agent in enumerate(self._agents.values())
            ]
        self._assessments = [task.result() for task in tasks]

    async def _assess(self, agent: AgentConfig, *, affordable: bool) -> AgentAssessed:
        """One agent's state, told as soon as it is there."""
        assessed = self._completed(await self._assessing.agent(agent, affordable=affordable))
        self._emit(assessed)
        return assessed

    def _completed(self, assessed: AgentAssessed) -> AgentAssessed:
        """The agent's state, with what is known of the query."""
        query = self._ask.msv
        if query is None:
            return assessed
        known = {name: level for name in OF_THE_QUERY if (level := getattr(query, name)) is not None}
        reasons = {name: why for name, why in assessed.msv.unknown_reasons.items() if name not in known}
        return replace(assessed, msv=replace(assessed.msv, **known, unknown_reasons=reasons))

    def _give_roles(self, roles: RolesAssigned) -> None:
        self._roles = roles
        self._emit(roles)

    async def _chain(self, background: asyncio.TaskGroup) -> None:
        """The four stages in order; each is measured while the next one runs."""
        for place, stage in enumerate(CHAIN):
            earlier = {done.stage: done.text for done in self._stages}
            finished = await self._stage(stage, earlier, stages_left=len(CHAIN) - place)
            if not finished.succeeded:
                self._reasons.append(f"{stage} failed: {finished.failure}")
                return
            if self._ask.measure_stages:
                background.create_task(self._measure(finished, earlier, stages_left=len(CHAIN) - place - 1))

    async def _stage(self, stage: Stage, earlier: Mapping[Stage, str], *, stages_left: int) -> StageFinished:
        """One stage: its agent, its agent again, the next best agent."""
        role, number, spent = AUTHOR[stage], 1, NOTHING_SPENT
        while True:
            agent = self._agents[self._roles.assignment[role]]
            attempt = Attempt(
                stage=stage, agent=agent, number=number, stages_left=stages_left, is_last=self._is_last(number)
            )
            finished = await self._speaking.stage(attempt, earlier)
            spent = spent.plus(finished.usage)
            if finished.succeeded or number == ATTEMPTS:
                break
            _log.warning("stage failed", stage=stage, agent=agent.id, attempt=number, failure=finished.failure)
            hopeless = isinstance(self._speaking.refusal, PromptTooLong)
            if (hopeless or number == ATTEMPTS - 1) and not self._replaced(agent.id, role):
                break
            number = ATTEMPTS if hopeless else number + 1
        finished = replace(finished, usage=spent)
        self._stages.append(finished)
        self._emit(finished)
        STAGE_SECONDS.labels(stage.lower()).observe(finished.duration_ms / 1000)
        return finished

    def _is_last(self, number: int) -> bool:
        return number == ATTEMPTS or (number == ATTEMPTS - 1 and len(self._failed) + 1 >= len(self._agents))

    def _replaced(self, agent: str, role: Role) -> bool:
        """Whether the roles not yet played could be given again without `agent`."""
        self._failed.add(agent)
        if len(self._failed) == len(self._agents):
            return False
        played = {AUTHOR[done.stage]: done.agent for done in self._stages}
        reason = f"{agent} failed as {role}"
        try:
            roles = self._seating.again(self._assessments, gone=self._failed, played=played, reason=reason)
        except InfeasibleAssignment:
            return False
        self._give_roles(roles)
        self._reasons.append(f"{reason}; {roles.assignment[role]} stood in")
        metrics.REASSIGNMENTS.inc()
        return True

    async def _measure(self, finished: StageFinished, earlier: Mapping[Stage, str], *, stages_left: int) -> None:
        """State after a stage, as long as the envelope keeps enough for the stages still to come."""
        per_stage = self._ask.stage_max_tokens or self._usual.stage_max_tokens
        measured = await self._assessing.text(
            finished, earlier, tokens_kept=stages_left * per_stage, generations_kept=stages_left
        )
        self._measured.append(measured)
        self._emit(measured)

    async def _watch(self) -> str:
        """The generalist's note on a finished answer; returns why there is one, or why there is none."""
        if self._stages[-1].stage is not Stage.SYNTHESIS or not self._stages[-1].succeeded:
            return "the chain did not reach a synthesis"
        concern = cross_domain_concern(
            self._query_msv(), important=self._usual.important, familiar=self._usual.familiar
        )
        if not concern.raised:
            return concern.reason
        agent = self._agents[self._roles.assignment[Role.GENERALIST]]
        texts = {done.stage: done.text for done in self._stages}
        attempt = Attempt(stage=Stage.NOTE, agent=agent, number=1, stages_left=1, is_last=True)
        try:
            self._note = await self._speaking.stage(attempt, texts)
        except MetacogError as refusal:
            self._reasons.append(f"{Stage.NOTE} failed: {refusal.reason}: {refusal.message}")
            return concern.reason
        self._emit(self._note)
        STAGE_SECONDS.labels(Stage.NOTE.lower()).observe(self._note.duration_ms / 1000)
        if not self._note.succeeded:
            self._reasons.append(f"{Stage.NOTE} failed: {self._note.failure}")
        return concern.reason

    def _query_msv(self) -> MSV:
        """State of the query: as given, else importance as the agents see it on average."""
        if self._ask.msv is not None and self._ask.msv.importance is not None:
            return self._ask.msv
        rated = [a.msv.importance for a in self._assessments if a.msv.importance is not None]
        experience = self._ask.msv.experience if self._ask.msv else None
        return MSV(importance=round(sum(rated) / len(rated), 12) if rated else None, experience=experience)

    def _answer(self) -> StageFinished | None:
        texts = {done.stage: done for done in self._stages if done.succeeded}
        return next((texts[stage] for stage in ANSWERING if stage in texts), None)

    def _finished(self, answer: StageFinished | None, note_reason: str) -> DeliberationFinished:
        limit = (BudgetExhausted.reason, DeadlineExceeded.reason)
        exhausted = self._spend.ledger.exhausted or any(reason.startswith(limit) for reason in self._reasons)
        order = {stage: place for place, stage in enumerate(CHAIN)}
        return DeliberationFinished(
            answer=answer.text if answer else "",
            outcome=Outcome.ANSWERED if answer else Outcome.ABSTAINED,
            note=self._note.text if self._note else "",
            note_reason=note_reason,
            stages=self._stages,
            measurements=sorted(self._measured, key=lambda made: order[made.stage]),
            assessments=self._assessments,
            roles=self._roles,
            usage=self._spend.ledger.usage(),
            degraded=bool(self._reasons) or answer is None or answer.stage is not Stage.SYNTHESIS,
            degraded_reasons=self._reasons,
            budget_exhausted=exhausted,
            duration_ms=round((time.monotonic() - self._began) * 1000, 3),
            run_id=self._run_id,
            note_stage=self._note,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DialecticDefaults:
    """What a request that leaves something out gets.

    Attributes:
        limits: The envelope.
        stage_max_tokens: Tokens of one stage's text [count].
        input_max_tokens: Tokens of each earlier text in a prompt; longer ones are shortened [count].
        policy: How roles are given.
        important: Importance from which the generalist speaks [0..1].
        familiar: Experience above which it does not [0..1].
    """

    limits: Limits
    stage_max_tokens: int = 256
    input_max_tokens: int = 512
    policy: AssignmentPolicy = field(default_factory=AssignmentPolicy)
    important: float = IMPORTANT
    familiar: float = FAMILIAR


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliberationContext:
    """Everybody and everything that a deliberation needs from the world."""

    agents: Callable[[], Sequence[AgentConfig]]
    voices: StageModelClients
    affect: AffectAnalyser
    defaults: DialecticDefaults


def deliberate(ask: DeliberateRequest, *, bench: DeliberationContext) -> AsyncGenerator[Event, None]:
    """Events of one deliberation; the last is `DeliberationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, with two, or for a fixed assignment that leaves out a role.
        NoAgents: When nobody is configured.
        UnknownAgent: For an agent that is not configured.
        InfeasibleAssignment: When the agents may not hold five roles.
        MetacogError: The refusal that left no answer at all.
    """
    agents = _participants(ask, bench.agents())
    question = _question(ask)
    seating = RoleAssigner(ask, agents, bench.defaults.policy)
    return emitted(lambda emit: DialecticRun(ask, question, agents, seating, bench, emit).run())


def _participants(ask: DeliberateRequest, configured: Sequence[AgentConfig]) -> list[AgentConfig]:
    unknown = set(ask.agents) - {agent.id for agent in configured}
    if unknown:
        said = f"agents: {sorted(unknown)[0]!r} is not configured; there are {', '.join(a.id for a in configured)}"
        raise UnknownAgent(said, agent=sorted(unknown)[0])
    chosen = [agent for agent in configured if not ask.agents or agent.id in ask.agents]
    if not chosen:
        raise NoAgents("no agents are configured")
    return sorted(chosen, key=lambda agent: agent.id)


def _question(ask: DeliberateRequest) -> str:
    """The question as one text: a conversation of several turns as its transcript."""
    if ask.question.strip() and ask.messages:
        raise MalformedRequest("give either question or messages", field="question")
    turns = [turn for turn in ask.messages if turn.content.strip()]
    if len(turns) == 1 and not ask.question:
        return turns[0].content
    text = "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns) if turns else ask.question
    if not text.strip():
        raise MalformedRequest("give a question, or messages with some text", field="question")
    return text
