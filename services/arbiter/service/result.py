"""This module makes the events that end an arbitration: its answer, and its result with all measures."""

from collections.abc import Sequence
from dataclasses import dataclass

from chassis.clock import milliseconds_since
from kernel.arbitration.claims import ClaimShares
from kernel.arbitration.modes import AnswerSource
from kernel.envelope import Usage
from kernel.outcomes import degraded_reasons, is_degraded
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import QuestionClaims, Tracer
from services.arbiter.service.measures import NO_ARBITRATION, NOT_ASKED, JudgedQuestions, Judgement, judged
from services.arbiter.service.plan import Plan
from services.arbiter.service.stages import Stages
from services.arbiter.service.values import AnswerSettled, ArbitrationFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationOutcome:
    """An outcome is a run that has ended, and its cost."""

    plan: Plan
    run: ArbitrationRun
    stages: Stages
    usage: Usage
    started_at: float


async def answer_settled(outcome: ArbitrationOutcome) -> AnswerSettled:
    """Return the answer, before any claim is embedded."""
    found = await _judged(outcome, NOT_ASKED)
    choice = found.choice
    return AnswerSettled(
        answer=choice.answer if choice else "",
        outcome=found.outcome,
        answer_text=_answer_text(outcome, found),
        answer_type=outcome.run.state.form.answer_type,
        confidence=choice.confidence if choice else None,
        answer_source=choice.source if choice else None,
        confidence_state=choice.confidence_state if choice else None,
    )


async def arbitration_finished(
    outcome: ArbitrationOutcome, tracer: Tracer, timeout_s: float | None
) -> ArbitrationFinished:
    """Return the result, with everything that explains it.

    Args:
        outcome: The run.
        tracer: Computes the embedding measures.
        timeout_s: Time that these may take [s]; None sets no limit.
    """
    plan, run, stages = outcome.plan, outcome.run, outcome.stages
    state = run.state
    result = await _judged(outcome, await _traced(outcome, tracer, timeout_s))
    choice = result.choice
    reasons = degraded_reasons(result.outcome, run.reasons)
    agent, model = stages.arbiter_names if state.arbitrated else ("", "")
    return ArbitrationFinished(
        answer=choice.answer if choice else "",
        outcome=result.outcome,
        budget_exhausted=run.exhausted,
        solver=dict(sorted(result.tally.solver.items())),
        arbiter=dict(sorted(result.tally.arbiter.items())),
        solver_invalid=result.tally.solver_invalid,
        arbiter_invalid=result.tally.arbiter_invalid,
        solver_results=state.results(stages),
        critiques=[each for _, each in sorted(state.critiques.items()) if each.text or each.failure],
        measures=result.measures,
        usage=outcome.usage,
        answer_type=state.form.answer_type,
        answer_text=_answer_text(outcome, result),
        confidence=choice.confidence if choice else None,
        answer_source=choice.source if choice else None,
        tied_answers=choice.tied if choice else (),
        mode=plan.mode,
        variant=plan.variant,
        stopping_reason=run.stopping,
        stopping_error=run.stopping_error,
        planned_generations=plan.generations,
        saved_generations=run.saved,
        arbiter_agent=agent,
        arbiter_model=model,
        prompt_digests=dict(sorted(stages.digests.items())),
        shortened_inputs=stages.shortened,
        degraded=is_degraded(reasons),
        degraded_reasons=reasons,
        samples=state.samples() if plan.return_samples else (),
        run_id=plan.run_id,
        duration_ms=milliseconds_since(outcome.started_at),
        confidence_state=choice.confidence_state if choice else None,
        spellings=dict(sorted(state.counted.spelled.items())),
    )


async def _judged(outcome: ArbitrationOutcome, traced: ClaimShares | str) -> JudgedQuestions:
    plan, run = outcome.plan, outcome.run
    question = Judgement(
        counted=run.state.counted,
        form=run.state.form,
        truth=plan.truth,
        aliases=plan.aliases,
        without_arbiter=run.without_arbiter,
        traced=traced,
        mathematics=run.mathematics,
    )
    return (await run.mathematics.run(judged, [question], plan.thresholds))[0]


def _answer_text(outcome: ArbitrationOutcome, found: JudgedQuestions) -> str:
    """Return the text of the first sample that holds the answer."""
    if found.choice is None:
        return ""
    return outcome.run.state.text_of(found.choice.answer, by_arbiter=found.choice.source is AnswerSource.ARBITER)


async def _traced(outcome: ArbitrationOutcome, tracer: Tracer, timeout_s: float | None) -> ClaimShares | str:
    if not outcome.plan.embedding_measures:
        return NOT_ASKED
    claims = _claim_texts(outcome)
    if not claims.final:
        return NO_ARBITRATION
    return (await tracer.trace([claims], below=outcome.plan.thresholds.novel_below, timeout_s=timeout_s))[0]


def _claim_texts(outcome: ArbitrationOutcome) -> QuestionClaims:
    """Return the texts of the solvers and of the last stage that ran (papers.md 2.2); none without arbitration."""
    state, variant = outcome.run.state, outcome.plan.variant
    traces = [drawn.text for solver in range(len(state.solved)) if (drawn := state.representative(solver))]
    critiques = [each.text for _, each in sorted(state.critiques.items()) if each.succeeded]
    final: Sequence[str] = [drawn.text for drawn in state.arbitrated]
    if not variant.has_arbiter and not variant.has_critiques:
        final = every = [drawn.text for samples in state.solved for drawn in samples]
    else:
        every = [*traces, *critiques, *final]
        final = final or (critiques if not variant.has_arbiter else ())
    return QuestionClaims(solver_traces=traces, critiques=critiques, final=final, every=every)
