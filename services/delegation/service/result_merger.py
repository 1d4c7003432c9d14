"""The Result Merger: whether an answer is right, by comparison, by tests that its code passes, or by a model."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from inference.errors import UnparsableOutput
from inference.sampling.structured import read
from inference.values import Call
from inference.values import WorkKind as Pool
from kernel.answers import AnswerType, extract, is_right
from kernel.confidence.rules import Checker
from kernel.confidence.voting import answer_in
from kernel.errors import MetacogError
from kernel.msv.ratings import SCALE, rating_schema
from services.delegation import prompts
from services.delegation.metrics import JUDGED
from services.delegation.service.task_context import TaskContext, TaskModelClient, chat
from services.delegation.service.values import AgentAnswered, AnswerLabel, Expected, Judge, ProcessRequest, UnitTests

JUDGE_MAX_TOKENS = 24
# Time beyond that of the tests themselves, for the sandbox to come and go [s].
SANDBOX_SPARE_S = 2.0
RIGHT = ("right",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """How code did in the sandbox; `passed` is None when the sandbox itself failed."""

    passed: bool | None
    detail: str


class SandboxRunner(Protocol):
    """Runs code that nobody trusts."""

    async def ready(self) -> None:
        """Return if it can be used.

        Raises:
            SandboxUnavailable: When it is off or missing.
        """

    async def run(self, code: str, tests: str, *, timeout_s: float) -> Tested:
        """Run `code`, then `tests`, which raise when it is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMerger:
    """Everything that judging needs from the world.

    Attributes:
        sandbox: Runs code.
        test_timeout_s: Time that code and tests get [s].
        judge: Agent that judges where none is named; empty: nobody in particular.
        now: Wall clock.
    """

    sandbox: SandboxRunner
    now: Callable[[], datetime]
    test_timeout_s: float = 5.0
    judge: str = ""


async def judged(
    ask: ProcessRequest, work: TaskContext, best: AgentAnswered | None, kind: AnswerType, merger: ResultMerger
) -> AnswerLabel | None:
    """Whether the answer is right; None when nobody is to judge, or there is nothing to judge."""
    if best is None or not best.text:
        return None
    label: AnswerLabel | None = None
    if ask.expected is not None:
        label = _compared(ask.expected, best, kind, merger.now())
    elif ask.unit_tests is not None:
        label = await _tested(ask.unit_tests, best.text, work, merger)
    elif ask.judge is not None:
        label = await _rated(ask.judge, best, work, merger)
    if label is not None:
        JUDGED.labels(label.checker, str(label.correct).lower()).inc()
    return label


def _compared(expected: Expected, best: AgentAnswered, kind: AnswerType, now: datetime) -> AnswerLabel:
    answer = answer_in(best.text, kind)
    correct = False if answer is None else is_right(answer, expected.answer, kind, aliases=expected.aliases)
    words = {True: "equal to the expected answer", False: "not equal to the expected answer"}
    detail = "equality cannot tell" if correct is None else words[correct]
    detail = detail if answer is not None else "the text holds no answer"
    return AnswerLabel(correct=correct, checker=Checker.EXPECTED, detail=detail, judged_at=now)


async def _tested(tests: UnitTests, text: str, work: TaskContext, merger: ResultMerger) -> AnswerLabel:
    code = extract(text, AnswerType.CODE)
    if code is None:
        detail = "the text holds no code"
        return AnswerLabel(correct=False, checker=Checker.UNIT_TESTS, detail=detail, judged_at=merger.now())
    wanted_s = tests.timeout_ms / 1000 if tests.timeout_ms else merger.test_timeout_s
    timeout_s = min(wanted_s, max(0.1, work.spend.seconds_left()))
    try:
        async with asyncio.timeout(timeout_s + SANDBOX_SPARE_S):
            tested = await merger.sandbox.run(code, tests.code, timeout_s=timeout_s)
    except TimeoutError:  # others were tested all the while
        tested = Tested(passed=None, detail="there was no time left for the tests")
        work.reasons.append(tested.detail)
    return AnswerLabel(correct=tested.passed, checker=Checker.UNIT_TESTS, detail=tested.detail, judged_at=merger.now())


async def _rated(asked: Judge, best: AgentAnswered, work: TaskContext, merger: ResultMerger) -> AnswerLabel:
    name = asked.agent or merger.judge
    correct: bool | None = None
    try:
        agent = work.everybody.get(name)
        voice: TaskModelClient = work.voices.of(agent) if agent else work.voices.assessor()
        system = agent.system_prompt if agent else ""
        completion = await voice.complete(_call(work, asked, best, system), work.spend)
        level = _level(completion.samples[0].text)
        correct, detail = level >= SCALE / 2, f"judged {level} of {SCALE}"
    except MetacogError as refusal:
        detail = f"{refusal.reason}: {refusal.message}"
        work.reasons.append(f"the judge failed: {detail}")
    return AnswerLabel(correct=correct, checker=Checker.JUDGE, detail=detail, judged_at=merger.now())


def _level(text: str) -> int:
    document = read(text, rating_schema(RIGHT)).content
    numbers = document.get("r") if isinstance(document, dict) else None
    if not isinstance(numbers, list) or not isinstance(numbers[0], int | float):
        raise UnparsableOutput("the judgement is no number", problem="no number")
    return int(numbers[0])


def _call(work: TaskContext, asked: Judge, best: AgentAnswered, system: str) -> Call:
    prompt = work.note(prompts.judgement(question=work.question, answer=best.text, criteria=asked.criteria))
    return Call(
        messages=chat(system, prompt.text),
        max_tokens=JUDGE_MAX_TOKENS,
        schema=rating_schema(RIGHT),
        temperature=0.0,
        seed=work.seed_of("judge"),
        thinking=False,
        stage="judge",
        work=Pool.ASSESS,
    )
