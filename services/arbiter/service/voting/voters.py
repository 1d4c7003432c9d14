"""Voters answer the question once: a model directly, with its reasoning, or by a program that is run."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chassis.prompts import Prompt
from chassis.telemetry import span
from inference import Call, Spend, WorkKind
from kernel.answers import AnswerType, extract, rules_of, without_thinking
from kernel.conversation import Turn, chat_of_prompt, chat_of_turns
from kernel.seeds import derived_seed
from kernel.values import value
from kernel.votes.drafts import draft_answer
from kernel.votes.votes import MOST_CHARACTERS, MOST_WORDS, VoteMode, VoteSource, is_comparable
from sandbox import CodeResult, CodeSandbox
from services.arbiter import prompts
from services.arbiter.service.stage_agents import StageAgent

# The stage under which votes are booked.
VOTE = "vote"
# Time that a program, or an answer with its tests, may take [s].
PROGRAM_S = 5.0
# Time that it may take at least, where the envelope has less [s].
LEAST_PROGRAM_S = 0.1
TOO_LONG = f"the answer is too long to be compared; {MOST_WORDS} words and {MOST_CHARACTERS} characters can be"
NO_ANSWER = "no answer of this type could be read from the text"


@value
class Answered:
    """This value is what one source answered.

    Attributes:
        text: The whole text.
        model: Model that wrote it.
        answer: The answer as it is written there; None where there is none.
        reason: Why there is none; empty where there is one.
        tokens: Tokens generated [count]; None where the backend reports none.
        truncated: Whether the text ended at its token limit.
        passes_tests: Whether a program passes the tests; None where there are none.
        duration_ms: Time that it took [ms].
    """

    text: str
    model: str
    answer: str | None
    reason: str = ""
    tokens: int | None = None
    truncated: bool = False
    passes_tests: bool | None = None
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question of a vote, and how it is asked.

    Attributes:
        text: The question as one text.
        turns: The conversation that it is from.
        answer_type: Form of its answer.
        options: Texts of a choice's options, in order.
        tests: Tests of an answer that is a program; empty: there are none.
        max_tokens: Tokens that each vote may have [count].
        temperature: Sampling temperature of the votes.
        seed: Seed of the run; None leaves chance to the backends.
    """

    text: str
    turns: Sequence[Turn]
    answer_type: AnswerType
    options: Sequence[str]
    tests: str
    max_tokens: int
    temperature: float
    seed: int | None

    @property
    def has_long_answers(self) -> bool:
        """Return whether an answer may be too long to be compared: a free text."""
        return rules_of(self.answer_type).is_free_text


