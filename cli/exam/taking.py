"""Takes an exam: asks what is not answered yet, marks the answers, and sends the labels, all into the journal."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from metacog.delegation.v1.tasks_pb2 import NotLearnedReason
from metacog.delegation.v1.tasks_pb2 import SubmitFeedbackResponse as TaskFeedbackReply
from metacog.router.v1.feedback_pb2 import SubmitFeedbackResponse as RunFeedbackReply

from chassis.serving.wire import from_rest, word
from cli.answers.batch_lines import BatchRequest, BatchResult
from cli.answers.batch_sender import SendLimits, send
from cli.exam.arms import ArmKind
from cli.exam.journal import ExamJournal, Mark, SentLabel
from cli.exam.requests import (
    AnswerOutcome,
    AskLimits,
    ExamAnswer,
    ExamQuestion,
    answer_of,
    label_request,
    request_of,
)
from cli.terminal.client import Service, Unreachable
from evals.items import Item
from evals.scorers.answers import Known, ScoredAnswer, scored
from kernel.values import value

# Time that a reply may take beyond the time limit of its request [s].
GRACE_S = 10.0
LABEL_WITHIN_S = 60.0
# Requests in a row without a reply after which no more are sent [count].
MOST_UNANSWERED = 20
# A label's order matters to a profile: delegation gets one after another.
ONE_AT_A_TIME = 1


@value
class Services:
    """These services take part.

    Attributes:
        router: The router.
        delegation: The delegation service; None where no agent is asked.
    """

    router: Service
    delegation: Service | None = None

    def of(self, kind: ArmKind) -> Service:
        """Return the service that an arm of a kind is asked at."""
        if kind is not ArmKind.AGENT:
            return self.router
        assert self.delegation is not None, "agents are asked at delegation"
        return self.delegation


def left_of(questions: Sequence[ExamQuestion], journal: ExamJournal) -> Sequence[ExamQuestion]:
    """Return the questions without an answer; those that failed are among them, and an abstention is an answer."""
    return [
        question
        for question in questions
        if question.token not in journal.answers or journal.answers[question.token].outcome is AnswerOutcome.FAILED
    ]


def ask(
    left: Sequence[ExamQuestion],
    services: Services,
    asked: AskLimits,
    sent: SendLimits,
    answered: Callable[[ExamAnswer], None],
) -> None:
    """Ask questions, and call `answered` with what became of each.

    Args:
        left: The questions.
        services: Where they are asked.
        asked: Limits of each answer.
        sent: Limits of the requests.
        answered: Stores an answer.
    """
    for kinds in ((ArmKind.MODEL, ArmKind.STRATEGY), (ArmKind.AGENT,)):
        own = {question.token: question for question in left if question.arm.kind in kinds}
        if own:
            requests = [request_of(question, asked) for question in own.values()]
            _send_all(
                services.of(kinds[0]),
                requests,
                sent,
                lambda done, own=own: answered(  # type: ignore[misc]
                    answer_of(own[done.custom_id], done)
                ),
            )


def _send_all(
    service: Service, requests: Sequence[BatchRequest], limits: SendLimits, finished: Callable[[BatchResult], None]
) -> None:
    """Send requests, and call `finished` with each result.

    Raises:
        Unreachable: Many requests in a row had no reply; those that are left are not sent.
    """
    unanswered = 0

    def counted(done: BatchResult) -> None:
        nonlocal unanswered
        finished(done)
        unanswered = unanswered + 1 if done.status is None else 0
        if unanswered >= MOST_UNANSWERED:
            raise Unreachable(
                f"{unanswered} requests in a row had no reply of the {service.name} at {service.url}: "
                f"{done.error_message}; the same command continues"
            )

    try:
        asyncio.run(send(service.url, service.key, requests, limits, counted))
    except* Unreachable as group:
        raise group.exceptions[0] from None


def check_programs(items: Sequence[Item]) -> None:
    """Return if no task asks for a program, or programs can be run here.

    Raises:
        NotInstalled: There is a program to run, and this system has no sandbox.
    """
    from evals.program_checks import ProgramChecker

    if any(item.is_program for item in items):
        ProgramChecker()


def mark_all(questions: Sequence[ExamQuestion], journal: ExamJournal) -> None:
    """Mark the answers that have no mark yet; programs are run in the sandbox.

    Raises:
        NotInstalled: There is a program to run, and this system has no sandbox.
    """
    unmarked = [
        question
        for question in questions
        if question.token not in journal.marks and _is_answered(journal.answers.get(question.token))
    ]
    programs = [question for question in unmarked if question.item.is_program]
    for question in unmarked:
        if not question.item.is_program:
            journal.marked(_mark(question, scored(journal.answers[question.token].text, known_answer(question.item))))
    if programs:
        asyncio.run(_mark_programs(programs, journal))


def known_answer(item: Item) -> Known:
    """Return the known answer of a task."""
    return Known(
        answer=item.answer,
        answer_type=item.answer_type,
        aliases=tuple(item.aliases or ()),
        choices=tuple(item.choices or ()),
    )


def _mark(question: ExamQuestion, found: ScoredAnswer) -> Mark:
    """Return a mark: an answer that cannot be read is wrong, and one that no rule can compare is neither."""
    return Mark(token=question.token, right=found.right if found.decided else None, answer=found.answer)


async def _mark_programs(programs: Sequence[ExamQuestion], journal: ExamJournal) -> None:
    from evals.program_checks import ProgramChecker

    checker = ProgramChecker()
    for question in programs:
        text = journal.answers[question.token].text
        result = (await checker(question.item, {question.token: text}))[question.token]
        journal.marked(Mark(token=question.token, right=result["passed"], answer=text))


def _is_answered(answer: ExamAnswer | None) -> bool:
    return answer is not None and answer.outcome is AnswerOutcome.ANSWERED


@value
class UnsentLabel:
    """A label that a service did not accept.

    Attributes:
        arm: Label of the arm.
        item: Name of the task.
        error: Why.
    """

    arm: str
    item: str
    error: str


def send_labels(
    questions: Sequence[ExamQuestion], journal: ExamJournal, services: Services, sent: SendLimits, exam: str
) -> Sequence[UnsentLabel]:
    """Send the labels that no service has accepted yet; only right and wrong answers have one.

    A label is named after its question, so that sending it twice changes nothing.
    """
    unsent: list[UnsentLabel] = []
    for kinds in ((ArmKind.MODEL, ArmKind.STRATEGY), (ArmKind.AGENT,)):
        own = {each.token: each for each in questions if each.arm.kind in kinds and _has_label(each, journal)}
        if not own:
            continue
        concurrency = ONE_AT_A_TIME if ArmKind.AGENT in kinds else sent.concurrency
        limits = SendLimits(concurrency=concurrency, attempts=sent.attempts, timeout_s=LABEL_WITHIN_S)
        requests = [
            label_request(question, journal.answers[token], right=bool(journal.marks[token].right), exam=exam)
            for token, question in own.items()
        ]
        _send_all(services.of(kinds[0]), requests, limits, _accepted(own, journal, unsent))
    return unsent


def _has_label(question: ExamQuestion, journal: ExamJournal) -> bool:
    """Return whether a label is to be sent for a question."""
    mark, answer = journal.marks.get(question.token), journal.answers.get(question.token)
    is_marked = mark is not None and mark.right is not None
    return is_marked and answer is not None and bool(answer.record) and question.token not in journal.sent


def _accepted(
    own: Mapping[str, ExamQuestion], journal: ExamJournal, unsent: list[UnsentLabel]
) -> Callable[[BatchResult], None]:
    def finished(done: BatchResult) -> None:
        question = own[done.custom_id]
        if done.succeeded:
            try:
                journal.labelled(sent_label(question.arm.kind, done))
            except ValueError as error:
                unsent.append(UnsentLabel(arm=question.arm.label, item=question.item.id, error=str(error)))
        else:
            unsent.append(UnsentLabel(arm=question.arm.label, item=question.item.id, error=done.error_message))

    return finished


def sent_label(kind: ArmKind, done: BatchResult) -> SentLabel:
    """Return the accepted label of a reply: the router says whether it teaches, delegation why it does not.

    Raises:
        ValueError: The reply is none of the contract's.

    Example:
        >>> done = BatchResult(custom_id="t", digest="t", status=200, body={"teaches": False})
        >>> sent_label(ArmKind.MODEL, done)
        SentLabel(token='t', teaches=False, reason='may_not_teach')
        >>> done = BatchResult(custom_id="t", digest="t", status=200, body={"not_learned_reason": "frozen"})
        >>> sent_label(ArmKind.AGENT, done).reason
        'frozen'
    """
    if kind is ArmKind.AGENT:
        reason = word(NotLearnedReason, from_rest(done.body, TaskFeedbackReply).not_learned_reason)
    else:
        reason = "" if from_rest(done.body, RunFeedbackReply).teaches else "may_not_teach"
    return SentLabel(token=done.custom_id, teaches=not reason, reason=reason)
