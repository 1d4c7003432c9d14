"""This module computes the measures of counted questions: of one in an arbitration, or of thousands at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel.answers import AnswerComparison, Mathematics, compared
from kernel.arbitration.claims import ClaimShares
from kernel.arbitration.consensus import ConsensusChoice, consensus_choice
from kernel.arbitration.failures import FailureEvidence, failure_regimes, is_overconfident_error
from kernel.arbitration.information import Information, Leads, information, leads
from kernel.arbitration.modes import AnswerSource
from kernel.arbitration.tallies import Floats, Tally, is_already_canonical, stacked_tallies
from kernel.outcomes import Outcome
from services.arbiter.service.samples import AnswerForm, CountedSamples
from services.arbiter.service.values import Measures, SolverMeasures

NO_ARBITRATION = "there was no arbitration"
NO_VALID_ARBITER = "no arbitration sample holds a valid answer"
NO_VALID_SOLVER = "no solver sample holds a valid answer"
NO_SOLVERS = "there is no solver sample"
SOLVERS_AGREE = "the solvers' entropy is 0: there is nothing to compress"
FEWER_THAN_TWO = "fewer than two solvers gave valid answers"
NO_TRUTH = "the right answer is not given"
NO_ANSWER = "there is no answer"
NOT_DECIDABLE = "equality cannot tell whether this answer is right"
NOT_ASKED = "embedding measures were not asked for"
TRACE_FIELDS = ("novelty", "redundancy", "semantic_share", "symbolic_share", "untraced_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement is one question to be measured.

    Attributes:
        counted: Its samples by their answers.
        form: Form of the answers.
        mathematics: Compares expressions.
        truth: The right answer; None where it is not known.
        aliases: Other spellings of it; they decide what is right, and never which samples count as one answer.
        without_arbiter: Source of the answer where the solvers' vote decides.
        traced: The embedding measures, or the reason why there are none.
    """

    counted: CountedSamples
    form: AnswerForm
    mathematics: Mathematics
    truth: str | None = None
    aliases: Sequence[str] = ()
    without_arbiter: AnswerSource = AnswerSource.SOLVER_FALLBACK
    traced: ClaimShares | str = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds are the bounds of novelty and overconfidence."""

    novel_below: float
    overconfident_above: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestions:
    """This value is a measured question."""

    choice: ConsensusChoice | None
    tally: Tally
    measures: Measures

    @property
    def outcome(self) -> Outcome:
        """Return whether there is an answer."""
        return Outcome.ANSWERED if self.choice else Outcome.ABSTAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row is the place of one question in the arrays."""

    at: int
    info: Information
    by_solver: Leads
    names: tuple[str, ...]

    def number(self, measure: Floats) -> float | None:
        """Return a measure of this question; None where it is undefined."""
        level = float(measure[self.at])
        return None if math.isnan(level) else round(level, 12)


def judged(questions: Sequence[Judgement], thresholds: Thresholds) -> list[JudgedQuestions]:
    """Measure all `questions`, computed together."""
    tallies = [question.counted.tally for question in questions]
    arrays = stacked_tallies(tallies)
    info = information(arrays)
    by_solver = leads(arrays.solvers, np.zeros_like(arrays.solvers))
    return [
        _judged(question, tally, _Row(at=at, info=info, by_solver=by_solver, names=tally.answers), thresholds)
        for at, (question, tally) in enumerate(zip(questions, tallies, strict=True))
    ]


def _judged(question: Judgement, tally: Tally, row: _Row, thresholds: Thresholds) -> JudgedQuestions:
    choice = consensus_choice(tally.solver, tally.arbiter, question.without_arbiter)
    right = _Correctness(question)
    judged_answer = right.of(choice.answer) if choice else AnswerComparison(right=None)
    correct = judged_answer.right
    vote = consensus_choice(tally.solver, {})
    traced = question.traced if isinstance(question.traced, ClaimShares) else None
    evidence = FailureEvidence(
        entropy_solver=row.number(row.info.entropy_solver),
        entropy_arbiter=row.number(row.info.entropy_arbiter),
        solver_correct=right(vote.answer) if vote else None,
        correct=correct,
        critique_novelty=traced.critique_novelty if traced else None,
    )
    measures = Measures(
        entropy_solver=evidence.entropy_solver,
        entropy_arbiter=evidence.entropy_arbiter,
        entropy_reduction=row.number(row.info.entropy_reduction),
        compression=row.number(row.info.compression),
        solver_invalid_share=row.number(row.info.solver_invalid_share),
        arbiter_invalid_share=row.number(row.info.arbiter_invalid_share),
        **_trace_measures(traced, thresholds),
        correct=correct,
        unit_assumed=judged_answer.unit_assumed,
        overconfident_error=is_overconfident_error(
            correct, choice.confidence if choice else None, thresholds.overconfident_above
        ),
        solvers=_by_solver(tally, row, right, thresholds.overconfident_above),
        solver_divergence=row.number(row.info.solver_divergence),
        sampling_divergence=row.number(row.info.sampling_divergence),
        structured_disagreement=_structured(row),
        failure_regimes=failure_regimes(evidence),
        undefined_reasons=_reasons(question, tally, row, choice, correct),
    )
    return JudgedQuestions(choice=choice, tally=tally, measures=measures)


