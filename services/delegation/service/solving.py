"""Agents at work on a task: one of them, somebody in its stead when it fails, or several who vote."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chassis.log import logger
from chassis.prompts import shortened
from configuration.agents import AgentConfig
from inference.errors import DeadlineExceeded, PromptTooLong, UnparsableOutput
from inference.sampling.structured import read
from inference.values import Call
from inference.values import WorkKind as Pool
from kernel.answers import AnswerType, SameMeaning, candidate_pairs, inferred_type
from kernel.confidence.rules import Baseline, TaskMode
from kernel.confidence.voting import Ballot, VoteCount, answer_in, counted
from kernel.envelope import BudgetExhausted, StageUsage
from kernel.errors import MetacogError
from kernel.thresholds import DECIMALS
from services.delegation import prompts
from services.delegation.service.executor_choice import ExecutorChoice
from services.delegation.service.task_context import TaskContext, TaskModelClient, chat
from services.delegation.service.values import AgentAnswered, AnswerToken, ModeChosen, ProcessRequest

# Agents that are tried one after another, when the one that was to solve the task fails.
ATTEMPTS = 3
FLOOR_TOKENS = 8

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSolution:
    """What became of a task.

    Attributes:
        decision: Who solved it in the end, and why; None when nobody could be asked.
        answers: What each agent answered, those that failed too.
        answer_type: Form of the answer.
        tally: The answers put together.
    """

    decision: ModeChosen | None
    answers: Sequence[AgentAnswered]
    answer_type: AnswerType
    tally: VoteCount

    @property
    def winner(self) -> AgentAnswered | None:
        """The first whose answer won; else the first who wrote anything."""
        won = (one for one in self.answers if one.won)
        return next(won, next((one for one in self.answers if one.text), None))


class TaskSolver:
    """Has one task solved, inside its envelope.

    Args:
        work: The task.
        ask: The request.
        deciding: Who was assessed, and how.
        max_tokens: Tokens of an answer [count].
    """

    def __init__(self, work: TaskContext, ask: ProcessRequest, deciding: ExecutorChoice, max_tokens: int) -> None:
        self._work = work
        self._ask = ask
        self._deciding = deciding
        self._max_tokens = max_tokens
        self._given = ask.answer_type or (ask.expected.answer_type if ask.expected else None)
        self._given = self._given or (AnswerType.CODE if ask.unit_tests else None)
        self._guess = self._given or inferred_type(work.question).answer_type
        plain = self._guess is AnswerType.TEXT and self._given is None and ask.expected is None
        self._form = None if plain else self._guess
        self._answers: list[AgentAnswered] = []
        self._decision: ModeChosen | None = None
        self.refusal: MetacogError | None = None

    async def solve(self, decision: ModeChosen) -> None:
        """Carry a decision out; what becomes of it is in `solved`."""
        self._choose(decision)
        if decision.mode is TaskMode.COLLABORATED:
            await self._together(decision)
        else:
            await self._one_after_another(decision)

    async def solved(self) -> TaskSolution:
        """What became of the task; long texts of a vote are compared by meaning."""
        texts = [one.text for one in self._answers if one.text]
        kind = self._given or inferred_type(self._work.question, samples=texts).answer_type
        ballots = [
            Ballot(agent=one.agent, answer=answer_in(one.text, kind) if one.text else None, weight=one.weight)
            for one in self._answers
        ]
        same_meaning = await same_meanings(self._work, [ballot.answer for ballot in ballots if ballot.answer], kind)
        tally = counted(ballots, kind, same_meaning=same_meaning)
        answers = [
            replace(one, answer=tally.answers.get(one.agent), won=one.agent in tally.winners) for one in self._answers
        ]
        return TaskSolution(decision=self._decision, answers=answers, answer_type=kind, tally=tally)

    def _choose(self, decision: ModeChosen) -> None:
        self._decision = decision
        self._work.emit(decision)

    async def _one_after_another(self, decision: ModeChosen) -> None:
        """The executor, and when it fails the best of the others."""
        waiting = [decision.executor, *self._stand_ins(decision)][:ATTEMPTS]
        for place, name in enumerate(waiting):
            if place:
                mode = TaskMode.EXECUTED if name == decision.first_agent else TaskMode.DELEGATED
                self._choose(replace(decision, mode=mode, executor=name, reason="agent_failed"))
            answered = await self._answered(name, "execute", self._tokens(1), streamed=True)
            self._answers = [answered]
            self._work.emit(answered)
            if not answered.failure:
                return
            if isinstance(self.refusal, BudgetExhausted | DeadlineExceeded):
                break
            _log.warning("an agent failed", agent=name, failure=answered.failure)
            self._work.reasons.append(f"{name} failed: {answered.failure}")

    def _stand_ins(self, decision: ModeChosen) -> list[str]:
        """Others, the most confident first, then those that were not asked."""
        if self._ask.baseline is not Baseline.NONE:
            return []
        able = [one for one in self._deciding.assessments if one.eligible]
        ranked = [one.agent for one in sorted(able, key=lambda one: -round(one.confidence, DECIMALS))]
        rest = sorted(self._deciding.records.items(), key=lambda one: (-round(one[1].profile, DECIMALS), one[0]))
        names = dict.fromkeys([*ranked, *(name for name, _ in rest)])
        return [name for name in names if name != decision.executor]

    async def _together(self, decision: ModeChosen) -> None:
        """Everybody who was asked answers; under the majority vote everybody who takes part."""
        if self._ask.baseline is Baseline.MAJORITY_VOTE:
            voters = list(self._work.agents)
        else:
            voters = [decision.first_agent, *(one.agent for one in decision.short_list)]
        affordable = max(1, self._work.spend.ledger.generations_left)
        if affordable < len(voters):
            self._work.spend.ledger.exhausted = True
            self._work.reasons.append(f"the envelope pays for {affordable} of {len(voters)} answers")
            voters = self._surest(voters)[:affordable]
        tokens = self._tokens(len(voters))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._vote(name, tokens)) for name in voters]
        self._answers = [task.result() for task in tasks]
        for one in self._answers:
            if one.failure:
                self._work.reasons.append(f"{one.agent} failed: {one.failure}")

    async def _vote(self, name: str, tokens: int) -> AgentAnswered:
        answered = await self._answered(name, "collaborate", tokens, streamed=False)
        self._work.emit(answered)
        return answered

    def _surest(self, voters: Sequence[str]) -> list[str]:
        return sorted(voters, key=lambda name: -round(self._weight(name), DECIMALS))

    def _weight(self, name: str) -> float:
        made = next((one for one in self._deciding.assessments if one.agent == name), None)
        return 1.0 if made is None else made.confidence

    def _tokens(self, among: int) -> int:
        """Tokens that each of `among` answers may have."""
        affordable = self._work.spend.ledger.affordable_tokens(self._max_tokens, among=among)
        return max(1, affordable)

    async def _answered(self, name: str, stage: str, tokens: int, *, streamed: bool) -> AgentAnswered:
        """One agent's answer; a refusal is told in it, and a limit that is reached keeps what there is."""
        agent = self._work.agents[name]
        voice = self._work.voices.of(agent)
        heard = _Heard()
        try:
            await self._listen(heard, voice, self._call(agent, stage, tokens), name if streamed else "")
        except (BudgetExhausted, DeadlineExceeded, PromptTooLong) as refusal:
            self._keep(heard, refusal)
        except MetacogError as refusal:
            self._fail(heard, refusal)
        answer = answer_in(heard.text, self._guess) if heard.text.strip() else None
        tally = counted([Ballot(agent=name, answer=answer, weight=1.0)], self._guess)
        return AgentAnswered(
            agent=name,
            model=voice.model,
            answer=tally.answer,
            weight=self._weight(name),
            text=heard.text.strip() if not heard.failure else "",
            usage=heard.usage,
            duration_ms=round((time.monotonic() - heard.began) * 1000, 3),
            truncated=heard.truncated,
            failure=heard.failure,
        )

    def _keep(self, heard: "_Heard", refusal: MetacogError) -> None:
        if heard.text.strip():
            self._work.spend.ledger.exhausted = True
            heard.truncated = True
        else:
            self._fail(heard, refusal)

    def _fail(self, heard: "_Heard", refusal: MetacogError) -> None:
        self.refusal = refusal
        heard.failure = f"{refusal.reason}: {refusal.message}"

    async def _listen(self, heard: "_Heard", voice: TaskModelClient, call: Call, told_as: str) -> None:
        stream = await voice.stream(call, self._work.spend)
        try:
            async for delta in stream:
                if delta.text:
                    heard.text += delta.text
                    if told_as:
                        self._work.emit(AnswerToken(agent=told_as, text=delta.text))
            heard.usage = stream.completion.usage
            heard.truncated = stream.completion.samples[0].finish_reason == "length"
        finally:
            await stream.aclose()
        if not heard.text.strip():
            heard.failure = "the model returned no text"

    def _call(self, agent: AgentConfig, stage: str, tokens: int) -> Call:
        prompt = self._work.note(prompts.solution(question=self._work.question, answer_type=self._form))
        temperature = agent.temperature if self._ask.temperature is None else self._ask.temperature
        return Call(
            messages=chat(agent.system_prompt, prompt.text),
            max_tokens=tokens,
            temperature=temperature,
            seed=self._work.seed_of(stage, agent.id),
            thinking=agent.thinking,
            stage=stage,
            work=Pool.STAGE,
            floor_tokens=min(FLOOR_TOKENS, tokens),
        )