@dataclass(slots=True, kw_only=True)
class Voters:
    """The voters of one question.

    Attributes:
        question: The question.
        agents: The agent behind each source, by its name.
        spend: The envelope.
        sandbox: Runs programs.
        digests: Digest of each prompt template used, by its name.
    """

    question: Question
    agents: Mapping[str, StageAgent]
    spend: Spend
    sandbox: CodeSandbox
    digests: dict[str, str] = field(default_factory=dict)

    async def ask(self, source: VoteSource, number: int) -> Answered:
        """Return the answer of a source.

        Args:
            source: The source.
            number: How often this source was asked before [count].

        Raises:
            MetacogError: When the model cannot be called.
        """
        with span("vote") as opened:
            answered = await self._ask(source, number)
            opened.set_attributes(
                {
                    "metacog.agent": source.model,
                    "metacog.mode": source.mode,
                    "metacog.model": answered.model,
                    "metacog.valid": answered.answer is not None,
                }
            )
        return answered

    async def _ask(self, source: VoteSource, number: int) -> Answered:
        began = time.monotonic()
        agent = self.agents[source.model]
        completion = await agent.client.complete(self._call(agent, source.mode, number), self.spend)
        sample = completion.samples[0]
        answered = Answered(
            text=without_thinking(sample.text),
            model=completion.model,
            answer=None,
            tokens=sample.tokens or None,
            truncated=sample.finish_reason == "length",
        )
        if completion.cut and answered.truncated:
            self.spend.ledger.exhausted = True
        return await self._read(answered, source.mode, began)

    async def read(self, text: str, model: str, tokens: int) -> Answered:
        """Return the draft with the answer that its text gives."""
        answered = Answered(text=without_thinking(text), model=model, answer=None, tokens=tokens or None)
        return await self._read(answered, VoteMode.DRAFT, time.monotonic())

    async def _read(self, answered: Answered, mode: VoteMode, began: float) -> Answered:
        found, reason, passes = answered.text, "", None
        if mode is VoteMode.PROGRAM:
            found, reason = await self._printed(answered.text)
        question = self.question
        reading = draft_answer if mode is VoteMode.DRAFT else extract
        answer = None if reason else reading(found, question.answer_type, options=question.options)
        if answer is not None and question.has_long_answers and not is_comparable(answer, question.answer_type):
            answer, reason = None, TOO_LONG
        if answer is None:
            reason = reason or ("the text ended at its token limit" if answered.truncated else NO_ANSWER)
        elif question.tests:
            result = await self._run(answer, question.tests)
            passes, reason = result.passed is True, "" if result.passed else result.detail
        return Answered(
            text=answered.text,
            model=answered.model,
            answer=answer,
            reason=reason,
            tokens=answered.tokens,
            truncated=answered.truncated,
            passes_tests=passes,
            duration_ms=round((time.monotonic() - began) * 1000, 3),
        )

    async def _printed(self, text: str) -> tuple[str, str]:
        """Return the last line that the program in `text` prints, or why there is none."""
        program = extract(text, AnswerType.CODE)
        if program is None:
            return "", "the text holds no program"
        result = await self._run(program, "", as_main=True)
        if not result.passed:
            return "", f"the program failed: {result.detail}"
        lines = [line.strip() for line in result.printed.splitlines() if line.strip()]
        return (lines[-1], "") if lines else ("", "the program printed nothing")

    async def _run(self, code: str, tests: str, *, as_main: bool = False) -> CodeResult:
        """Return what code does in the sandbox, or that the time ended while it waited for other programs."""
        within_s = max(LEAST_PROGRAM_S, self.spend.seconds_left())
        try:
            async with asyncio.timeout(within_s):
                return await self.sandbox.run(code, tests, timeout_s=min(PROGRAM_S, within_s), as_main=as_main)
        except TimeoutError:
            return CodeResult(passed=False, detail=f"not run within {within_s:.3g} s: other programs run")

    def _call(self, agent: StageAgent, mode: VoteMode, number: int) -> Call:
        question, config = self.question, agent.config
        names = (mode.lower(), str(number))
        return Call(
            messages=self._messages(mode, config.system_prompt),
            max_tokens=question.max_tokens,
            stage=VOTE,
            work=WorkKind.STAGE,
            temperature=question.temperature,
            seed=None if question.seed is None else derived_seed(question.seed, VOTE, config.id, *names),
            thinking=config.thinking,
        )

    def _messages(self, mode: VoteMode, system: str) -> Sequence[Mapping[str, object]]:
        question = self.question
        if mode is VoteMode.DRAFT:
            return chat_of_turns(question.turns)
        if mode is VoteMode.PROGRAM:
            prompt = prompts.program(question=question.text, answer_type=question.answer_type)
            self._record(prompt)
        else:
            prompt = prompts.solve(question=question.text, answer_type=question.answer_type)
            self._record(prompt, prompts.instructions(question.answer_type)[0])
        return chat_of_prompt(system, prompt.text)

    def _record(self, *used: Prompt) -> None:
        self.digests |= {prompt.name: prompt.digest for prompt in used}


def is_program_type(answer_type: AnswerType) -> bool:
    """Return whether answers of a type are programs themselves, so that no program computes them."""
    return rules_of(answer_type).is_program
