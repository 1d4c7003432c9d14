"""The five-role dialectic: assess, assign, thesis, antithesis, resolution, synthesis, and the watcher outside.

Source: SPEC 1.3-1.5. Everything one request does shares one `Spend`; what the envelope cannot carry is left out in the
order measurements, note, self-assessments, stages, and said.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from chassis.affect import AffectAnalyser
from chassis.agents import AgentConfig
from chassis.events import Emit, emitted
from chassis.inference.errors import DeadlineExceeded
from chassis.log import logger
from chassis.spend import Spend
from chassis.telemetry import STAGE_SECONDS
from chassis.wire import MalformedRequest
from kernel.answers import Outcome
from kernel.envelope import BudgetExhausted, Limits, limits
from kernel.errors import MetacogError
from kernel.msv import MSV
from kernel.ratings import RATING_MAX_TOKENS
from services.assigner.core.assignment import (
    Chosen,
    Problem,
    best_assignment,
    count_assignments,
    greedy_assignment,
    random_assignment,
)
from services.assigner.core.errors import InfeasibleAssignment, NoAgents, UnknownAgent
from services.assigner.core.fitness import PAPER_FORM_WEIGHTS, RoleWeights
from services.assigner.core.roles import AUTHOR, CHAIN, ROLES, Role, Stage
from services.assigner.core.watcher import cross_domain_concern
from services.assigner.service.assessing import Assessing
from services.assigner.service.assign import explained, stated, totalled
from services.assigner.service.speaking import Speaking, Voices
from services.assigner.service.values import (
    AgentAssessed,
    AssignmentKind,
    AssignRequest,
    Candidate,
    DeliberateRequest,
    DeliberationFinished,
    DeliberationStarted,
    Event,
    ForbiddenPair,
    RolesAssigned,
    StageFinished,
    StageMeasured,
)

# Attempts on a stage: twice on its agent, then once on the next best.
ATTEMPTS = 3
# Texts that answer the question, best first: a challenge is none.
ANSWERING = (Stage.SYNTHESIS, Stage.RESOLUTION, Stage.THESIS)

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a request that leaves something out gets.

    Attributes:
        limits: The envelope.
        stage_max_tokens: Tokens of one stage's text [count].
        input_max_tokens: Tokens of each earlier text in a prompt; longer ones are shortened [count].
        weights: Weights of the fitness.
    """

    limits: Limits
    stage_max_tokens: int = 256
    input_max_tokens: int = 512
    weights: RoleWeights = field(default_factory=lambda: PAPER_FORM_WEIGHTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everybody and everything that a deliberation needs from the world."""

    agents: Callable[[], Sequence[AgentConfig]]
    voices: Voices
    affect: AffectAnalyser
    defaults: Defaults


def deliberate(ask: DeliberateRequest, *, bench: Bench) -> AsyncGenerator[Event, None]:
    """Events of one deliberation; the last is `DeliberationFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, or with two.
        NoAgents: When nobody is configured.
        UnknownAgent: For an agent that is not configured.
        MetacogError: The refusal that left no answer at all.
    """
    chosen = _participants(ask, bench.agents())
    question = _question(ask)
    return emitted(lambda emit: _Deliberation(ask, question, chosen, bench, emit).run())


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


class _Deliberation:
    """One deliberation under way."""

    def __init__(
        self, ask: DeliberateRequest, question: str, agents: Sequence[AgentConfig], bench: Bench, emit: Emit[Event]
    ) -> None:
        self._ask = ask
        self._agents = {agent.id: agent for agent in agents}
        self._bench = bench
        self._emit = emit
        self._began = time.monotonic()
        self._spend = Spend(limits(ask.envelope, bench.defaults.limits))
        emotions = bench.affect(question)
        self._assessing = Assessing(question, bench.voices, self._spend, ask.seed, emotions)
        self._speaking = Speaking(question, bench.voices, self._spend, ask, emit, bench.defaults)
        self._assessments: list[AgentAssessed] = []
        self._stages: list[StageFinished] = []
        self._measured: list[StageMeasured] = []
        self._failed: set[str] = set()
        self._reasons: list[str] = []
        self._roles: RolesAssigned
        self._problem: Problem

    async def run(self) -> None:
        """Emit every event, the finish last."""
        self._emit(DeliberationStarted(run_id=self._ask.run_id, agents=list(self._agents)))
        refusal: MetacogError | None = None
        note, note_reason = "", "the chain did not reach an answer"
        async with asyncio.TaskGroup() as background:
            try:
                await self._assess_agents()
                self._assign()
                await self._chain(background)
                note, note_reason = await self._watch()
            except MetacogError as raised:
                refusal = raised
                self._reasons.append(f"{raised.reason}: {raised.message}")
        answer = self._answer()
        refusal = refusal or self._speaking.refusal
        if refusal is not None and answer is None:
            raise refusal
        self._finish(answer, note, note_reason)

    async def _assess_agents(self) -> None:
        """All agents at once, one short call each, as far as the envelope leaves the stages enough."""
        ledger = self._spend.ledger
        affordable = min(ledger.generations_left - len(CHAIN), ledger.tokens_left // 2 // RATING_MAX_TOKENS)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._assessing.agent(agent, affordable=place < affordable))
                for place, agent in enumerate(self._agents.values())
            ]
        for task in tasks:
            assessed = self._completed(task.result())
            self._assessments.append(assessed)
            self._emit(assessed)

    def _completed(self, assessed: AgentAssessed) -> AgentAssessed:
        """The agent's state with what is the same for all: affect, experience and importance belong to the query."""
        query = self._ask.msv
        if query is None:
            return assessed
        known = {
            name: level
            for name in ("emotional_response", "experience", "importance")
            if (level := getattr(query, name)) is not None
        }
        reasons = {name: why for name, why in assessed.msv.unknown_reasons.items() if name not in known}
        return replace(assessed, msv=replace(assessed.msv, **known, unknown_reasons=reasons))

    def _assign(self, because: str = "", fixed: Sequence[Role] = ()) -> None:
        """Give the roles; again, with those of `fixed` as they are, when an agent has failed."""
        share = -(-len(ROLES) // (len(self._assessments) - len(self._failed)))
        request = AssignRequest(
            agents=[
                Candidate(id=a.agent, msv=a.msv, capacity=self._agents[a.agent].capacity or share)
                for a in self._assessments
            ],
            weights=self._bench.defaults.weights,
            pins={role: self._roles.assignment[role] for role in fixed},
            forbidden=[
                ForbiddenPair(role=role, agent=agent) for agent in self._failed for role in ROLES if role not in fixed
            ],
        )
        matrix, problem = stated(request)
        chosen, propensity = self._draw(problem) if not because else (best_assignment(problem), 1.0)
        given = totalled(problem, chosen)
        self._roles = RolesAssigned(
            assignment_kind=self._ask.assignment_kind,
            assignment=given.assignment,
            total_fitness=given.total_fitness,
            propensity=propensity,
            optimum=explained(matrix, problem, best_assignment(problem)),
            because=because,
        )
        self._emit(self._roles)

    def _draw(self, problem: Problem) -> tuple[Chosen, float]:
        """The assignment of the kind asked for, and the probability with which it was drawn."""
        match self._ask.assignment_kind:
            case AssignmentKind.OPTIMAL:
                return best_assignment(problem), 1.0
            case AssignmentKind.GREEDY:
                return greedy_assignment(problem) or best_assignment(problem), 1.0
            case AssignmentKind.RANDOM:
                rng = np.random.default_rng(self._ask.assignment_seed)
                return random_assignment(problem, rng), 1.0 / count_assignments(problem)
            case AssignmentKind.FIXED:
                return self._fixed(problem), 1.0

    def _fixed(self, problem: Problem) -> Chosen:
        wanted = self._ask.fixed_assignment
        for role in ROLES:
            if role not in wanted:
                raise MalformedRequest(f"fixed_assignment: {role} is missing", field="fixed_assignment", role=role)
            if wanted[role] not in problem.agents:
                said = f"fixed_assignment: {role} needs one of {', '.join(problem.agents)}, not {wanted[role]!r}"
                raise UnknownAgent(said, field="fixed_assignment", role=role, agent=wanted[role])
        return tuple(problem.agents.index(wanted[role]) for role in ROLES)

    async def _chain(self, background: asyncio.TaskGroup) -> None:
        """The four stages in order; each is measured while the next one runs."""
        for place, stage in enumerate(CHAIN):
            finished = await self._stage(stage, stages_left=len(CHAIN) - place)
            if not finished.succeeded:
                self._reasons.append(f"{stage} failed: {finished.failure}")
                return
            if self._ask.measure_stages:
                background.create_task(self._measure(finished, stages_left=len(CHAIN) - place - 1))

    async def _stage(self, stage: Stage, *, stages_left: int) -> StageFinished:
        """One stage: its agent, its agent again, the next best agent."""
        role = AUTHOR[stage]
        texts = {done.stage: done.text for done in self._stages}
        for attempt in range(1, ATTEMPTS + 1):
            agent = self._agents[self._roles.assignment[role]]
            finished = await self._speaking.stage(stage, agent, texts, attempt=attempt, stages_left=stages_left)
            if finished.succeeded or attempt == ATTEMPTS:
                break
            _log.warning("stage failed", stage=stage, agent=agent.id, attempt=attempt, failure=finished.failure)
            if attempt == ATTEMPTS - 1 and not self._replaced(agent.id, role):
                break
        self._stages.append(finished)
        self._emit(finished)
        STAGE_SECONDS.labels(stage.lower()).observe(finished.duration_ms / 1000)
        return finished

    def _replaced(self, agent: str, role: Role) -> bool:
        """Whether the roles not yet played could be given again without `agent`."""
        self._failed.add(agent)
        if len(self._failed) == len(self._agents):
            return False
        played = [AUTHOR[done.stage] for done in self._stages]
        try:
            self._assign(because=f"{agent} failed twice as {role}", fixed=played)
        except InfeasibleAssignment:
            return False
        self._reasons.append(f"{agent} failed twice as {role}; {self._roles.assignment[role]} stood in")
        return True

    async def _measure(self, finished: StageFinished, *, stages_left: int) -> None:
        """State after a stage, as long as the envelope keeps enough for the stages still to come."""
        others = {str(done.stage): done.text for done in self._stages if done.stage is not finished.stage}
        msv = await self._assessing.text(finished.text, others, self._answer_tokens_needed(stages_left), stages_left)
        measured = StageMeasured(stage=finished.stage, msv=msv)
        self._measured.append(measured)
        self._emit(measured)

    def _answer_tokens_needed(self, stages_left: int) -> int:
        return stages_left * (self._ask.stage_max_tokens or self._bench.defaults.stage_max_tokens)

    async def _watch(self) -> tuple[str, str]:
        """The generalist's note on a finished answer, and why there is one or none."""
        answer = next((done.text for done in self._stages if done.stage is Stage.SYNTHESIS and done.succeeded), None)
        if answer is None:
            return "", "the chain did not reach a synthesis"
        concern = cross_domain_concern(self._query_msv())
        if not concern.raised:
            return "", concern.because
        agent = self._agents[self._roles.assignment[Role.GENERALIST]]
        texts = {done.stage: done.text for done in self._stages}
        finished = await self._speaking.stage(Stage.NOTE, agent, texts, attempt=1, stages_left=1)
        self._emit(finished)
        if not finished.succeeded:
            self._reasons.append(f"{Stage.NOTE} failed: {finished.failure}")
        return finished.text, concern.because

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

    def _finish(self, answer: StageFinished | None, note: str, note_reason: str) -> None:
        exhausted = self._spend.ledger.exhausted or any(
            reason.startswith((BudgetExhausted.reason, DeadlineExceeded.reason)) for reason in self._reasons
        )
        order = {stage: place for place, stage in enumerate(CHAIN)}
        self._emit(
            DeliberationFinished(
                answer=answer.text if answer else "",
                outcome=Outcome.ANSWERED if answer else Outcome.ABSTAINED,
                note=note,
                note_reason=note_reason,
                stages=self._stages,
                measurements=sorted(self._measured, key=lambda m: order[m.stage]),
                assessments=self._assessments,
                roles=self._roles,
                usage=self._spend.ledger.usage(),
                degraded=bool(self._reasons) or answer is None or answer.stage is not Stage.SYNTHESIS,
                degraded_reasons=self._reasons,
                budget_exhausted=exhausted,
                duration_ms=round((time.monotonic() - self._began) * 1000, 3),
            )
        )