class _Heard:
    """What one answer has brought so far."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.text = ""
        self.usage = StageUsage()
        self.truncated = False
        self.failure = ""


# Tokens of a judgement, for each answer and for what is around them; and of each text that is shown.
TOKENS, TOKENS_EACH = 24, 6
SHOWN_TOKENS = 384


async def same_meanings(work: TaskContext, answers: Sequence[str], kind: AnswerType) -> SameMeaning | None:
    """A judgement of which of `answers` say the same; None where there is nothing to judge, or it cannot be had.

    Args:
        work: The task; that texts were not compared degrades its answer.
        answers: The answers as they are written.
        kind: Their type.
    """
    pairs = candidate_pairs(answers, kind)
    if not pairs:
        return None
    texts = sorted({text for pair in pairs for text in pair})
    try:
        completion = await work.voices.assessor().complete(_call(work, texts), work.spend)
        groups = dict(zip(texts, _groups(completion.samples[0].text, len(texts)), strict=True))
    except MetacogError as refusal:
        work.reasons.append(f"{refusal.reason}: answers were not compared by meaning: {refusal.message}")
        return None
    return lambda a, b: groups.get(a, a) == groups.get(b, b)


def schema(count: int) -> Mapping[str, Any]:
    """JSON schema of a judgement of `count` texts."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": count - 1},
        "minItems": count - 1,
        "maxItems": count - 1,
    }
    return {"type": "object", "properties": {"same": numbers}, "required": ["same"], "additionalProperties": False}


def _groups(text: str, count: int) -> list[int]:
    """For each text the place of the first one that says the same.

    Raises:
        UnparsableOutput: When the judgement cannot be read.
    """
    document = read(text, schema(count)).content
    said = document.get("same") if isinstance(document, dict) else None
    if not isinstance(said, list) or len(said) != count - 1:
        raise UnparsableOutput("the judgement of meaning lists no numbers", problem="no numbers")
    groups = [0]
    for place, number in enumerate(said, start=1):
        groups.append(groups[int(number) - 1] if 1 <= number <= place else place)
    return groups


def _call(work: TaskContext, texts: Sequence[str]) -> Call:
    prompt = work.note(
        prompts.same_meaning(question=work.question, answers=[shortened(text, SHOWN_TOKENS)[0] for text in texts])
    )
    return Call(
        messages=chat("", prompt.text),
        max_tokens=TOKENS + TOKENS_EACH * len(texts),
        schema=schema(len(texts)),
        temperature=0.0,
        seed=work.seed_of("compare"),
        thinking=False,
        stage="compare",
        work=Pool.ASSESS,
    )
