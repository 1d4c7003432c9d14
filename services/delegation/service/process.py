"""One task, from its dispatch to what is learned from it."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import orjson

from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.log import logger
from chassis.serving.auth import ApiKey
from chassis.serving.events import emitted
from chassis.serving.wire import from_plain
from chassis.telemetry import STAGE_SECONDS
from configuration.agents import AgentConfig
from inference.spend import Spend
from kernel.answers import AnswerType
from kernel.confidence.rules import Ablation, Baseline, Rules
from kernel.envelope import Limits, limits
from kernel.errors import MalformedRequest, MetacogError
from kernel.learning.profiles import Profile
from services.delegation.core.routine import Routine
from services.delegation.metrics import TASKS
from services.delegation.service.dimensions import Dimension, Prototypes, classified_by_model, known_dimension
from services.delegation.service.executor_choice import ExecutorChoice, by_baseline, dispatched
from services.delegation.service.idempotency import Once, RequestStore, once
from services.delegation.service.result_merger import JUDGE_MAX_TOKENS, ResultMerger, judged
from services.delegation.service.self_assessment import Recalibrations, SelfAssessor
from services.delegation.service.solving import TaskSolver
from services.delegation.service.task_context import (
    Agents,
    TaskContext,
    TaskModelClients,
    known_agent,
    participants,
    question_text,
    rules_in_force,
    speakers,
)
from services.delegation.service.task_records import TaskStore
from services.delegation.service.task_result import TaskOutcome, finished, recorded
from services.delegation.service.values import (
    AnswerJudged,
    DimensionClassifier,
    Event,
    ModeChosen,
    ProcessRequest,
    SelfAssessRequest,
    TaskDimension,
    TaskDispatched,
    TaskFinished,
    TaskStarted,
)

_log = logger(__name__)


class ProfileLookup(Protocol):
    """Where profiles are. Every method may raise `DatabaseUnavailable`."""

    async def of(self, agents: Sequence[str], dimensions: Sequence[str]) -> Mapping[str, Sequence[Profile]]:
        """Profiles of `agents` in `dimensions`, in their order; those that never changed are at their start."""


class Turns(Protocol):
    """Whose turn it is, counted once for all replicas."""

    async def next(self, agents: list[str]) -> int:
        """Place of the agent whose turn it is among `agents`."""


async def _nothing() -> None:
    """Nothing to bring up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefaults:
    """What a request that leaves something out gets.

    Attributes:
        limits: The envelope.
        rules: The numbers that decide.
        classifier: How dimensions are found.
        answer_max_tokens: Tokens of an answer [count].
        task_characters: Characters that a task may have [count].
        routine: When a task is routine.
        config_version: Version of all this.
    """

    limits: Limits
    rules: Rules = field(default_factory=Rules)
    classifier: DimensionClassifier = DimensionClassifier.MODEL
    answer_max_tokens: int = 512
    task_characters: int = 100_000
    routine: Routine = field(default_factory=Routine)
    config_version: str = "paper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """Everybody and everything that a task needs from the world.

    Attributes:
        agents: The configured agents.
        dimensions: The configured dimensions, and those that were adopted.
        voices: Who speaks for whom.
        profiles: Where profiles are.
        tasks: Where tasks are kept.
        turns: Whose turn it is.
        requests: Where requests are known by name.
        prototypes: Finds dimensions by meaning.
        merger: Judges answers.
        recalibrations: Maps of what agents say of themselves.
        judged: Told that there is a new verdict.
        refreshed: Brings the dimensions up to date, now and then.
        defaults: What a request that leaves something out gets.
        now: Wall clock.
    """

    agents: Agents
    dimensions: Callable[[], Sequence[Dimension]]
    voices: TaskModelClients
    profiles: ProfileLookup
    tasks: TaskStore
    turns: Turns
    requests: RequestStore
    prototypes: Prototypes
    merger: ResultMerger
    defaults: TaskDefaults
    recalibrations: Recalibrations = dict
    judged: Callable[[], None] = lambda: None
    refreshed: Callable[[], Awaitable[None]] = _nothing
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def process(ask: ProcessRequest, *, key: ApiKey, hub: ProcessContext) -> AsyncGenerator[Event, None]:
    """Events of one task; the last is `TaskFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: For a request that contradicts itself.
        RequestOverLimit: For a task that is too long.
        UnknownDimension, UnknownAgent, NoAgents: For what is not configured.
        SandboxUnavailable: When unit tests were asked for and cannot be run.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        RequestIdReused, RequestInProgress: For a name that was used before.
        MetacogError: The refusal that left no answer at all.
    """
    checked(ask, hub.agents())
    agents = participants(ask.agents, hub.agents())
    if ask.first_agent:
        known_agent(ask.first_agent, agents)
    question = question_text(ask.question, ask.messages, hub.defaults.task_characters)
    everybody = {agent.id: agent for agent in hub.agents()}
    judge = [everybody[ask.judge.agent]] if ask.judge and ask.judge.agent else []
    work = partial(
        TaskContext,
        question=question,
        agents=agents,
        everybody=everybody,
        rules=rules_in_force(ask.parameters, hub.defaults.rules),
        ablations=_ablations(ask),
        spend=Spend(limits(ask.envelope, hub.defaults.limits), models=speakers(hub.voices, [*agents.values(), *judge])),
        voices=hub.voices,
        seed=ask.seed,
    )
    return emitted(lambda emit: _produce(ask, key, hub, work(emit=emit)))


def checked(ask: ProcessRequest, agents: Sequence[AgentConfig]) -> None:
    """Return if the request does not contradict itself and its judge is configured.

    Raises:
        MalformedRequest: For two checks, or an answer type that does not go with the check.
        UnknownAgent: For a judge that is not configured.
    """
    given = [name for name in ("expected", "unit_tests", "judge") if getattr(ask, name) is not None]
    if len(given) > 1:
        raise MalformedRequest(f"give one of {', '.join(given)}, not several", field=given[1])
    needed = ask.expected.answer_type if ask.expected else AnswerType.CODE if ask.unit_tests else None
    if needed and ask.answer_type not in (None, needed):
        said = f"answer_type {ask.answer_type} does not go with {given[0]}, which needs {needed}"
        raise MalformedRequest(said, field="answer_type")
    if ask.judge is not None and ask.judge.agent:
        known_agent(ask.judge.agent, {agent.id: agent for agent in agents})


def _ablations(ask: ProcessRequest) -> frozenset[Ablation]:
    if ask.baseline is not Baseline.NONE:
        return frozenset()
    return frozenset(one for one in ask.ablations if one is not None)


async def _produce(ask: ProcessRequest, key: ApiKey, hub: ProcessContext, work: TaskContext) -> None:
    if ask.unit_tests is not None:
        await hub.merger.sandbox.ready()
    digest = sha256(dumps(ask)).hexdigest()
    async with once(hub.requests, key.name, ask.request_id, digest, work.spend) as place:
        if place.earlier is not None:
            told = from_plain(place.earlier["finished"], TaskFinished)
            names = list(work.agents)
            work.emit(TaskStarted(task_id=told.task_id, run_id=told.run_id, agents=names))
            work.emit(told)
        else:
            await _Task(ask, key, hub, work, place).run()


async def dimensions_of(
    ask: ProcessRequest | SelfAssessRequest, work: TaskContext, hub: ProcessContext
) -> list[TaskDimension]:  # fmt: skip
    """Dimensions of a task: as the caller names them, or as they are classified.

    Raises:
        MalformedRequest: When both `dimension` and `dimensions` are given.
        UnknownDimension: For one that is not configured.
        MetacogError: When the classifier cannot be asked.
    """
    if ask.dimension and ask.dimensions:
        raise MalformedRequest("give either dimension or dimensions", field="dimension")
    await hub.refreshed()
    known = hub.dimensions()
    named = list(dict.fromkeys([ask.dimension] if ask.dimension else ask.dimensions))
    for name in named:
        known_dimension(name, [one.id for one in known])
    if named:
        return [TaskDimension(dimension=name) for name in named]
    if len(known) == 1:
        return [TaskDimension(dimension=known[0].id, certainty=1.0)]
    if (ask.classifier or hub.defaults.classifier) is DimensionClassifier.EMBEDDING:
        return await hub.prototypes.classified(work.question, known, timeout_s=work.spend.seconds_left())
    return await classified_by_model(work, known)


class _Task:
    """One task under way."""

    def __init__(self, ask: ProcessRequest, key: ApiKey, hub: ProcessContext, work: TaskContext, place: Once) -> None:
        self._ask = ask
        self._key = key
        self._hub = hub
        self._work = work
        self._place = place
        self._task_id = new_id()
        self._created_at = hub.now()
        self._began = time.monotonic()
        self._dimensions: list[TaskDimension] = []
        self._max_tokens = ask.answer_max_tokens or hub.defaults.answer_max_tokens

    async def run(self) -> None:
        """Emit every event, the finish last."""
        ask, work = self._ask, self._work
        work.emit(TaskStarted(task_id=self._task_id, run_id=ask.run_id, agents=list(work.agents)))
        with work.kept_for("execute", self._max_tokens):
            deciding, decision = await self._decided()
        solving = TaskSolver(work, ask, deciding, self._max_tokens)
        with work.kept_for("judge", JUDGE_MAX_TOKENS) if self._judge_is_affordable() else nullcontext():
            await solving.solve(decision)
            solved = await solving.solved()
        if solved.winner is None and solving.refusal is not None:
            raise solving.refusal
        label = await judged(ask, work, solved.winner, solved.answer_type, self._hub.merger)
        if label is not None:
            work.emit(AnswerJudged(**{name: getattr(label, name) for name in label.__dataclass_fields__}))
        await self._finish(
            TaskOutcome(
                task_id=self._task_id,
                ask=ask,
                work=work,
                dimensions=self._dimensions,
                assessments=deciding.assessments,
                records=deciding.records,
                solved=solved,
                label=label,
                created_at=self._created_at,
                began=self._began,
                config_version=self._hub.defaults.config_version,
            )
        )

    def _judge_is_affordable(self) -> bool:
        ledger = self._work.spend.ledger
        return self._ask.judge is not None and ledger.generations_left > 1 and ledger.tokens_left > 2 * JUDGE_MAX_TOKENS

    async def _decided(self) -> tuple[ExecutorChoice, ModeChosen]:
        """Who solves the task; what it is about and who was asked is told on the way."""
        ask, work = self._ask, self._work
        plain = ask.baseline is not Baseline.NONE
        named = bool(ask.dimension or ask.dimensions)
        self._dimensions = await dimensions_of(ask, work, self._hub) if named or not plain else []
        profiles = await self._hub.profiles.of(list(work.agents), [one.dimension for one in self._dimensions])
        assessing = SelfAssessor(work, self._hub.recalibrations)
        deciding = ExecutorChoice(work, profiles, self._dimensions, assessing, self._hub.defaults.routine)
        turns = ask.baseline is Baseline.ROUND_ROBIN or not (plain or ask.first_agent)
        turn = await self._hub.turns.next(list(work.agents)) if turns else 0
        if plain:
            keywords = {one.id: one.keywords for one in self._hub.dimensions()}
            chosen = by_baseline(ask, work, turn, keywords)
            self._tell_dispatch(chosen.first_agent)
            return deciding, chosen
        first = dispatched(ask, profiles, turn)
        self._tell_dispatch(first)
        return deciding, await deciding.mode(first)

    def _tell_dispatch(self, first: str) -> None:
        told = TaskDispatched(dimensions=self._dimensions, first_agent=first, dispatch=self._ask.dispatch)
        self._work.emit(told)

    async def _finish(self, end: TaskOutcome) -> None:
        """Keep the task, learn from it, and tell its end; a store that is away is told, and loses no answer."""
        told, record = finished(end), recorded(end, self._key.name)
        try:
            updates = await self._hub.tasks.keep(
                record,
                lambda updates: self._document(replace(told, profile_updates=updates)),
                end.label,
                teaches=self._key.may_teach,
                request_id=self._ask.request_id,
            )
            self._place.answered()
            told = replace(told, profile_updates=updates)
        except MetacogError as away:
            _log.warning("a task could not be kept", task_id=self._task_id, problem=away.message)
            reasons = [*told.degraded_reasons, f"{away.reason}: the task is not kept, and learns from no feedback"]
            told = replace(told, degraded=True, degraded_reasons=reasons)
        if end.label is not None:
            self._hub.judged()
        decision = told.decision
        TASKS.labels(told.mode or "", decision.reason if decision else "").inc()
        STAGE_SECONDS.labels("delegation").observe(told.duration_ms / 1000)
        self._work.emit(told)

    def _document(self, told: TaskFinished) -> dict[str, Any]:
        return {"question": self._work.question, "finished": orjson.loads(dumps(told))}
