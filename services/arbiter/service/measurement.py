"""This use case measures samples that exist, without a model call."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from chassis.clock import milliseconds_since
from chassis.errors import RequestOverLimit
from kernel.answers.answer_type_inference import type_of_answers
from kernel.arbitration.claims import ClaimShares
from kernel.arbitration.defaults import NOVEL_BELOW, OVERCONFIDENT
from kernel.arbitration.modes import AnswerSource
from kernel.errors import MalformedRequest
from kernel.values import value
from sandbox.mathematics import LimitedMathematics, MathematicsSource
from services.arbiter.service.claim_tracing import QuestionClaims, Tracer
from services.arbiter.service.measures import NOT_ASKED, JudgedQuestions, Judgement, Thresholds, judged
from services.arbiter.service.samples import AnswerForm, CountedSamples, counted
from services.arbiter.service.values import (
    MOST_QUESTIONS,
    MeasuredQuestion,
    MeasureRequest,
    MeasureResponse,
    Measures,
    MeasureSummary,
    SampledQuestion,
)

# Time that mathematical expressions of one request may take together [s].
COMPARING_SECONDS = 30.0
NO_TEXTS = "no texts of solvers and of a final stage are given"
# Measures whose mean over a batch is meaningful.
AVERAGED = (
    "entropy_solver",
    "entropy_arbiter",
    "entropy_reduction",
    "compression",
    "solver_invalid_share",
    "arbiter_invalid_share",
    "novelty",
    "redundancy",
    "semantic_share",
    "symbolic_share",
    "untraced_share",
    "correct",
    "overconfident_error",
    "solver_divergence",
    "sampling_divergence",
    "structured_disagreement",
)


@value
class MeasureLimits:
    """These limits are the most that one request may hold.

    Attributes:
        samples: Samples of one question, solvers' or arbiter's [count].
        solvers: Solvers of one question [count].
    """

    samples: int = 4_096
    solvers: int = 64


async def measure(
    request: MeasureRequest, *, tracer: Tracer, most: MeasureLimits, calculator: MathematicsSource
) -> MeasureResponse:
    """Measure the question, or each in the batch, computed together.

    Raises:
        MalformedRequest: For a batch beside a question, or indices that fit no samples.
        RequestOverLimit: For too many questions, samples or solvers.
    """
    started_at = time.monotonic()
    questions = _questions(request, most)
    thresholds = thresholds_of(request.novelty_threshold, request.overconfidence_threshold)
    traces = await _traces(request, questions, tracer, thresholds)
    until = time.monotonic() + COMPARING_SECONDS
    mathematics = partial(calculator.within, lambda: until - time.monotonic())
    results = await calculator.run(_measured, questions, traces, thresholds, mathematics)
    duration_ms = milliseconds_since(started_at)
    if request.batch:
        summary = _summary([question.truth is not None for question in questions], results)
        return MeasureResponse(batch=results, summary=summary, duration_ms=duration_ms)
    return _single_response(results[0], duration_ms)


def thresholds_of(novelty: float | None, overconfidence: float | None) -> Thresholds:
    """Return the bounds of novelty and overconfidence: the request's, else the defaults."""
    return Thresholds(
        novel_below=NOVEL_BELOW if novelty is None else novelty,
        overconfident_above=OVERCONFIDENT if overconfidence is None else overconfidence,
    )


def _questions(request: MeasureRequest, most: MeasureLimits) -> Sequence[SampledQuestion]:
    named = {part.name for part in fields(SampledQuestion)} - {"id"}
    single = SampledQuestion(**{name: getattr(request, name) for name in named})
    beside = sorted(name for name in named if request.batch and getattr(single, name) not in (None, (), []))
    if beside:
        message = (
            f"give either a batch or one question, not both; with a batch, {beside[0]} belongs to each of its questions"
        )
        raise MalformedRequest(message, field=beside[0])
    if len(request.batch) > MOST_QUESTIONS:
        message = f"batch: at most {MOST_QUESTIONS} questions, not {len(request.batch)}"
        raise RequestOverLimit(message, field="batch", limit=str(MOST_QUESTIONS))
    questions = request.batch or [single]
    for question in questions:
        _check(question, most)
    return questions


def _check(question: SampledQuestion, most: MeasureLimits) -> None:
    name = f"question {question.id!r}: " if question.id else ""
    drawn = len(question.solver_answers), len(question.arbiter_answers)
    if not any(drawn):
        raise MalformedRequest(f"{name}give solver_answers or arbiter_answers", field="solver_answers")
    if max(drawn) > most.samples:
        message = f"{name}at most {most.samples} samples, not {max(drawn)}"
        raise RequestOverLimit(message, field="solver_answers", limit=str(most.samples))
    if question.solver_indices and len(question.solver_indices) != drawn[0]:
        message = f"{name}solver_indices: {len(question.solver_indices)} for {drawn[0]} solver_answers"
        raise MalformedRequest(message, field="solver_indices")
    if max(question.solver_indices, default=0) >= most.solvers:
        message = f"{name}at most {most.solvers} solvers, not {max(question.solver_indices) + 1}"
        raise RequestOverLimit(message, field="solver_indices", limit=str(most.solvers))


async def _traces(
    request: MeasureRequest, questions: Sequence[SampledQuestion], tracer: Tracer, thresholds: Thresholds
) -> list[ClaimShares | str]:
    if request.embedding_measures is False:
        return [NOT_ASKED] * len(questions)
    with_texts = [at for at, one in enumerate(questions) if one.solver_traces and (one.arbiter_texts or one.critiques)]
    found = await tracer.trace([_claim_texts(questions[at]) for at in with_texts], below=thresholds.novel_below)
    by_place: Mapping[int, ClaimShares | str] = dict(zip(with_texts, found, strict=True))
    return [by_place.get(at, NO_TEXTS) for at in range(len(questions))]


