"""The Result Merger compares the answers of a vote by meaning, and checks whether the final answer is right."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from chassis.errors import RequestOverLimit
from chassis.prompts import shortened
from inference import Call, UnparsableOutput, WorkKind, read_document
from kernel.answers import AnswerType, SameMeaning, candidate_pairs, compared, extract
from kernel.confidence.rules import Checker
from kernel.confidence.voting import answer_in
from kernel.conversation import chat_of_prompt
from kernel.errors import MetacogError
from kernel.msv.ratings import SCALE, rating_schema
from sandbox.mathematics import MathematicsSource
from services.delegation import prompts
from services.delegation.metrics import LABELS
from services.delegation.service.task_context import TaskContext
from services.delegation.service.values import AgentAnswered, AnswerLabel, Expected, Judge, ProcessRequest, UnitTests

# Tokens of a comparison by meaning: around the numbers, of each number, and of each text that is shown [count].
COMPARE_TOKENS, COMPARE_TOKENS_EACH = 24, 6
SHOWN_TOKENS = 384

JUDGE_MAX_TOKENS = 24
# Time beyond that of the tests themselves, for the sandbox to start and end [s].
SANDBOX_SPARE_S = 2.0
# Such tests can refute a program; they cannot confirm one that is meant to cheat.
WEAK = (
    "but they ran beside the program, which could have written that itself: nothing is learned; write each test as"
    " `assert f(...) == value`"
)
RIGHT = ("right",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """This is the result of unit tests in the sandbox.

    Attributes:
        passed: Whether they passed; None when the sandbox itself failed.
        detail: What failed, or that all passed.
        is_compared: Whether what the program computed was compared where it could not write the result itself.
    """

    passed: bool | None
    detail: str
    is_compared: bool = False


class SandboxRunner(Protocol):
    """The runner executes untrusted code."""

    async def ready(self) -> None:
        """Return if it can be used.

        Raises:
            SandboxUnavailable: When it is off or missing.
        """

    async def run(self, code: str, tests: str, *, timeout_s: float) -> Tested:
        """Run `code`, then `tests`, which raise when it is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMerger:
    """The Result Merger checks final answers by comparison, by unit tests, or by a judge model.

    Attributes:
        sandbox: Runs code.
        calculator: Compares expressions.
        now: Wall clock.
        test_timeout_s: Time that code and tests get [s].
        max_test_timeout_ms: Time that a request may give them at most [ms].
        judge: Agent that judges where the request names none; empty: the model that classifies.
    """

    sandbox: SandboxRunner
    calculator: MathematicsSource
    now: Callable[[], datetime]
    test_timeout_s: float = 5.0
    max_test_timeout_ms: int = 60_000
    judge: str = ""

    def check_tests(self, tests: UnitTests | None) -> None:
        """Return if the tests of a request ask for no more time than they may have.

        Raises:
            RequestOverLimit: If they do; names the field, the ceiling and its setting.
        """
        wanted_ms = tests.timeout_ms if tests is not None else None
        if wanted_ms is not None and wanted_ms > self.max_test_timeout_ms:
            message = (
                f"unit_tests.timeout_ms is {wanted_ms}; tests may have at most {self.max_test_timeout_ms} ms here"
                " (METACOG_DELEGATION_TEST_MAX_TIMEOUT_MS)"
            )
            raise RequestOverLimit(
                message, field="unit_tests.timeout_ms", value=str(wanted_ms), ceiling=str(self.max_test_timeout_ms)
            )

    async def check(
        self, request: ProcessRequest, task: TaskContext, winner: AgentAnswered | None, kind: AnswerType
    ) -> AnswerLabel | None:
        """Return whether the answer is right; None without a check, or without a text to check."""
        if winner is None or not winner.text:
            return None
        label: AnswerLabel | None = None
        if request.expected is not None:
            label = await self._compare(request.expected, winner.text, kind, task)
        elif request.unit_tests is not None:
            label = await self._test(request.unit_tests, winner.text, task)
        elif request.judge is not None:
            label = await self._rate(request.judge, winner, task)
        if label is not None:
            LABELS.labels(label.checker, str(label.correct).lower()).inc()
        return label

    async def _compare(self, expected: Expected, text: str, kind: AnswerType, task: TaskContext) -> AnswerLabel:
        answer, correct = answer_in(text, kind), None
        if answer is None:
            correct, detail = False, "the text holds no answer"
        else:
            mathematics = self.calculator.within(task.spend.seconds_left)
            comparison = await mathematics.run(
                compared, answer, expected.answer, kind, aliases=expected.aliases, mathematics=mathematics
            )
            correct = comparison.right
            details = {True: "equal to the expected answer", False: "not equal to the expected answer"}
            detail = details[correct] if correct is not None else mathematics.timeout_reason or "equality cannot tell"
            if comparison.unit_assumed:
                detail = f"{detail}; one of the two states no unit, and is taken to mean {comparison.unit_assumed}"
            if correct is None and mathematics.timeout_reason:
                task.degraded_reasons.append(f"{detail}; it is not known whether the answer is right")
        return AnswerLabel(correct=correct, checker=Checker.EXPECTED, detail=detail, judged_at=self.now())

    async def _test(self, tests: UnitTests, text: str, task: TaskContext) -> AnswerLabel:
        code = extract(text, AnswerType.CODE)
        if code is None:
            detail = "the text holds no code"
            return AnswerLabel(correct=False, checker=Checker.UNIT_TESTS, detail=detail, judged_at=self.now())
        wanted_s = tests.timeout_ms / 1000 if tests.timeout_ms else self.test_timeout_s
        timeout_s = min(wanted_s, max(0.1, task.spend.seconds_left()))
        try:
            async with asyncio.timeout(timeout_s + SANDBOX_SPARE_S):
                tested = await self.sandbox.run(code, tests.code, timeout_s=timeout_s)
        except TimeoutError:  # the sandbox was busy with other tests all the time
            tested = Tested(passed=None, detail="there was no time left for the tests")
            task.degraded_reasons.append(tested.detail)
        correct, detail = tested.passed, tested.detail
        if correct and not tested.is_compared:
            correct, detail = None, f"{detail}, {WEAK}"
        return AnswerLabel(correct=correct, checker=Checker.UNIT_TESTS, detail=detail, judged_at=self.now())

    async def _rate(self, judge: Judge, winner: AgentAnswered, task: TaskContext) -> AnswerLabel:
        correct: bool | None = None
        try:
            agent = task.all_agents.get(judge.agent or self.judge)
            client = task.model_clients.of(agent) if agent else task.model_clients.assessor()
            system = agent.system_prompt if agent else ""
            completion = await client.complete(_judge_call(task, judge, winner, system), task.spend)
            level = _level(completion.samples[0].text)
            correct, detail = level >= SCALE / 2, f"judged {level} of {SCALE}"
        except MetacogError as error:
            detail = f"{error.reason}: {error.message}"
            task.degraded_reasons.append(f"the judge failed: {detail}")
        return AnswerLabel(correct=correct, checker=Checker.JUDGE, detail=detail, judged_at=self.now())


