"""What an exam shows: shares right by arm and kind, and the gains of System 2 by kind. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cli.exam.arms import SYSTEM_ONE, ArmKind, ExamArm
from cli.exam.journal import ExamJournal
from cli.exam.requests import AnswerOutcome, ExamQuestion
from cli.exam.tasks import kind_of
from evals.stats.chance import seeded
from evals.stats.gains import Conclusion, conclusion, paired_gain
from evals.stats.shares import Share, share
from kernel.learning.gains import Gain, LabelledPair, gains_by_kind
from kernel.values import value

ALL_KINDS = "all"


@value
class ArmResult:
    """A result is that of one arm on one kind, or on all kinds.

    Attributes:
        arm: Label of the arm.
        kind: The kind; `all` for all of them.
        asked: Questions [count].
        right: Right answers, of the right and the wrong ones.
        abstained: Questions without an answer, by decision [count].
        failed: Questions whose request failed [count].
        undecided: Answers that no rule can compare [count].
    """

    arm: str
    kind: str
    asked: int
    right: Share
    abstained: int
    failed: int
    undecided: int


@value
class ArmGain:
    """The gain of one strategy of System 2 over System 1 on one kind, or on all kinds.

    Attributes:
        arm: Label of the strategy's arm.
        kind: The kind; `all` for all of them.
        gain: The gain, and the gain drawn towards that of all kinds.
        low: Lower end of the gain's 95 % interval [-1..1]; None without labels for both.
        high: Upper end [-1..1].
        conclusion: What the interval allows to conclude.
    """

    arm: str
    kind: str
    gain: Gain
    low: float | None
    high: float | None
    conclusion: Conclusion


def results(questions: Sequence[ExamQuestion], journal: ExamJournal) -> Sequence[ArmResult]:
    """Return the result of each arm by kind, and over all kinds where there are several."""
    rows: list[ArmResult] = []
    for arm in dict.fromkeys(question.arm for question in questions):
        own = [question for question in questions if question.arm == arm]
        kinds = sorted({kind_of(question.item) for question in own})
        rows += [_result(arm, kind, [each for each in own if kind_of(each.item) == kind], journal) for kind in kinds]
        if len(kinds) > 1:
            rows.append(_result(arm, ALL_KINDS, own, journal))
    return rows


def _result(arm: ExamArm, kind: str, own: Sequence[ExamQuestion], journal: ExamJournal) -> ArmResult:
    answers = [journal.answers.get(question.token) for question in own]
    outcomes = [answer.outcome for answer in answers if answer is not None]
    marks = [journal.marks[question.token].right for question in own if question.token in journal.marks]
    return ArmResult(
        arm=arm.label,
        kind=kind,
        asked=len(outcomes),
        right=share(bool(right) for right in marks if right is not None),
        abstained=outcomes.count(AnswerOutcome.ABSTAINED),
        failed=outcomes.count(AnswerOutcome.FAILED),
        undecided=sum(right is None for right in marks),
    )


def gains(questions: Sequence[ExamQuestion], journal: ExamJournal, seed: int) -> Sequence[ArmGain]:
    """Return the gain of each strategy over System 1 by kind; none where System 1 or another strategy takes no part.

    Args:
        questions: All questions.
        journal: The journal, with the marks.
        seed: Seed of the resampling.

    Source:
        Ours (papers.md 5.4): on questions labelled for both, drawn towards the overall gain by ten pseudo-observations.
    """
    arms = dict.fromkeys(question.arm for question in questions)
    strategies = [arm for arm in arms if arm.kind is ArmKind.STRATEGY]
    one = next((arm for arm in strategies if arm.name == SYSTEM_ONE), None)
    if one is None:
        return []
    found = [_gains(arm, _pairs(questions, journal, one, arm), seed) for arm in strategies if arm != one]
    return [row for rows in found for row in rows]


def _pairs(
    questions: Sequence[ExamQuestion], journal: ExamJournal, one: ExamArm, two: ExamArm
) -> Sequence[LabelledPair]:
    """Return the questions with a mark for both arms."""
    marks: dict[tuple[ExamArm, str], bool] = {}
    kinds: dict[str, str] = {}
    for question in questions:
        mark = journal.marks.get(question.token)
        if mark is not None and mark.right is not None:
            marks[question.arm, question.item.id] = mark.right
            kinds[question.item.id] = kind_of(question.item)
    return [
        LabelledPair(kind=kinds[item], system_one=float(marks[one, item]), system_two=float(marks[two, item]))
        for item in kinds
        if (one, item) in marks and (two, item) in marks
    ]


def _gains(arm: ExamArm, pairs: Sequence[LabelledPair], seed: int) -> Sequence[ArmGain]:
    found = gains_by_kind(pairs)
    rows = [
        _row(arm, kind, gain, [pair for pair in pairs if pair.kind == kind], seed) for kind, gain in found.kinds.items()
    ]
    return [*rows, _row(arm, ALL_KINDS, found.overall, pairs, seed)] if len(rows) != 1 else rows


def _row(arm: ExamArm, kind: str, gain: Gain, pairs: Sequence[LabelledPair], seed: int) -> ArmGain:
    interval = paired_gain([pair.system_one for pair in pairs], [pair.system_two for pair in pairs], seeded(seed))
    return ArmGain(
        arm=arm.label, kind=kind, gain=gain, low=interval.low, high=interval.high, conclusion=conclusion(interval)
    )


def result_document(row: ArmResult) -> Mapping[str, Any]:
    """Describe a result as JSON."""
    return {
        "arm": row.arm,
        "kind": row.kind,
        "asked": row.asked,
        "marked": row.right.of,
        "right": row.right.count,
        "share_right": row.right.value,
        "low": row.right.interval.low if row.right.of else None,
        "high": row.right.interval.high if row.right.of else None,
        "abstained": row.abstained,
        "failed": row.failed,
        "undecided": row.undecided,
    }


def gain_document(row: ArmGain) -> Mapping[str, Any]:
    """Describe a gain as JSON."""
    return {
        "arm": row.arm,
        "kind": row.kind,
        **asdict(row.gain),
        "low": row.low,
        "high": row.high,
        "conclusion": row.conclusion.value,
        "decides": row.gain.decides,
    }
