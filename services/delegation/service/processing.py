"""This use case processes one task, from its dispatch to what profiles learn from it."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Protocol

import orjson

from chassis.clock import REQUEST_ENDS_AT
from chassis.idempotency import Attempt, RequestStore, once
from chassis.ids import new_id
from chassis.json_text import dumps
from chassis.log import logger
from chassis.recent import Name, RecentDocuments
from chassis.serving.auth import TEACH, ApiKey
from chassis.serving.events import stream_of
from chassis.serving.stored import from_stored
from chassis.telemetry import STAGE_SECONDS
from configuration.agents import AgentConfig
from inference import ModelClients, Spend
from kernel.agents import check_agent, participants
from kernel.answers import AnswerType
from kernel.confidence.rules import Ablation, Baseline
from kernel.envelope import limits
from kernel.errors import MalformedRequest, MetacogError, UnknownAgent
from kernel.learning.profiles import Profile
from kernel.outcomes import degraded_reasons, is_degraded
from sandbox.mathematics import MathematicsSource
from services.delegation.metrics import TASKS
from services.delegation.service.contents.redaction import without_contents, without_detail
from services.delegation.service.dimensions import DimensionFinder
from services.delegation.service.executor_choice import (
    ExecutorChoice,
    baseline_choice,
    dispatched,
    ranking_profiles,
)
from services.delegation.service.result_merger import JUDGE_MAX_TOKENS, ResultMerger
from services.delegation.service.self_assessment import Recalibrations, SelfAssessor, Uninformative
from services.delegation.service.solver import TaskSolver
from services.delegation.service.task_context import (
    Agents,
    ProfileLookup,
    TaskContext,
    TaskDefaults,
    checked_question,
    clients_of,
    rules_in_force,
)
from services.delegation.service.task_records import StoredTask, TaskDocument, TaskStore
from services.delegation.service.task_result import TaskOutcome, finished_task, task_record
from services.delegation.service.values import (
    AnswerJudged,
    Event,
    ModeChosen,
    ProcessRequest,
    TaskDimension,
    TaskDispatched,
    TaskFinished,
    TaskStarted,
)

# Size of the tasks whose contents are not stored that are held to be repeated [bytes].
RECENT_BYTES = 64 * 1024 * 1024

# The reason of a repeated task whose words are nowhere.
CONTENTS_NOT_STORED = "CONTENTS_NOT_STORED: the task was answered before, and its contents are not stored"

_log = logger(__name__)

# Profiles by agent.
Profiles = Mapping[str, Sequence[Profile]]


class RoundRobin(Protocol):
    """The round robin gives tasks to agents in turn, with one counter for all replicas."""

    async def next(self, agents: list[str]) -> int:
        """Return the index in `agents` of the agent that is next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """The context holds everything that processing a task needs.

    Attributes:
        agents: The configured agents.
        dimensions: Finds the dimensions of a task.
        model_clients: Model clients of the agents.
        profiles: The source of profiles.
        tasks: The store of tasks.
        round_robin: Gives tasks to agents in turn.
        requests: The store of request identifiers.
        merger: Checks answers.
        calculator: Compares expressions.
        recalibrations: Maps of verbalized confidences, by agent.
        uninformative: Agents whose verbalized confidence has no weight.
        on_label: Called when there is a new label.
        defaults: The values of what a request leaves out.
        keep_contents: Whether questions and answers are stored.
        recent: The last tasks as they were answered, where their contents are not stored: a repetition gets its answer
            while it is held here, and later the same task without contents.
        now: Wall clock.
    """

    agents: Agents
    dimensions: DimensionFinder
    model_clients: ModelClients
    profiles: ProfileLookup
    tasks: TaskStore
    round_robin: RoundRobin
    requests: RequestStore[TaskDocument]
    merger: ResultMerger
    calculator: MathematicsSource
    defaults: TaskDefaults
    recalibrations: Recalibrations = dict
    uninformative: Uninformative = frozenset
    on_label: Callable[[], None] = lambda: None
    keep_contents: bool = True
    recent: RecentDocuments = field(default_factory=lambda: RecentDocuments(RECENT_BYTES))
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def process(request: ProcessRequest, *, key: ApiKey, context: ProcessContext) -> AsyncGenerator[Event, None]:
    """Yield the events of one task; the last is `TaskFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: For a request that contradicts itself.
        RequestOverLimit: For a task that is too long.
        UnknownDimension, UnknownAgent, NoAgents: For what is not configured.
        SandboxUnavailable: When the request has unit tests and they cannot be run.
        UnpricedModel: When the cost is limited, and a model that takes part has no price.
        RequestIdReused, RequestInProgress: For an identifier that was used before.
        RecordUnreadable: For the identifier of a task that another version stored in a form that this one cannot read.
        MetacogError: The error that left no answer at all.
    """
    context.model_clients.begin_run()
    check_request(request, context.agents())
    context.merger.check_tests(request.unit_tests)
    all_agents = {agent.id: agent for agent in context.agents()}
    agents = participants(request.agents, all_agents)
    if request.first_agent:
        _check_first_agent(request.first_agent, agents, all_agents)
    question = checked_question(request.question, request.messages, context.defaults.task_characters)
    judge = [all_agents[request.judge.agent]] if request.judge and request.judge.agent else []
    models = clients_of(context.model_clients, [*agents.values(), *judge])
    new_task = partial(
        TaskContext,
        question=question,
        agents=agents,
        all_agents=all_agents,
        rules=rules_in_force(request.parameters, context.defaults.rules),
        ablations=_ablations(request),
        spend=Spend(limits(request.envelope, context.defaults.limits, context.defaults.ceilings), models=models),
        model_clients=context.model_clients,
        seed=request.seed,
    )
    return stream_of(lambda emit: _produce(request, key, context, new_task(emit=emit)))


