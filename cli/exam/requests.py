"""The requests of an exam: one for each arm and task, and what is read off the reply."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from json import dumps
from typing import Any

from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED
from metacog.common.v1.envelope_pb2 import Usage
from metacog.delegation.v1.tasks_pb2 import TaskFinished
from metacog.router.v1.router_pb2 import Run

from chassis.serving.wire import from_rest, optional
from cli.answers.batch_lines import BatchRequest, BatchResult
from cli.exam.arms import ArmKind, ExamArm
from evals import prompts
from evals.items import Item
from kernel.policy import VOTING
from kernel.seeds import derived_seed
from kernel.values import value

CHAT, TASKS, FEEDBACK = "/v1/chat/completions", "/v1/tasks", "/v1/feedback"
TOKEN_LENGTH = 32
# Strategies that ask for votes.
VOTED = frozenset[str](VOTING)


class AnswerOutcome(StrEnum):
    """An outcome is what became of one request of an exam."""

    ANSWERED = "ANSWERED"
    ABSTAINED = "ABSTAINED"
    FAILED = "FAILED"


@value
class ExamQuestion:
    """An exam question is one task for one arm.

    Attributes:
        arm: Who is asked.
        item: The task.
        token: Identifies request and label, so that a repetition of either changes nothing.
    """

    arm: ExamArm
    item: Item
    token: str


@value
class ExamAnswer:
    """An exam answer is what became of one question; the journal stores it.

    Attributes:
        token: Token of the question.
        arm: Label of the arm.
        item: Name of the task.
        outcome: What became of it.
        record: Name of the run, or of the task at delegation, which is labelled; empty without one.
        text: The answer as it is written.
        error: Why there is no answer; empty with one.
        generations: Generations that the reply reports [count].
        prompt_tokens: Tokens that were read [count].
        completion_tokens: Tokens that were generated [count].
        cost: Cost [currency of the prices]; None where it is unknown.
    """

    token: str
    arm: str
    item: str
    outcome: AnswerOutcome
    record: str = ""
    text: str = ""
    error: str = ""
    generations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


@value
class AskLimits:
    """These limits hold for each request.

    Attributes:
        max_tokens: Tokens of each answer [count]; 0: the services' own limit.
        timeout_ms: Time of each answer [ms].
        seed: Seed that the seeds of the requests are derived from.
        dimensions: Dimensions that delegation knows: a task of another kind is classified by the service.
        all_votes: Whether votes are asked for until the last, so that labels say what more votes are worth.
    """

    max_tokens: int
    timeout_ms: int
    seed: int
    dimensions: frozenset[str] = frozenset()
    all_votes: bool = False


def questions(journal_id: str, arms: Sequence[ExamArm], items: Sequence[Item]) -> Sequence[ExamQuestion]:
    """Return every question, task by task, so that an exam that is cut short is balanced."""
    return [
        ExamQuestion(arm=arm, item=item, token=token_of(journal_id, arm.label, item.id))
        for item in items
        for arm in arms
    ]


def token_of(journal_id: str, arm: str, item: str) -> str:
    """Return the token of one question of the exam in one journal."""
    return sha256(dumps([journal_id, arm, item]).encode()).hexdigest()[:TOKEN_LENGTH]


def request_of(question: ExamQuestion, limits: AskLimits) -> BatchRequest:
    """Return the request for a question: to the router, or for an agent to delegation."""
    is_agent = question.arm.kind is ArmKind.AGENT
    body = _task_body(question, limits) if is_agent else _chat_body(question, limits)
    return BatchRequest(custom_id=question.token, url=TASKS if is_agent else CHAT, body=body, digest=question.token)


def prompt_text(question: ExamQuestion) -> str:
    """Return the text that an arm is asked by."""
    if question.arm.kind is ArmKind.AGENT:  # delegation takes the form of the answer, and asks for it itself
        return prompts.task(question.item).text
    return prompts.question(question.item).text


def _chat_body(question: ExamQuestion, limits: AskLimits) -> Mapping[str, Any]:
    own: dict[str, Any] = {
        "request_id": question.token,
        "fallback": False,
        "envelope": {"timeout_ms": limits.timeout_ms},
    }
    if limits.all_votes and question.arm.name in VOTED:
        own["vote"] = {"ask_all": True}
    if not question.item.is_program:
        own["answer_type"] = question.item.answer_type.value
    return {
        "model": question.arm.model,
        "messages": [{"role": "user", "content": prompt_text(question)}],
        "seed": _seed(question, limits),
        **({"max_tokens": limits.max_tokens} if limits.max_tokens else {}),
        "metacog": own,
    }


def _task_body(question: ExamQuestion, limits: AskLimits) -> Mapping[str, Any]:
    """Return a task for one agent alone; it rates itself first, so that labels show what its ratings are worth."""
    takes = list(question.item.takes)
    return {
        "question": prompt_text(question),
        "answer_type": question.item.answer_type.value,
        "agents": [question.arm.name],
        "first_agent": question.arm.name,
        "seed": _seed(question, limits),
        "request_id": question.token,
        "envelope": {"timeout_ms": limits.timeout_ms},
        **({"dimensions": takes} if limits.dimensions.issuperset(takes) else {}),
        **({"answer_max_tokens": limits.max_tokens} if limits.max_tokens else {}),
    }


def _seed(question: ExamQuestion, limits: AskLimits) -> int:
    return derived_seed(limits.seed, "exam", question.arm.label, question.item.id)


def answer_of(question: ExamQuestion, result: BatchResult) -> ExamAnswer:
    """Return what became of a question."""
    names: dict[str, Any] = {"token": question.token, "arm": question.arm.label, "item": question.item.id}
    if not result.succeeded:
        return ExamAnswer(**names, outcome=AnswerOutcome.FAILED, error=result.error_message)
    try:
        if question.arm.kind is ArmKind.AGENT:
            return _answer_of_task(names, from_rest(result.body, TaskFinished))
        return _answer_of_run(names, from_rest(result.explanation, Run), result.chat_text)
    except ValueError as error:
        return ExamAnswer(**names, outcome=AnswerOutcome.FAILED, error=str(error))


def _answer_of_task(names: Mapping[str, Any], task: TaskFinished) -> ExamAnswer:
    answered = task.outcome == OUTCOME_ANSWERED
    return _answer(names, task.usage, answered=answered, record=task.task_id, text=task.answer_text)


def _answer_of_run(names: Mapping[str, Any], run: Run, text: str) -> ExamAnswer:
    """Return the answer of a chat; one that the operator's promise withholds is labelled all the same."""
    withheld = run.promise.withheld
    answered = bool(withheld) or run.outcome == OUTCOME_ANSWERED
    return _answer(names, run.usage, answered=answered, record=run.run_id, text=withheld or text)


def _answer(names: Mapping[str, Any], usage: Usage, *, answered: bool, record: str, text: str) -> ExamAnswer:
    return ExamAnswer(
        **names,
        outcome=AnswerOutcome.ANSWERED if answered else AnswerOutcome.ABSTAINED,
        record=record,
        text=text if answered else "",
        generations=usage.generations,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=optional(usage, "cost"),
    )


def label_request(question: ExamQuestion, answer: ExamAnswer, *, right: bool, exam: str) -> BatchRequest:
    """Return the request that labels an answer: its run at the router, or an agent's task at delegation."""
    body: dict[str, Any] = {"feedback_id": question.token, "correct": right, "note": exam}
    if question.arm.kind is ArmKind.AGENT:
        body["task_id"] = answer.record
    else:
        body |= {"run_id": answer.record, "origin": "EXAM"}
    return BatchRequest(custom_id=question.token, url=FEEDBACK, body=body, digest=question.token)
