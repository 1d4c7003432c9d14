"""A task is solved by one agent, by a fallback when that agent fails, by a panel in sequence, or by a vote of all."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace

from chassis.clock import milliseconds_since
from chassis.log import logger
from configuration.agents import AgentConfig
from inference import Call, DeadlineExceeded, ModelClient, PromptTooLong, WorkKind
from kernel.answers import AnswerType, canonical, inferred_type
from kernel.confidence.panels import PanelStop, count_panel, panel_stop
from kernel.confidence.rules import Baseline, ModeReason, TaskMode
from kernel.confidence.voting import Ballot, VoteCount, answer_in, count_votes
from kernel.conversation import chat_of_prompt
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.thresholds import DECIMALS
from sandbox.mathematics import LimitedMathematics
from services.delegation import prompts
from services.delegation.service.executor_choice import ExecutorChoice
from services.delegation.service.result_merger import same_meanings
from services.delegation.service.task_context import TaskContext
from services.delegation.service.values import AgentAnswered, AnswerToken, ModeChosen, ProcessRequest

# Agents that are tried one after another, when the executor fails.
ATTEMPTS = 3
FLOOR_TOKENS = 8
TOO_SLOW = "too_slow: it took half of the time that was left"
NO_LIMIT = nullcontext()

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSolution:
    """A solution holds the answers to a task, and the one that won.

    Attributes:
        decision: Who solved it in the end, and why; None when no agent could be called.
        answers: The answer of each agent, including those that failed.
        answer_type: Form of the answer.
        votes: The answers, merged and counted.
        panel_stop: Why no further agent of a panel was asked; None without a panel.
    """

    decision: ModeChosen | None
    answers: Sequence[AgentAnswered]
    answer_type: AnswerType
    votes: VoteCount
    panel_stop: PanelStop | None = None

    @property
    def winner(self) -> AgentAnswered | None:
        """Return the first agent whose answer won, of those that state its unit; else the first that wrote any text."""
        won = [each for each in self.answers if each.won] or [each for each in self.answers if each.text][:1]
        return min(won, key=lambda each: bool(each.unit_assumed), default=None)


class TaskSolver:
    """The solver has one task solved, inside its envelope.

    Args:
        task: The task.
        request: The request.
        choice: The assessments of the agents.
        max_tokens: Tokens of an answer [count].
        mathematics: Compares expressions.

    Attributes:
        error: The last error of an agent; None while none failed.
    """

    def __init__(
        self,
        task: TaskContext,
        request: ProcessRequest,
        choice: ExecutorChoice,
        max_tokens: int,
        *,
        mathematics: LimitedMathematics,
    ) -> None:
        self._task = task
        self._request = request
        self._choice = choice
        self._max_tokens = max_tokens
        self._mathematics = mathematics
        self._given = request.answer_type or (request.expected.answer_type if request.expected else None)
        self._given = self._given or (AnswerType.CODE if request.unit_tests else None)
        self._guess = self._given or inferred_type(task.question).answer_type
        is_free = self._guess is AnswerType.TEXT and self._given is None and request.expected is None
        self._prompted_type = None if is_free else self._guess
        self._answers: list[AgentAnswered] = []
        self._decision: ModeChosen | None = None
        self._panel_stop: PanelStop | None = None
        self.error: MetacogError | None = None

    async def solve(self, decision: ModeChosen) -> None:
        """Carry a decision out; `solution` returns the result."""
        self._choose(decision)
        if decision.panel:
            await self._ask_panel(decision.panel)
        elif decision.mode is TaskMode.COLLABORATED:
            await self._collaborate(decision)
        else:
            await self._execute(decision)

    async def solution(self) -> TaskSolution:
        """Return the solution; long texts of a vote are compared by meaning."""
        kind = self._answer_type()
        ballots = self._ballots(kind)
        same_meaning = await same_meanings(self._task, [ballot.answer for ballot in ballots if ballot.answer], kind)
        count = count_votes if self._panel_stop is None else count_panel
        votes = await self._mathematics.run(
            count, ballots, kind, same_meaning=same_meaning, mathematics=self._mathematics
        )
        if reason := self._mathematics.timeout_reason:
            self._task.degraded_reasons.append(f"{reason}; such answers count as different")
        written = {ballot.agent: ballot.answer for ballot in ballots}
        answers = [
            replace(
                each,
                answer=votes.answers.get(each.agent),
                written=written[each.agent] if each.agent in votes.answers else None,
                won=each.agent in votes.winners,
                unit_assumed=votes.units_assumed.get(each.agent, ""),
            )
            for each in self._answers
        ]
        return TaskSolution(
            decision=self._decision, answers=answers, answer_type=kind, votes=votes, panel_stop=self._panel_stop
        )

    def _answer_type(self) -> AnswerType:
        texts = [each.text for each in self._answers if each.text]
        return self._given or inferred_type(self._task.question, samples=texts).answer_type

    def _ballots(self, kind: AnswerType) -> list[Ballot]:
        return [
            Ballot(agent=each.agent, answer=answer_in(each.text, kind) if each.text else None, weight=each.weight)
            for each in self._answers
        ]

    def _choose(self, decision: ModeChosen) -> None:
        self._decision = decision
        self._task.emit(decision)

    async def _execute(self, decision: ModeChosen) -> None:
        """Have the executor answer, and when it fails the best of the others."""
        candidates = [decision.executor, *self._fallbacks(decision)][:ATTEMPTS]
        for attempt, name in enumerate(candidates):
            if attempt:
                mode = TaskMode.EXECUTED if name == decision.first_agent else TaskMode.DELEGATED
                self._choose(replace(decision, mode=mode, executor=name, reason=ModeReason.AGENT_FAILED))
            answer = await self._answer(name, "execute", self._affordable_tokens(1), streamed=True)
            self._answers = [answer]
            self._task.emit(answer)
            if not answer.failure:
                return
            if isinstance(self.error, BudgetExhausted | DeadlineExceeded):
                break
            _log.warning("an agent failed", agent=name, failure=answer.failure)
            self._task.degraded_reasons.append(f"{name} failed: {answer.failure}")

    def _fallbacks(self, decision: ModeChosen) -> list[str]:
        """Return the other agents: the most confident first, then those without an assessment."""
        if self._request.baseline is not Baseline.NONE:
            return []
        eligible = [each for each in self._choice.assessments if each.eligible]
        ranked = [each.agent for each in sorted(eligible, key=lambda each: -round(each.confidence, DECIMALS))]
        rest = sorted(self._choice.competences.items(), key=lambda each: (-round(each[1], DECIMALS), each[0]))
        names = dict.fromkeys([*ranked, *(name for name, _ in rest)])
        return [name for name in names if name != decision.executor]

    async def _ask_panel(self, panel: Sequence[str]) -> None:
        """Have the agents of a panel answer one after another, until two agree, all were asked or a limit is reached.

        An agent that fails counts as asked. Each but the last gets half of the time that is left.
        """
        for asked, name in enumerate(panel):
            if asked and not self._can_ask():
                self._panel_stop = PanelStop.BUDGET_EXHAUSTED
                break
            left = len(panel) - asked
            within = self._task.half_of_time_left() if left > 1 else nullcontext()
            answer = await self._answer(
                name, "collaborate", self._affordable_tokens(left), streamed=False, within=within
            )
            self._task.emit(answer)
            self._answers.append(answer)
            if answer.failure:
                self._task.degraded_reasons.append(f"{name} failed: {answer.failure}")
            kind = self._answer_type()
            count = await self._mathematics.run(count_panel, self._ballots(kind), kind, mathematics=self._mathematics)
            self._panel_stop = panel_stop(count, asked=asked + 1, members=len(panel))
            if self._panel_stop is not None:
                break
        if self._panel_stop is PanelStop.BUDGET_EXHAUSTED:
            self._task.spend.ledger.exhausted = True
            asked = len(self._answers)
            reason = f"the envelope pays for {asked} of {len(panel)} answers, and no two of them agree"
            self._task.degraded_reasons.append(reason)

    def _can_ask(self) -> bool:
        """Return whether the envelope pays for a further answer."""
        spend = self._task.spend
        is_over = isinstance(self.error, BudgetExhausted | DeadlineExceeded) or spend.seconds_left() <= 0
        return not is_over and spend.ledger.generations_left > 0 and spend.ledger.tokens_left >= FLOOR_TOKENS

    async def _collaborate(self, decision: ModeChosen) -> None:
        """Have all assessed agents answer at once; under the majority vote all that take part."""
        if self._request.baseline is Baseline.MAJORITY_VOTE:
            voters = list(self._task.agents)
        else:
            voters = [decision.first_agent, *(each.agent for each in decision.short_list)]
        affordable = max(1, self._task.spend.ledger.generations_left)
        if affordable < len(voters):
            self._task.spend.ledger.exhausted = True
            self._task.degraded_reasons.append(f"the envelope pays for {affordable} of {len(voters)} answers")
            voters = self._most_confident(voters)[:affordable]
        tokens = self._affordable_tokens(len(voters))
        async with asyncio.TaskGroup() as group:
            pending = [group.create_task(self._vote(name, tokens)) for name in voters]
        self._answers = [each.result() for each in pending]
        for each in self._answers:
            if each.failure:
                self._task.degraded_reasons.append(f"{each.agent} failed: {each.failure}")

    async def _vote(self, name: str, tokens: int) -> AgentAnswered:
        answer = await self._answer(name, "collaborate", tokens, streamed=False)
        self._task.emit(answer)
        return answer

    def _most_confident(self, voters: Sequence[str]) -> list[str]:
        return sorted(voters, key=lambda name: -round(self._weight(name), DECIMALS))

    def _weight(self, name: str) -> float:
        assessment = next((each for each in self._choice.assessments if each.agent == name), None)
        return 1.0 if assessment is None else assessment.confidence

    def _affordable_tokens(self, answers: int) -> int:
        """Return the tokens that each of `answers` answers may have [count]."""
        return max(1, self._task.spend.ledger.affordable_tokens(self._max_tokens, among=answers))

    async def _answer(
        self,
        name: str,
        stage: str,
        tokens: int,
        *,
        streamed: bool,
        within: AbstractAsyncContextManager[object] = NO_LIMIT,
    ) -> AgentAnswered:
        """Return one agent's answer; it carries an error of the agent, and at a limit the text so far.

        Args:
            name: The agent.
            stage: Stage of its usage.
            tokens: Tokens that it may have [count].
            streamed: Whether its text is emitted as it is generated.
            within: The time that it may take.
        """
        agent = self._task.agents[name]
        client = self._task.model_clients.of(agent)
        text = _AnswerText()
        try:
            async with within:
                await self._read_stream(text, client, self._call(agent, stage, tokens), name if streamed else "")
        except TimeoutError:
            text.failure = TOO_SLOW
        except (BudgetExhausted, DeadlineExceeded, PromptTooLong) as error:
            self._cut_short(text, error)
        except MetacogError as error:
            self._fail(text, error)
        answer = answer_in(text.content, self._guess) if text.content.strip() else None
        return AgentAnswered(
            agent=name,
            model=client.model,
            answer=canonical(answer, self._guess) if answer else None,
            weight=self._weight(name),
            text=text.content.strip() if not text.failure else "",
            usage=text.usage,
            duration_ms=milliseconds_since(text.started),
            truncated=text.truncated,
            failure=text.failure,
            written=answer or None,
        )

    async def _read_stream(self, text: "_AnswerText", client: ModelClient, call: Call, emitted_agent: str) -> None:
        """Read the stream of one call into `text`, emitting its tokens under `emitted_agent` unless that is empty."""
        stream = await client.stream(call, self._task.spend)
        try:
            async for delta in stream:
                if delta.text:
                    text.content += delta.text
                    if emitted_agent:
                        self._task.emit(AnswerToken(agent=emitted_agent, text=delta.text))
            text.usage = stream.completion.usage
            text.truncated = stream.completion.samples[0].finish_reason == "length"
        finally:
            await stream.aclose()
        if not text.content.strip():
            text.failure = "the model returned no text"

    def _cut_short(self, text: "_AnswerText", error: MetacogError) -> None:
        if text.content.strip():
            self._task.spend.ledger.exhausted = True
            text.truncated = True
        else:
            self._fail(text, error)

    def _fail(self, text: "_AnswerText", error: MetacogError) -> None:
        self.error = error
        text.failure = f"{error.reason}: {error.message}"

    def _call(self, agent: AgentConfig, stage: str, tokens: int) -> Call:
        prompt = self._task.recorded(prompts.solution(question=self._task.question, answer_type=self._prompted_type))
        temperature = agent.temperature if self._request.temperature is None else self._request.temperature
        return Call(
            messages=chat_of_prompt(agent.system_prompt, prompt.text),
            max_tokens=tokens,
            temperature=temperature,
            seed=self._task.seed_of(stage, agent.id),
            thinking=agent.thinking,
            stage=stage,
            work=WorkKind.STAGE,
            floor_tokens=min(FLOOR_TOKENS, tokens),
        )


class _AnswerText:
    """This object holds the text of one answer as far as it has arrived."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.content = ""
        self.usage = StageUsage()
        self.truncated = False
        self.failure = ""
