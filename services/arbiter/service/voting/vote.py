"""The use case of a vote: one source after another answers, until enough answers agree."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chassis.errors import RequestOverLimit
from chassis.serving.events import Emit, stream_of
from configuration.agents import AgentConfig
from inference import DeadlineExceeded, ModelClient, ModelClients, Spend
from kernel.agents import check_agent
from kernel.answers import AnswerType, inferred_type, listed_options, rules_of
from kernel.conversation import conversation, question_text
from kernel.envelope import DEFAULT_CEILINGS, BudgetExhausted, Ceilings, Limits, limits
from kernel.errors import Code, MalformedRequest, MetacogError
from kernel.outcomes import Outcome, degraded_reasons, is_degraded
from kernel.seeds import derived_seed
from kernel.votes.drafts import draft_type
from kernel.votes.probability import vote_evidence
from kernel.votes.votes import (
    DEFAULT_RULE,
    MOST_VOTES,
    OVERDUE_TIME_SHARE,
    SourceParts,
    Vote,
    VoteGroup,
    VoteMode,
    VoteOutcome,
    VoteRule,
    VoteSource,
    VoteStop,
    changed_lead,
    next_source,
    shown_vote,
    source_name,
    source_parts,
    sources_by_competence,
    vote_groups,
    vote_outcome,
    vote_stop,
    votes_to_ask,
)
from sandbox import CodeSandbox, SandboxUnavailable
from sandbox.mathematics import LimitedMathematics, MathematicsSource
from services.arbiter import metrics
from services.arbiter.service.arbitration_run import UNDECIDED
from services.arbiter.service.stage_agents import DEFAULT_AGENT, StageAgent
from services.arbiter.service.voting.values import (
    AnswerVotes,
    VoteCast,
    VoteEvent,
    VoteFinished,
    VoteRequest,
    VoteStarted,
    VotingAgent,
)
from services.arbiter.service.voting.voters import Answered, Question, Voters, is_program_type

# Sampling temperature of the votes (papers.md 5.1).
TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteContext:
    """The agents, clients and defaults that every vote uses.

    Attributes:
        agents: Returns the configured agents.
        model_clients: Their model clients.
        limits: The envelope of a request without one.
        ceilings: The most that the envelope of a request may have.
        max_tokens: Tokens of a vote whose request states none [count].
        calculator: Compares mathematical expressions.
        default_agents: Identifiers of the agents that vote when a request names none; empty: the default model.
        programs: Whether models may write programs that are run.
        max_programs: Votes of a request that may have programs, or answers with tests, run [count].
        sandbox: Runs them.
    """

    agents: Callable[[], Sequence[AgentConfig]]
    model_clients: ModelClients
    limits: Limits
    max_tokens: int
    calculator: MathematicsSource
    ceilings: Ceilings = DEFAULT_CEILINGS
    default_agents: Sequence[str] = ()
    programs: bool = True
    max_programs: int = MOST_VOTES
    sandbox: CodeSandbox = field(default_factory=CodeSandbox)


def vote(request: VoteRequest, *, context: VoteContext) -> AsyncGenerator[VoteEvent, None]:
    """Yield the events of one vote; the last is `VoteFinished`. Closing the iterator stops the work.

    Raises:
        MalformedRequest: Without a question, or with two.
        InvalidVoteRule: When agree, most and ahead do not fit together.
        UnknownAgent: For an agent that is not configured.
        ModelNotFound: For a model that is not in the catalogue.
        SandboxUnavailable: When there are tests, and no sandbox.
        RequestOverLimit: For more votes than may have programs run.
        UnpricedModel: When the cost is limited, and a model that votes has no price.
        MetacogError: The error of the first source, when no source could be asked at all.
    """
    context.model_clients.begin_run()
    text = question_text(request.question, request.messages)
    rule = _rule(request)
    options = listed_options(text)
    answer_type = request.answer_type or _inferred(text, request, options)
    if request.tests and not is_program_type(answer_type):
        raise MalformedRequest("tests: only an answer that is CODE has tests; state answer_type CODE", field="tests")
    question = Question(
        text=text,
        turns=conversation(request.question, request.messages),
        answer_type=answer_type,
        options=options if rules_of(answer_type).has_options else (),
        tests=request.tests,
        max_tokens=request.max_tokens or context.max_tokens,
        temperature=TEMPERATURE if request.temperature is None else request.temperature,
        seed=_seed(request),
    )
    agents = _agents(request, context)
    return stream_of(lambda emit: _run(request, rule, question, agents, context, emit))


async def _run(
    request: VoteRequest,
    rule: VoteRule,
    question: Question,
    agents: Mapping[str, StageAgent],
    context: VoteContext,
    emit: Emit[VoteEvent],
) -> None:
    sources, left_out = await _sources(request, question, context)
    _check_programs(rule, sources, question, context.max_programs)
    found = limits(request.envelope, _widened(context.limits, rule, question), context.ceilings)
    spend = Spend(found, models=_clients(sources, agents))
    voters = Voters(question=question, agents=agents, spend=spend, sandbox=context.sandbox)
    mathematics = context.calculator.within(spend.seconds_left)
    run = VoteRun(rule, sources, voters, emit, mathematics, left_out)
    emit(
        VoteStarted(
            run_id=request.run_id,
            answer_type=question.answer_type,
            agree=rule.agree,
            most=rule.most,
            ahead=rule.ahead,
            sources=[_contract_source(one) for one in (*run.given_sources(request), *sources)],
            left_out=left_out,
        )
    )
    finished = await run.run(request)
    metrics.record_vote(finished)
    emit(finished)


class VoteRun:
    """A vote while it runs: it asks, counts and stops.

    Args:
        rule: When it stops.
        sources: Those that are asked, in their order.
        voters: They answer.
        emit: Receives the events.
        mathematics: Compares expressions.
        left_out: Sources that cannot vote, with the reason; sources that fail, or hang, are added.
    """

    def __init__(
        self,
        rule: VoteRule,
        sources: Sequence[VoteSource],
        voters: Voters,
        emit: Emit[VoteEvent],
        mathematics: LimitedMathematics,
        left_out: list[str],
    ) -> None:
        self._rule = rule
        self._sources = list(sources)
        self._voters = voters
        self._emit = emit
        self._mathematics = mathematics
        self._left_out = left_out
        self._asked: list[VoteSource] = []
        self._votes: list[Vote] = []
        self._cast: list[VoteCast] = []
        self._groups: Sequence[VoteGroup] = ()
        self._outstanding: dict[asyncio.Task[Answered], VoteSource] = {}
        self._overdue: dict[str, VoteSource] = {}
        self._errors: list[MetacogError] = []
        self._is_exhausted = False

    @staticmethod
    def given_sources(request: VoteRequest) -> Sequence[VoteSource]:
        """Return the source of the draft, where one was given."""
        if request.draft is None:
            return ()
        draft = VoteMode.DRAFT
        recorded = next(
            (one.competence for one in request.competences if _key(one) == DEFAULT_AGENT.id and one.mode is draft), None
        )
        stated = request.draft.competence
        return (VoteSource(model=DEFAULT_AGENT.id, mode=draft, competence=recorded if stated is None else stated),)

    async def run(self, request: VoteRequest) -> VoteFinished:
        """Ask until the rule stops, and return the result.

        Raises:
            MetacogError: The error of the first source, when there is no vote at all.
        """
        began = time.monotonic()
        for source in self.given_sources(request):
            assert request.draft is not None
            self._asked.append(source)
            draft = request.draft
            await self._count(source, await self._voters.read(draft.text, draft.model, draft.completion_tokens))
        try:
            stop = await self._until_stopped()
        finally:
            await _cancel(self._outstanding)
        if not self._votes or (self._errors and not any(one.text for one in self._cast)):
            raise self._errors[0] if self._errors else BudgetExhausted("the envelope has no room for a vote")
        return self._finished(stop, request.run_id, round((time.monotonic() - began) * 1000, 3))

    async def _until_stopped(self) -> VoteStop:
        while (stop := vote_stop(self._groups, self._votes, self._rule)) is None:
            self._ask()
            if not self._outstanding:
                return VoteStop.BUDGET_EXHAUSTED if self._is_exhausted else VoteStop.NO_SOURCE
            done, _ = await asyncio.wait(
                self._outstanding, timeout=self._patience_s(), return_when=asyncio.FIRST_COMPLETED
            )
            if not done and self._all_are_overdue():
                return VoteStop.NO_SOURCE
            if not done:
                self._overdue |= {source.model: source for source in self._outstanding.values()}
            for task in [task for task in self._outstanding if task in done]:
                source = self._outstanding.pop(task)
                await self._count(source, self._answered(task, source))
                if vote_stop(self._groups, self._votes, self._rule) is not None:
                    break
        return stop

    def _patience_s(self) -> float | None:
        """Return how long the votes under way are waited for before others are asked beside them [s].

        One server that hangs must not take the time of all: where there is an answer, and every vote under way is
        overdue already, they have another such share, and the vote ends without them. None where there is no answer.
        """
        if self._all_are_overdue() and not self._groups:
            return None
        return self._voters.spend.seconds_left() * OVERDUE_TIME_SHARE

    def _all_are_overdue(self) -> bool:
        return all(source.model in self._overdue for source in self._outstanding.values())

    def _ask(self) -> None:
        expected = [source for source in self._outstanding.values() if source.model not in self._overdue]
        many = votes_to_ask(self._rule, asked=len(self._asked), outstanding=len(expected))
        for _ in range(0 if self._is_exhausted else many):
            source = next_source([one for one in self._sources if one.model not in self._overdue], self._asked)
            if source is None:
                return
            number = self._asked.count(source)
            self._asked.append(source)
            self._outstanding[asyncio.create_task(self._voters.ask(source, number))] = source

    def _answered(self, task: "asyncio.Task[Answered]", source: VoteSource) -> Answered:
        """Return the answer of a source; one that failed gives an invalid vote and is asked no more."""
        try:
            answered = task.result()
        except (BudgetExhausted, DeadlineExceeded) as error:
            self._is_exhausted = True
            self._errors.append(error)
            return Answered(text="", model="", answer=None, reason=f"{error.reason}: {error.message}")
        except MetacogError as error:
            self._errors.append(error)
            reason = f"{error.reason}: {error.message}"
            is_away = error.code is Code.UNAVAILABLE
            self._sources = [
                one for one in self._sources if one != source and not (is_away and one.model == source.model)
            ]
            self._left_out.append(f"{_name(source)}: {reason}")
            self._overdue.pop(source.model, None)
            return Answered(text="", model="", answer=None, reason=reason)
        self._overdue.pop(source.model, None)
        return answered

    async def _count(self, source: VoteSource, answered: Answered) -> None:
        led_by = self._groups[:1]
        self._votes.append(Vote(source=source, answer=answered.answer, passes_tests=answered.passes_tests))
        question = self._voters.question
        self._groups = await self._mathematics.run(
            vote_groups, self._votes, question.answer_type, options=question.options, mathematics=self._mathematics
        )
        index = len(self._votes) - 1
        canonical = next((group.canonical for group in self._groups if index in group.votes), None)
        cast = VoteCast(
            index=index,
            agent=_parted(source).agent,
            mode=source.mode,
            model=answered.model,
            text=answered.text,
            answer=canonical,
            invalid_reason="" if canonical is not None and not answered.reason else answered.reason,
            completion_tokens=answered.tokens,
            truncated=answered.truncated,
            changed_lead=changed_lead(led_by, self._groups, question.answer_type),
            duration_ms=answered.duration_ms,
            source_model=_parted(source).model,
            written=None if canonical is None else answered.answer,
        )
        self._cast.append(cast)
        self._emit(cast)

    def _finished(self, stop: VoteStop, run_id: str, duration_ms: float) -> VoteFinished:
        winner = self._groups[0] if self._groups else None
        shown = self._cast[shown_vote(winner, self._votes)] if winner else None
        outcome = vote_outcome(self._groups, self._votes, self._rule)
        ledger = self._voters.spend.ledger
        self._left_out += [f"{_name(one)}: no answer within its share of the time" for one in self._overdue.values()]
        is_exhausted = self._is_exhausted or ledger.exhausted
        reasons = degraded_reasons(
            Outcome.ABSTAINED if outcome is VoteOutcome.ABSTAINED else Outcome.ANSWERED,
            ["BUDGET_EXHAUSTED: a limit ended the vote early"] if stop is VoteStop.BUDGET_EXHAUSTED else [],
            of_agents=[*(f"SOURCE_LEFT_OUT: {one}" for one in self._left_out), *self._not_compared()],
        )
        return VoteFinished(
            outcome=outcome,
            answer=_shown_text(shown) if shown else "",
            winner=winner.canonical if winner else None,
            groups=[
                AnswerVotes(answer=one.canonical, votes=one.votes, log_odds=one.log_odds, without_unit=one.without_unit)
                for one in self._groups
            ],
            votes=self._cast,
            stop_reason=stop,
            answer_type=self._voters.question.answer_type,
            agree=self._rule.agree,
            most=self._rule.most,
            asked=len(self._asked),
            invalid=sum(one.answer is None for one in self._cast),
            left_out=self._left_out,
            usage=ledger.usage(),
            budget_exhausted=is_exhausted,
            degraded=is_degraded(reasons),
            degraded_reasons=reasons,
            prompt_digests=dict(sorted(self._voters.digests.items())),
            model=shown.model if shown else "",
            run_id=run_id,
            duration_ms=duration_ms,
            evidence=vote_evidence(self._groups, self._with_models(), options=len(self._voters.question.options)),
        )

    def _not_compared(self) -> Sequence[str]:
        reason = self._mathematics.timeout_reason
        return [UNDECIDED.format(reason)] if reason else []

    def _with_models(self) -> Sequence[Vote]:
        """Return the votes by the models that answered: two agents may speak for one model."""
        return [
            replace(each, source=replace(each.source, model=cast.model))
            for each, cast in zip(self._votes, self._cast, strict=True)
        ]


async def _cancel(tasks: Collection["asyncio.Task[Answered]"]) -> None:
    """Cancel tasks and wait for their ends; whatever they were doing is no longer needed."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks)
        for task in done:
            if not task.cancelled():
                task.exception()