def _claim_texts(question: SampledQuestion) -> QuestionClaims:
    return QuestionClaims(
        solver_traces=question.solver_traces,
        critiques=question.critiques,
        final=question.arbiter_texts or question.critiques,
        every=(*question.solver_traces, *question.critiques, *question.arbiter_texts),
    )


def _measured(
    questions: Sequence[SampledQuestion],
    traces: Sequence[ClaimShares | str],
    thresholds: Thresholds,
    within: Callable[[], LimitedMathematics],
) -> list[MeasuredQuestion]:
    judgements = [_judgement(question, found, within()) for question, found in zip(questions, traces, strict=True)]
    results = judged(judgements, thresholds)
    return [_result(*each) for each in zip(questions, judgements, results, strict=True)]


def _judgement(question: SampledQuestion, traced: ClaimShares | str, mathematics: LimitedMathematics) -> Judgement:
    answers = (*question.solver_answers, *question.arbiter_answers)
    form = AnswerForm(answer_type=question.answer_type or type_of_answers(answers).answer_type)
    return Judgement(
        counted=_counted(question, form, mathematics),
        form=form,
        truth=question.truth,
        aliases=question.truth_aliases,
        without_arbiter=AnswerSource.SOLVER_FALLBACK if question.arbiter_answers else AnswerSource.SOLVER_VOTE,
        traced=traced,
        mathematics=mathematics,
    )


def _counted(question: SampledQuestion, form: AnswerForm, mathematics: LimitedMathematics) -> CountedSamples:
    solvers = max(question.solver_indices, default=0) + 1
    owners = question.solver_indices or [0] * len(question.solver_answers)
    by_solver: list[list[str | None]] = [[] for _ in range(solvers)]
    for owner, answer in zip(owners, question.solver_answers, strict=True):
        by_solver[owner].append(answer)
    return counted(by_solver, list(question.arbiter_answers), form, mathematics=mathematics)


def _result(question: SampledQuestion, judgement: Judgement, judged_question: JudgedQuestions) -> MeasuredQuestion:
    measures = judged_question.measures if question.solver_indices else replace(judged_question.measures, solvers=())
    return MeasuredQuestion(
        id=question.id,
        answer=judged_question.choice.answer if judged_question.choice else "",
        outcome=judged_question.outcome,
        answer_source=judged_question.choice.source if judged_question.choice else None,
        confidence=judged_question.choice.confidence if judged_question.choice else None,
        answer_type=judgement.form.answer_type,
        solver=judged_question.tally.solver,
        arbiter=judged_question.tally.arbiter,
        measures=measures,
        confidence_state=judged_question.choice.confidence_state if judged_question.choice else None,
    )


def _single_response(one: MeasuredQuestion, duration_ms: float) -> MeasureResponse:
    """Return one question's measures as fields of the response itself."""
    measures = {part.name: getattr(one.measures, part.name) for part in fields(Measures)}
    own = {part.name: getattr(one, part.name) for part in fields(MeasuredQuestion)}
    del own["id"], own["measures"]
    return MeasureResponse(**own, **measures, duration_ms=duration_ms)


def _summary(has_truth: Sequence[bool], results: Sequence[MeasuredQuestion]) -> MeasureSummary:
    judged_questions = [one for one, known in zip(results, has_truth, strict=True) if known and _is_judged(one)]
    right = [one.measures.correct is True for one in judged_questions]
    errors = [one.measures.overconfident_error is True for one in judged_questions]
    strongest = _strongest(judged_questions)
    means = {name: _defined(name, results) for name in AVERAGED}
    return MeasureSummary(
        questions=len(results),
        answered=sum(one.confidence is not None for one in results),
        judged=len(judged_questions),
        accuracy=_mean(right),
        overconfident_errors=sum(errors) if judged_questions else None,
        strongest_solver=strongest[0] if strongest else None,
        strongest_solver_accuracy=strongest[1] if strongest else None,
        strongest_solver_overconfident_errors=strongest[2] if strongest else None,
        means={name: sum(levels) / len(levels) for name, levels in means.items() if levels},
        defined={name: len(levels) for name, levels in means.items()},
    )


def _is_judged(one: MeasuredQuestion) -> bool:
    """Return whether it is known if the answer is right; an abstention is wrong."""
    return one.confidence is None or one.measures.correct is not None


def _strongest(results: Sequence[MeasuredQuestion]) -> tuple[int, float, int] | None:
    """Return the solver that is right most often, its accuracy and its overconfident errors.

    A solver without an answer is wrong; an answer that equality cannot judge does not count, for that solver.
    """
    count = max((len(one.measures.solvers) for one in results), default=0)
    right, errors, known = [0] * count, [0] * count, [len(results)] * count
    for one in results:
        for solver in one.measures.solvers:
            right[solver.solver] += solver.correct is True
            errors[solver.solver] += solver.overconfident_error is True
            known[solver.solver] -= solver.answer is not None and solver.correct is None
    shares = [(right[solver] / known[solver], -solver) for solver in range(count) if known[solver]]
    if not shares:
        return None
    share, place = max(shares)
    return -place, share, errors[-place]


def _defined(name: str, results: Sequence[MeasuredQuestion]) -> list[float]:
    levels = (getattr(one.measures, name) for one in results)
    return [float(level) for level in levels if level is not None]


def _mean(levels: Sequence[bool]) -> float | None:
    return sum(levels) / len(levels) if levels else None