def check_request(request: ProcessRequest, agents: Sequence[AgentConfig]) -> None:
    """Return if the request does not contradict itself and its judge is configured.

    Raises:
        MalformedRequest: For two checks, or an answer type that does not go with the check.
        UnknownAgent: For a judge that is not configured.
    """
    given = [name for name in ("expected", "unit_tests", "judge") if getattr(request, name) is not None]
    if len(given) > 1:
        raise MalformedRequest(f"give one of {', '.join(given)}, not several", field=given[1])
    needed = request.expected.answer_type if request.expected else AnswerType.CODE if request.unit_tests else None
    if needed and request.answer_type not in (None, needed):
        message = f"answer_type {request.answer_type} does not go with {given[0]}, which needs {needed}"
        raise MalformedRequest(message, field="answer_type")
    if request.judge is not None and request.judge.agent:
        check_agent(request.judge.agent, [agent.id for agent in agents], field="judge.agent")


def _check_first_agent(name: str, agents: Collection[str], all_agents: Collection[str]) -> None:
    check_agent(name, all_agents, field="first_agent")
    if name not in agents:
        message = f"first_agent: {name!r} takes no part; the agents of this request are {', '.join(agents)}"
        raise UnknownAgent(message, field="first_agent", agent=name)


def _ablations(request: ProcessRequest) -> frozenset[Ablation]:
    if request.baseline is not Baseline.NONE:
        return frozenset()
    return frozenset(ablation for ablation in request.ablations if ablation is not None)


async def _produce(request: ProcessRequest, key: ApiKey, context: ProcessContext, task: TaskContext) -> None:
    REQUEST_ENDS_AT.set(task.spend.deadline)
    if request.unit_tests is not None:
        await context.merger.sandbox.ready()
    digest = sha256(dumps(request)).hexdigest()
    async with once(context.requests, key.name, request.request_id, digest, task.spend.seconds_left) as attempt:
        if attempt.earlier is not None:
            finished = _earlier(attempt.earlier, (key.name, request.request_id), context)
            names = list(task.agents)
            task.emit(TaskStarted(task_id=finished.task_id, run_id=finished.run_id, agents=names))
            task.emit(finished)
        else:
            await _TaskRun(request, key, context, task, attempt).run()


def _earlier(document: TaskDocument, name: Name, context: ProcessContext) -> TaskFinished:
    """Return the task that answered a request before, with its contents where this replica still holds them.

    The database decides which task that is: a name may have been freed and used for another task elsewhere.
    """
    stored = _stored(document, name)
    if stored.question:
        return stored.finished
    held = context.recent.find(name)
    whole = None if held is None else _stored(orjson.loads(held), name)
    if whole is not None and whole.finished.task_id == stored.finished.task_id:
        return whole.finished
    finished = stored.finished
    reasons = degraded_reasons(finished.outcome, finished.degraded_reasons, [CONTENTS_NOT_STORED])
    return replace(finished, degraded=is_degraded(reasons), degraded_reasons=reasons)


def _stored(document: TaskDocument, name: Name) -> StoredTask:
    return from_stored(document, StoredTask, record="task", record_id=f"request {name[1]}")