def _judge_call(task: TaskContext, judge: Judge, winner: AgentAnswered, system: str) -> Call:
    prompt = task.recorded(prompts.judgement(question=task.question, answer=winner.text, criteria=judge.criteria))
    return Call(
        messages=chat_of_prompt(system, prompt.text),
        max_tokens=JUDGE_MAX_TOKENS,
        schema=rating_schema(RIGHT),
        temperature=0.0,
        seed=task.seed_of("judge"),
        thinking=False,
        stage="judge",
        work=WorkKind.ASSESS,
    )


def _level(text: str) -> int:
    document = read_document(text, rating_schema(RIGHT)).content
    numbers = document.get("r") if isinstance(document, dict) else None
    if not isinstance(numbers, list) or not isinstance(numbers[0], int | float):
        raise UnparsableOutput("the judgement is no number", problem="no number")
    return int(numbers[0])


async def same_meanings(task: TaskContext, answers: Sequence[str], kind: AnswerType) -> SameMeaning | None:
    """Return a judgement of which of `answers` mean the same; None where there is none to make, or it failed.

    Args:
        task: The task; its answer is degraded when texts could not be compared.
        answers: The answers as they are written.
        kind: Their type.
    """
    pairs = candidate_pairs(answers, kind)
    if not pairs:
        return None
    texts = sorted({text for pair in pairs for text in pair})
    try:
        completion = await task.model_clients.assessor().complete(_compare_call(task, texts), task.spend)
        groups = dict(zip(texts, _groups(completion.samples[0].text, len(texts)), strict=True))
    except MetacogError as error:
        task.degraded_reasons.append(f"{error.reason}: answers were not compared by meaning: {error.message}")
        return None
    return lambda a, b: groups.get(a, a) == groups.get(b, b)


def _compare_call(task: TaskContext, texts: Sequence[str]) -> Call:
    shown = [shortened(text, SHOWN_TOKENS)[0] for text in texts]
    prompt = task.recorded(prompts.same_meaning(question=task.question, answers=shown))
    return Call(
        messages=chat_of_prompt("", prompt.text),
        max_tokens=COMPARE_TOKENS + COMPARE_TOKENS_EACH * len(texts),
        schema=_groups_schema(len(texts)),
        temperature=0.0,
        seed=task.seed_of("compare"),
        thinking=False,
        stage="compare",
        work=WorkKind.ASSESS,
    )


def _groups_schema(count: int) -> Mapping[str, Any]:
    """Return the JSON schema of a judgement of `count` texts."""
    numbers = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": count - 1},
        "minItems": count - 1,
        "maxItems": count - 1,
    }
    return {"type": "object", "properties": {"same": numbers}, "required": ["same"], "additionalProperties": False}


def _groups(text: str, count: int) -> list[int]:
    """Return for each text the index of the first one that means the same.

    Raises:
        UnparsableOutput: When the judgement cannot be read.
    """
    document = read_document(text, _groups_schema(count)).content
    numbers = document.get("same") if isinstance(document, dict) else None
    if not isinstance(numbers, list) or len(numbers) != count - 1:
        raise UnparsableOutput("the judgement of meaning lists no numbers", problem="no numbers")
    groups = [0]
    for index, number in enumerate(numbers, start=1):
        groups.append(groups[int(number) - 1] if 1 <= number <= index else index)
    return groups