def _shown_text(cast: VoteCast) -> str:
    """Return the text of a vote as an answer: of a program what it printed."""
    return cast.written or "" if cast.mode is VoteMode.PROGRAM else cast.text


def _rule(request: VoteRequest) -> VoteRule:
    most = request.most or max(DEFAULT_RULE.most, request.agree or 0)
    return VoteRule(
        agree=request.agree or min(DEFAULT_RULE.agree, most),
        most=most,
        ahead=request.ahead or 1,
        ask_all=request.ask_all,
        enough=request.enough,
    )


def _inferred(question: str, request: VoteRequest, options: Sequence[str]) -> AnswerType:
    if request.draft is not None:
        return draft_type(question, request.draft.text, options=options).answer_type
    return inferred_type(question, options=options).answer_type


def _seed(request: VoteRequest) -> int | None:
    if request.seed is not None:
        return request.seed
    return derived_seed(0, "run", request.run_id) if request.run_id else None


def _check_programs(rule: VoteRule, sources: Sequence[VoteSource], question: Question, most: int) -> None:
    """Return if no more programs may be run than `most` [count].

    Raises:
        RequestOverLimit: If more may; names `most`.
    """
    runs_code = bool(question.tests) or any(one.mode is VoteMode.PROGRAM for one in sources)
    if runs_code and rule.most > most:
        message = (
            f"most is {rule.most}; a vote whose programs or tests are run may have at most {most} here"
            " (METACOG_ARBITER_MAX_PROGRAMS)"
        )
        raise RequestOverLimit(message, field="most", value=str(rule.most), ceiling=str(most))