class _TaskRun:
    """A run takes one task through its steps, from start to end."""

    def __init__(
        self,
        request: ProcessRequest,
        key: ApiKey,
        context: ProcessContext,
        task: TaskContext,
        attempt: Attempt[TaskDocument],
    ) -> None:
        self._request = request
        self._key = key
        self._context = context
        self._task = task
        self._attempt = attempt
        self._task_id = new_id()
        self._created_at = context.now()
        self._started = time.monotonic()
        self._dimensions: list[TaskDimension] = []
        self._max_tokens = request.answer_max_tokens or context.defaults.answer_max_tokens

    async def run(self) -> None:
        """Emit every event, `TaskFinished` last."""
        request, task = self._request, self._task
        task.emit(TaskStarted(task_id=self._task_id, run_id=request.run_id, agents=list(task.agents)))
        with task.reserved_for("execute", self._max_tokens):
            choice, decision = await self._choose_executor()
        mathematics = self._context.calculator.within(task.spend.seconds_left)
        solver = TaskSolver(task, request, choice, self._max_tokens, mathematics=mathematics)
        with task.reserved_for("judge", JUDGE_MAX_TOKENS) if self._judge_is_affordable() else nullcontext():
            await solver.solve(decision)
            solution = await solver.solution()
        if solution.winner is None and solver.error is not None:
            raise solver.error
        label = await self._context.merger.check(request, task, solution.winner, solution.answer_type)
        if label is not None:
            task.emit(AnswerJudged(**{name: getattr(label, name) for name in label.__dataclass_fields__}))
        await self._finish(
            TaskOutcome(
                task_id=self._task_id,
                request=request,
                task=task,
                dimensions=self._dimensions,
                assessments=choice.assessments,
                estimates=choice.estimates,
                solution=solution,
                label=label,
                created_at=self._created_at,
                started=self._started,
                config_version=self._context.defaults.config_version,
            )
        )

    async def _choose_executor(self) -> tuple[ExecutorChoice, ModeChosen]:
        """Decide who solves the task, emitting its dimensions and the self-assessments on the way."""
        request, task, context = self._request, self._task, self._context
        is_baseline = request.baseline is not Baseline.NONE
        is_named = bool(request.dimension or request.dimensions)
        self._dimensions = await context.dimensions.find(request, task) if is_named or not is_baseline else []
        profiles, ranking = await self._profiles()
        assessor = SelfAssessor(task, context.recalibrations, context.uninformative)
        choice = ExecutorChoice(task, profiles, ranking, self._dimensions, assessor, context.defaults.routine)
        counts = request.baseline is Baseline.ROUND_ROBIN or not (is_baseline or request.first_agent)
        index = await context.round_robin.next(list(task.agents)) if counts else 0
        if is_baseline:
            decision = baseline_choice(request, task, index, context.dimensions.keywords())
            self._emit_dispatch(decision.first_agent)
            return choice, decision
        first = dispatched(request, ranking, index)
        self._emit_dispatch(first)
        return choice, await choice.mode(first)

    async def _profiles(self) -> tuple[Profiles, Profiles]:
        """Return the agents' profiles in the task's dimensions: as they are, and as agents are ranked by them."""
        names, wanted = list(self._task.agents), [each.dimension for each in self._dimensions]
        if self._task.rules.follows_paper or not wanted:
            profiles = await self._context.profiles.of(names, wanted)
            return profiles, profiles
        others = [each.id for each in self._context.dimensions.dimensions() if each.id not in wanted]
        known = await self._context.profiles.of(names, [*wanted, *others])
        return {name: own[: len(wanted)] for name, own in known.items()}, ranking_profiles(known, wanted)

    def _emit_dispatch(self, first: str) -> None:
        self._task.emit(TaskDispatched(dimensions=self._dimensions, first_agent=first, dispatch=self._request.dispatch))

    def _judge_is_affordable(self) -> bool:
        ledger = self._task.spend.ledger
        needed = 2 * JUDGE_MAX_TOKENS
        return self._request.judge is not None and ledger.generations_left > 1 and ledger.tokens_left > needed

    async def _finish(self, outcome: TaskOutcome) -> None:
        """Store the task, learn from it, and emit its end; without the database the answer is degraded, not lost."""
        finished, record = finished_task(outcome), task_record(outcome, self._key.name)
        keeps = self._context.keep_contents
        try:
            updates = await self._context.tasks.add(
                record,
                lambda updates: self._document(replace(finished, profile_updates=updates)),
                outcome.label if keeps else without_detail(outcome.label),
                may_teach=self._key.may(TEACH),
                request_id=self._request.request_id,
                claim=self._attempt.claim,
            )
            self._attempt.mark_answered()
            finished = replace(finished, profile_updates=updates)
            if self._request.request_id and not keeps:
                name = (self._key.name, self._request.request_id)
                self._context.recent.add(name, dumps(self._whole_document(finished)))
        except MetacogError as error:
            _log.warning("a task could not be stored", task_id=self._task_id, problem=error.message)
            reason = f"{error.reason}: the task is not kept, and learns from no feedback"
            reasons = degraded_reasons(finished.outcome, finished.degraded_reasons, [reason])
            finished = replace(finished, degraded=is_degraded(reasons), degraded_reasons=reasons)
        if outcome.label is not None:
            self._context.on_label()
        decision = finished.decision
        TASKS.labels(finished.mode or "", decision.reason if decision else "").inc()
        STAGE_SECONDS.labels("delegation").observe(finished.duration_ms / 1000)
        self._task.emit(finished)

    def _whole_document(self, finished: TaskFinished) -> TaskDocument:
        return {"question": self._task.question, "finished": orjson.loads(dumps(finished))}

    def _document(self, finished: TaskFinished) -> TaskDocument:
        document = self._whole_document(finished)
        return document if self._context.keep_contents else without_contents(document)