class _Correctness:
    """The correctness of answers of one question is judged once for each answer."""

    def __init__(self, question: Judgement) -> None:
        self._question = question
        self._known: dict[str, AnswerComparison] = {}

    def __call__(self, answer: str) -> bool | None:
        return self.of(answer).right

    def of(self, answer: str) -> AnswerComparison:
        """Return whether an answer is right, and what was assumed."""
        if answer not in self._known:
            spelling = self._question.counted.spelled.get(answer, answer)
            is_known = self._question.truth is not None
            self._known[answer] = _compared(spelling, self._question) if is_known else AnswerComparison(right=None)
        return self._known[answer]


def _compared(answer: str, question: Judgement) -> AnswerComparison:
    assert question.truth is not None
    form = question.form
    if (
        not question.aliases
        and is_already_canonical(answer, form.answer_type)
        and is_already_canonical(question.truth, form.answer_type)
    ):
        return AnswerComparison(right=answer == question.truth)
    return compared(
        answer,
        question.truth,
        form.answer_type,
        options=form.options,
        aliases=question.aliases,
        mathematics=question.mathematics,
    )


def _by_solver(tally: Tally, row: _Row, right: _Correctness, above: float) -> list[SolverMeasures]:
    measures = []
    for solver in range(len(tally.solvers)):
        place = int(row.by_solver.answer[row.at, solver])
        if place < 0:
            measures.append(SolverMeasures(solver=solver))
            continue
        answer, probability = row.names[place], float(row.by_solver.share[row.at, solver])
        correct = right(answer)
        measures.append(
            SolverMeasures(
                solver=solver,
                answer=answer,
                probability=probability,
                correct=correct,
                overconfident_error=is_overconfident_error(correct, probability, above),
            )
        )
    return measures


def _structured(row: _Row) -> bool | None:
    return None if math.isnan(row.info.solver_divergence[row.at]) else bool(row.info.structured[row.at])


def _trace_measures(traced: ClaimShares | None, thresholds: Thresholds) -> Mapping[str, float | None]:
    if traced is None:
        return {}
    levels = {
        "novelty": traced.novelty,
        "redundancy": traced.redundancy,
        "semantic_share": traced.semantic,
        "symbolic_share": traced.symbolic,
        "untraced_share": traced.untraced,
    }
    rounded = {name: None if level is None else round(level, 12) for name, level in levels.items()}
    return {**rounded, "novelty_threshold": None if traced.novelty is None else thresholds.novel_below}


def _reasons(
    question: Judgement, tally: Tally, row: _Row, choice: ConsensusChoice | None, correct: bool | None
) -> dict[str, str]:
    """Return why each undefined measure is undefined, by its name."""
    drawn = bool(tally.solver) or tally.solver_invalid > 0
    arbitrated = bool(tally.arbiter) or tally.arbiter_invalid > 0
    no_solver = "" if tally.solver else (NO_VALID_SOLVER if drawn else NO_SOLVERS)
    no_arbiter = "" if tally.arbiter else (NO_VALID_ARBITER if arbitrated else NO_ARBITRATION)
    agreed = "" if (row.number(row.info.entropy_solver) or 0.0) > 0 else SOLVERS_AGREE
    apart = FEWER_THAN_TWO if math.isnan(row.info.solver_divergence[row.at]) else ""
    unjudged = NO_TRUTH if question.truth is None else NO_ANSWER if choice is None else NOT_DECIDABLE
    reasons = {
        "entropy_solver": no_solver,
        "entropy_arbiter": no_arbiter,
        "entropy_reduction": no_solver or no_arbiter,
        "compression": no_solver or no_arbiter or agreed,
        "solver_invalid_share": "" if drawn else NO_SOLVERS,
        "arbiter_invalid_share": "" if arbitrated else NO_ARBITRATION,
        "solver_divergence": apart,
        "sampling_divergence": apart,
        "structured_disagreement": apart,
        "correct": unjudged if correct is None else "",
        "overconfident_error": unjudged if correct is None else "",
        **_untraced(question.traced),
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _untraced(traced: ClaimShares | str) -> dict[str, str]:
    if isinstance(traced, str):
        return dict.fromkeys(TRACE_FIELDS, traced)
    shares = "" if traced.novelty is not None else "the solvers or the final stage made no claims"
    pairs = "" if traced.redundancy is not None else "there are fewer than two claims"
    return {name: pairs if name == "redundancy" else shares for name in TRACE_FIELDS}