def _widened(default: Limits, rule: VoteRule, question: Question) -> Limits:
    """Return the default envelope, widened so that every vote can be asked for."""
    return replace(
        default,
        max_generations=max(default.max_generations, rule.most),
        max_generated_tokens=max(default.max_generated_tokens, rule.most * question.max_tokens),
    )


def _agents(request: VoteRequest, context: VoteContext) -> Mapping[str, StageAgent]:
    """Return the agents that vote, by the names of their sources; a model alone has no system prompt.

    Raises:
        MalformedRequest: For a source with an agent and a model.
        UnknownAgent: For an agent that is not configured.
        ModelNotFound: For a model that is not in the catalogue.
    """
    for one in request.sources:
        if one.agent and one.model:
            raise MalformedRequest("sources: an agent has a model already; give agent or model", field="sources")
    known = {DEFAULT_AGENT.id: DEFAULT_AGENT, **{agent.id: agent for agent in context.agents()}}
    for name in [one.agent for one in request.sources if one.agent] or (
        () if request.sources else context.default_agents
    ):
        check_agent(name, known, field="sources")
    known |= {_key(one): AgentConfig(id=one.model, model=one.model) for one in request.sources if one.model}
    names = [_key(one) for one in request.sources] or list(context.default_agents)
    if _asks_draft(request):
        names = [*names, DEFAULT_AGENT.id]
    return {
        name: StageAgent(config=known[name], client=context.model_clients.of(known[name]))
        for name in dict.fromkeys(names or [DEFAULT_AGENT.id])
    }


