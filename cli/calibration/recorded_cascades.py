"""Reads labelled answers of several sources to the same questions, from the router's runs or from JSON lines.

Of a run with votes it is known what each source answered. Where the answer was right, so were the votes for it, and all
others were wrong; where it was wrong, only the votes for it and invalid ones are known to be wrong. A stronger model's
answer has the label of its run. Runs of one question belong together, whoever answered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from metacog.arbiter.v1.vote_pb2 import VoteCast, VoteMode
from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED
from metacog.common.v1.answer_pb2 import AnswerType as StatedType
from metacog.router.v1.router_pb2 import Run
from pydantic import Field

from chassis.json_text import InvalidJson, loads
from chassis.serving.wire import from_plain, optional, word
from cli.terminal.client import Service
from cli.terminal.exits import UnusableInput
from kernel.answers import AnswerType, cluster, listed_options
from kernel.errors import MalformedRequest, MetacogError
from kernel.policy import VOTING, Strategy
from kernel.statistics.samples import RIGHT
from kernel.values import value
from kernel.votes.cascade_choice import RecordedAnswer, RecordedQuestion
from kernel.votes.drafts import draft_answer, draft_type
from sandbox.client_mathematics import client_mathematics

SYSTEM_ONE = Strategy.SYSTEM_ONE.value
# Stage of a run's usage that the stronger model's answer is counted under.
ESCALATION = "escalation"
# An agent's name begins with this in the name of a source; a mode that is not the source's usual one ends it.
AGENT = "agent "
PROGRAM, REASONED = "PROGRAM", "REASONED"
MAX_PAGE = 200
NO_NAMES: Mapping[str, str] = MappingProxyType({})
# Sources below which a question says nothing about agreement [count].
LEAST_SOURCES = 2


@value
class CascadeSample:
    """The questions that a cascade's rule is chosen from.

    Attributes:
        questions: What each source answered to each labelled question.
        costs: Mean recorded cost of an answer, by source, cheapest first, unknown ones (None) last.
        left_out: Labelled runs or questions that cannot be used, by reason [count].
    """

    questions: Sequence[RecordedQuestion]
    costs: Mapping[str, float | None]
    left_out: Mapping[str, int]


@value
class WrittenAnswer:
    """An answer as a line of a file has it.

    Attributes:
        answer: The answer alone; None: an invalid one.
        correct: Label or score of it [0..1]; None: unknown.
        cost: What it cost [>= 0]; None: unknown.
    """

    answer: str | None = None
    correct: bool | Annotated[float, Field(ge=0, le=1)] | None = None
    cost: Annotated[float, Field(ge=0)] | None = None


@value
class WrittenQuestion:
    """A question as a line of a file has it: the answers by source, and their type."""

    answers: Annotated[Mapping[str, WrittenAnswer], Field(min_length=1)]
    answer_type: AnswerType = AnswerType.TEXT


@value
class _Given:
    """What one source answered, before it is compared with the others."""

    answer: str | None
    is_right: bool | None = None
    cost: float | None = None


def read_questions(file: Path) -> CascadeSample:
    """Read the labelled answers of a file, one question a line.

    Raises:
        UnusableInput: The file is invalid; the message names the line and the reason.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UnusableInput(f"{file} cannot be read: {error.strerror}", file=str(file)) from error
    numbered = [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    return _sample([_question_of_line(line, place) for place, line in numbered], Counter())


def recorded_questions(router: Service, *, limit: int) -> CascadeSample:
    """Return the questions of the newest labelled runs, at most `limit` runs.

    Raises:
        Unreachable: The router cannot be reached.
        ServiceError: The router returned an error.
    """
    pages = router.pages("/v1/runs", "runs", Run, page_size=min(limit, MAX_PAGE), judged=True)
    return questions_of_runs(reply.message for reply in islice(pages, limit))


def questions_of_runs(runs: Iterable[Run]) -> CascadeSample:
    """Return the questions of labelled runs."""
    left_out = Counter[str]()
    together: dict[str, list[Run]] = {}
    for run in runs:
        problem = _problem(run)
        if problem:
            left_out[problem] += 1
        else:
            together.setdefault(run.messages_digest, []).append(run)
    names = _catalogue_names([run for each in together.values() for run in each])
    return _sample([_question_of_runs(each, names) for each in together.values()], left_out)


def _catalogue_names(runs: Iterable[Run]) -> Mapping[str, str]:
    """Return the name in the catalogue by the name that a server replies with; without those that several share."""
    known: dict[str, set[str]] = {}
    for run in runs:
        if run.strategy == SYSTEM_ONE and run.catalogue_name:
            known.setdefault(run.model, set()).add(run.catalogue_name)
    return {replied: next(iter(names)) for replied, names in known.items() if len(names) == 1}


def source_name(vote: VoteCast, catalogue_names: Mapping[str, str] = NO_NAMES) -> str:
    """Return the name of a vote's source: its model's where no agent is named.

    A source that is named answers with its reasoning, and the default model directly; another mode ends the name.

    Args:
        vote: The vote.
        catalogue_names: Name in the catalogue by the name that the model's server replies with.

    Example:
        >>> source_name(VoteCast(source_model="small", model="small", mode=VoteMode.VOTE_MODE_REASONED))
        'small'
        >>> source_name(VoteCast(agent="ada", model="small", mode=VoteMode.VOTE_MODE_PROGRAM))
        'agent ada PROGRAM'
    """
    named, mode = vote.source_model, word(VoteMode, vote.mode)
    bare = f"{AGENT}{vote.agent}" if vote.agent else named or catalogue_names.get(vote.model, vote.model)
    is_default = not vote.agent and not named
    return f"{bare} {mode}" if mode == PROGRAM or (is_default and mode == REASONED) else bare


def policy_source(name: str) -> str | Mapping[str, str]:
    """Return a source as a row of the policy table has it.

    Example:
        >>> policy_source("small"), policy_source("agent ada PROGRAM")
        ('small', {'agent': 'ada', 'mode': 'PROGRAM'})
    """
    bare = name.removesuffix(f" {PROGRAM}").removesuffix(f" {REASONED}")
    mode = {"mode": name.removeprefix(bare).strip()} if bare != name else {}
    if bare.startswith(AGENT):
        return {"agent": bare.removeprefix(AGENT), **mode}
    return {"model": bare, **mode} if mode else bare


def _problem(run: Run) -> str:
    """Return why a run cannot be used; empty when it can."""
    if _label(run) is None:
        return "no label that teaches"
    if run.outcome != OUTCOME_ANSWERED:
        return "no answer"
    if run.strategy in VOTING:
        return "" if run.vote.votes else "no votes"
    return "" if run.strategy == SYSTEM_ONE and run.model else "another strategy"


def _label(run: Run) -> bool | None:
    """Return whether a run's answer is right, by the first label that teaches."""
    return next((each.score >= RIGHT for each in run.feedback if each.teaches), None)


def _question_of_runs(runs: Sequence[Run], names: Mapping[str, str]) -> RecordedQuestion | None:
    answer_type, options = _form(runs)
    given: dict[str, _Given] = {}
    labels: dict[str, bool] = {}
    for run in runs:
        is_right = bool(_label(run))
        if run.strategy == SYSTEM_ONE:
            found = draft_answer(run.answer, answer_type, options=options)
            name = run.catalogue_name or names.get(run.model, run.model)
            given[name] = _Given(answer=found, is_right=is_right, cost=optional(run.usage, "cost"))
            continue
        for name, one in _votes(run, names).items():
            given.setdefault(name, one)
        if run.escalation.answered:
            found = draft_answer(run.answer, answer_type, options=options)
            spent = run.usage.stages.get(ESCALATION)
            cost = None if spent is None else optional(spent, "cost")
            given[run.escalation.model] = _Given(answer=found, is_right=is_right, cost=cost)
        elif run.vote.groups:
            labels[_group_answer(run, 0)] = is_right
    return _compared(given, labels, answer_type, options)


def _form(runs: Sequence[Run]) -> tuple[AnswerType, Sequence[str]]:
    """Return the type of the answers to a question, and the options that it lists."""
    question = runs[0].messages[-1].content if runs[0].messages else ""
    options = listed_options(question)
    stated = next((word(StatedType, run.vote.answer_type) for run in runs if run.strategy in VOTING), "")
    if stated in AnswerType.__members__:
        return AnswerType(stated), options
    return draft_type(question, runs[0].answer, options=options).answer_type, options


def _votes(run: Run, names: Mapping[str, str]) -> Mapping[str, _Given]:
    """Return the first vote of each source."""
    group_of = {index: place for place, group in enumerate(run.vote.groups) for index in group.votes}
    found: dict[str, _Given] = {}
    for vote in run.vote.votes:
        place = group_of.get(vote.index)
        answer = None if place is None else _group_answer(run, place)
        found.setdefault(source_name(vote, names), _Given(answer=answer))
    return found


def _group_answer(run: Run, place: int) -> str:
    """Return the answer of a group; where contents are not stored, a name that no other run has."""
    return run.vote.groups[place].answer or f"{run.run_id} {place}"


def _compared(
    given: Mapping[str, _Given], labels: Mapping[str, bool], answer_type: AnswerType, options: Sequence[str]
) -> RecordedQuestion | None:
    """Return the answers under keys, with what the labels say about each; None where comparing takes too long."""
    texts = dict.fromkeys([*(one.answer for one in given.values() if one.answer is not None), *labels])
    keys = {text: text for text in texts}
    mathematics = client_mathematics()
    for number, equal in enumerate(cluster(list(texts), answer_type, options=options, mathematics=mathematics)):
        keys.update({text: f"answer {number}" for text in texts if text.strip() in equal.spellings})
    if mathematics.undecided:
        return None
    known = {keys[text]: is_right for text, is_right in labels.items()}
    for one in given.values():
        if one.answer is not None and one.is_right is not None:
            known[keys[one.answer]] = one.is_right or known.get(keys[one.answer], False)
    found = {}
    for name, one in given.items():
        key = None if one.answer is None else keys[one.answer]
        is_right = one.is_right
        if is_right is None:
            is_right = False if key is None else known.get(key, False if any(known.values()) else None)
        found[name] = RecordedAnswer(key=key, is_right=is_right, cost=one.cost)
    return found


def _question_of_line(line: bytes, place: str) -> RecordedQuestion | None:
    try:
        document = loads(line)
        if not isinstance(document, dict):
            raise MalformedRequest("it is not an object")
        content = {name: document[name] for name in ("answers", "answer_type") if name in document}
        written = from_plain(content, WrittenQuestion)
    except (InvalidJson, MetacogError) as error:
        raise UnusableInput(f"{place}: {error}", place=place) from error
    given = {
        name: _Given(answer=one.answer, is_right=None if one.correct is None else one.correct >= RIGHT, cost=one.cost)
        for name, one in written.answers.items()
    }
    return _compared(given, {}, written.answer_type, ())


def _sample(compared: Sequence[RecordedQuestion | None], left_out: Counter[str]) -> CascadeSample:
    """Return the questions that two sources or more answered, each answer with its own or its source's mean cost."""
    questions = [question for question in compared if question is not None]
    if len(questions) < len(compared):
        left_out["questions whose expressions take too long to compare"] += len(compared) - len(questions)
    used = [question for question in questions if len(question) >= LEAST_SOURCES]
    if len(used) < len(questions):
        left_out["questions that one source alone answered"] += len(questions) - len(used)
    paid: dict[str, list[float]] = {}
    for question in questions:
        for name, one in question.items():
            paid.setdefault(name, []).extend([] if one.cost is None else [one.cost])
    means = {name: sum(costs) / len(costs) if costs else None for name, costs in paid.items()}
    return CascadeSample(
        questions=[{name: _with_cost(one, means[name]) for name, one in question.items()} for question in used],
        costs=dict(sorted(means.items(), key=lambda entry: (entry[1] is None, entry[1] or 0, entry[0]))),
        left_out=dict(sorted(left_out.items())),
    )


def _with_cost(one: RecordedAnswer, mean: float | None) -> RecordedAnswer:
    return one if one.cost is not None else RecordedAnswer(key=one.key, is_right=one.is_right, cost=mean)
