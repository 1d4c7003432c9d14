"""The end of an arbitration, with its measures."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import Counter, Histogram

from chassis import telemetry
from kernel.arbitration.claims import ClaimShares
from kernel.arbitration.modes import AnswerSource
from kernel.envelope import Usage
from kernel.outcomes import Outcome
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import QuestionClaims, Tracer
from services.arbiter.service.measures import NO_ARBITRATION, NOT_ASKED, JudgedQuestions, Judgement, judged
from services.arbiter.service.plan import Plan
from services.arbiter.service.stages import Stages
from services.arbiter.service.values import AnswerSettled, ArbitrationFinished

NATS = (-2.0, -1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
ARBITRATIONS = Counter(
    "metacog_arbitrations_total", "Arbitrations by mode, source of the answer and why they stopped.",
    ["mode", "source", "stopping"],
)  # fmt: skip
ENTROPY_REDUCTION = Histogram(
    "metacog_entropy_reduction_nats", "Entropy of the solvers less entropy of the arbiter [nats].", buckets=NATS
)
SAVED = Counter("metacog_arbiter_saved_generations_total", "Generations that adaptive stopping saved.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationOutcome:
    """A course that has ended, and what it cost."""

    plan: Plan
    course: ArbitrationRun
    stages: Stages
    usage: Usage
    began: float


async def settled(ended: ArbitrationOutcome) -> AnswerSettled:
    """The answer, before anything is embedded."""
    found = await _judged(ended, NOT_ASKED)
    choice = found.choice
    return AnswerSettled(
        answer=choice.answer if choice else "",
        outcome=found.outcome,
        answer_text=_answer_text(ended, found),
        answer_type=ended.course.standing.form.answer_type,
        confidence=choice.confidence if choice else None,
        answer_source=choice.source if choice else None,
    )


async def finished(ended: ArbitrationOutcome, tracer: Tracer, timeout_s: float | None) -> ArbitrationFinished:
    """The end, with everything that explains it.

    Args:
        ended: The course.
        tracer: Makes the embedding measures.
        timeout_s: Time that these may take [s]; None sets no limit.
    """
    plan, course, stages = ended.plan, ended.course, ended.stages
    standing = course.standing
    result = await _judged(ended, await _traced(ended, tracer, timeout_s))
    choice = result.choice
    agent, model = stages.arbiter_names if standing.arbitrated else ("", "")
    return ArbitrationFinished(
        answer=choice.answer if choice else "",
        outcome=result.outcome,
        budget_exhausted=course.exhausted,
        solver=dict(sorted(result.tally.solver.items())),
        arbiter=dict(sorted(result.tally.arbiter.items())),
        solver_invalid=result.tally.solver_invalid,
        arbiter_invalid=result.tally.arbiter_invalid,
        solver_results=standing.results(stages),
        critiques=[made for _, made in sorted(standing.critiques.items()) if made.text or made.failure],
        measures=result.measures,
        usage=ended.usage,
        answer_type=standing.form.answer_type,
        answer_text=_answer_text(ended, result),
        confidence=choice.confidence if choice else None,
        answer_source=choice.source if choice else None,
        tied_answers=choice.tied if choice else (),
        mode=plan.mode,
        variant=plan.variant,
        stopping_reason=course.stopping,
        stopping_error=course.stopping_error,
        planned_generations=plan.generations,
        saved_generations=course.saved,
        arbiter_agent=agent,
        arbiter_model=model,
        prompt_digests=dict(sorted(stages.digests.items())),
        shortened_inputs=stages.shortened,
        degraded=bool(course.reasons) or result.outcome is Outcome.ABSTAINED,
        degraded_reasons=course.reasons,
        samples=standing.samples() if plan.return_samples else (),
        run_id=plan.run_id,
        duration_ms=round((time.monotonic() - ended.began) * 1000, 3),
    )


def tell_metrics(end: ArbitrationFinished) -> None:
    """Tell Prometheus of an arbitration that models carried out."""
    source = end.answer_source or Outcome.ABSTAINED
    ARBITRATIONS.labels(end.mode, source, end.stopping_reason).inc()
    if end.measures.entropy_reduction is not None:
        ENTROPY_REDUCTION.observe(end.measures.entropy_reduction)
    SAVED.inc(end.saved_generations)
    for stage, spent in end.usage.stages.items():
        telemetry.child(telemetry.TOKENS, stage, "prompt").inc(spent.prompt_tokens)
        telemetry.child(telemetry.TOKENS, stage, "completion").inc(spent.completion_tokens)
        telemetry.child(telemetry.GENERATIONS, stage).inc(spent.generations)
        if spent.cost is not None:
            telemetry.child(telemetry.COST, stage).inc(spent.cost)


async def _judged(ended: ArbitrationOutcome, traced: ClaimShares | str) -> JudgedQuestions:
    plan, course = ended.plan, ended.course
    question = Judgement(
        counted=course.standing.counted,
        form=course.standing.form,
        truth=plan.truth,
        aliases=plan.aliases,
        without_arbiter=course.without_arbiter,
        traced=traced,
        mathematics=course.mathematics,
    )
    return (await asyncio.to_thread(judged, [question], plan.thresholds))[0]


def _answer_text(ended: ArbitrationOutcome, found: JudgedQuestions) -> str:
    """Text of the first sample that holds the answer."""
    if found.choice is None:
        return ""
    return ended.course.standing.text_of(found.choice.answer, by_arbiter=found.choice.source is AnswerSource.ARBITER)


async def _traced(ended: ArbitrationOutcome, tracer: Tracer, timeout_s: float | None) -> ClaimShares | str:
    if not ended.plan.embedding_measures:
        return NOT_ASKED
    told = _told(ended)
    if not told.final:
        return NO_ARBITRATION
    return (await tracer.trace([told], below=ended.plan.thresholds.novel_below, timeout_s=timeout_s))[0]


def _told(ended: ArbitrationOutcome) -> QuestionClaims:
    """Texts of the solvers, and of the last stage that ran (SPEC 2.2); of none where arbitration was left out."""
    standing, variant = ended.course.standing, ended.plan.variant
    traces = [drawn.text for solver in range(len(standing.solved)) if (drawn := standing.representative(solver))]
    critiques = [made.text for _, made in sorted(standing.critiques.items()) if made.succeeded]
    final: Sequence[str] = [drawn.text for drawn in standing.arbitrated]
    if not variant.arbitrates and not variant.criticises:
        final = every = [drawn.text for samples in standing.solved for drawn in samples]
    else:
        every = [*traces, *critiques, *final]
        final = final or (critiques if not variant.arbitrates else ())
    return QuestionClaims(solver_traces=traces, critiques=critiques, final=final, every=every)