async def _sources(
    request: VoteRequest, question: Question, context: VoteContext
) -> tuple[list[VoteSource], list[str]]:
    """Return the sources in the order in which they are asked, and those that cannot vote with the reason.

    Raises:
        SandboxUnavailable: When there are tests, and no sandbox.
    """
    problem = await _sandbox_problem(context)
    if question.tests and problem:
        raise SandboxUnavailable(f"tests need the sandbox: {problem}")
    can_compute = not is_program_type(question.answer_type) and not problem
    first = [VoteSource(model=DEFAULT_AGENT.id, mode=VoteMode.DRAFT)] if _asks_draft(request) else []
    known = {(_key(one), one.mode or VoteMode.REASONED): one.competence for one in request.competences}

    def with_competence(source: VoteSource) -> VoteSource:
        stated = source.competence
        return replace(source, competence=known.get((source.model, source.mode)) if stated is None else stated)

    if not request.sources:
        names = list(context.default_agents) or [DEFAULT_AGENT.id]
        modes = [VoteMode.REASONED, VoteMode.PROGRAM] if can_compute else [VoteMode.REASONED]
        default = [*first, *(VoteSource(model=name, mode=mode) for mode in modes for name in names)]
        return list(sources_by_competence([with_competence(one) for one in default])), []
    asked = [
        with_competence(VoteSource(model=_key(one), mode=one.mode or VoteMode.REASONED, competence=one.competence))
        for one in request.sources
    ]
    left_out: list[str] = []
    if not can_compute:
        reason = problem or "a program cannot compute an answer that is a program"
        left_out = [f"{_name(one)}: {reason}" for one in asked if one.mode is VoteMode.PROGRAM]
    usable = [
        one
        for one in dict.fromkeys((*map(with_competence, first), *asked))
        if (one.mode is not VoteMode.PROGRAM or can_compute) and not (one.mode is VoteMode.DRAFT and request.draft)
    ]
    return list(usable if request.keep_order else sources_by_competence(usable)), left_out


def _asks_draft(request: VoteRequest) -> bool:
    return request.ask_draft and request.draft is None


async def _sandbox_problem(context: VoteContext) -> str:
    if not context.programs:
        return "programs are off; METACOG_ARBITER_PROGRAMS=true turns them on"
    return await asyncio.to_thread(context.sandbox.problem)


def _clients(sources: Sequence[VoteSource], agents: Mapping[str, StageAgent]) -> list[ModelClient]:
    return [agents[name].client for name in dict.fromkeys(one.model for one in sources)]


def _key(source: VotingAgent) -> str:
    """Return the name of a source in the vote's own accounts."""
    return source_name(source.agent, source.model) or DEFAULT_AGENT.id


def _parted(source: VoteSource) -> SourceParts:
    return source_parts("" if source.model == DEFAULT_AGENT.id else source.model)


def _name(source: VoteSource) -> str:
    return f"{source.model} {source.mode.lower()}"


def _contract_source(source: VoteSource) -> VotingAgent:
    parted = _parted(source)
    return VotingAgent(agent=parted.agent, mode=source.mode, competence=source.competence, model=parted.model)
