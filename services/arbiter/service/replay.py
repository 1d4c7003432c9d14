"""Run a recorded question through either mode; no model call."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from chassis.errors import RequestOverLimit
from chassis.mathematics import Calculating, Here, Limited
from chassis.spend import Spend
from chassis.wire import MalformedRequest
from kernel.answers import inferred_type, listed_options, same_canonical
from kernel.envelope import LARGEST_LIMIT, Limits, limits
from services.arbiter.core.choosing import chosen
from services.arbiter.core.errors import RecordingTooShort
from services.arbiter.core.forms import form_of_answers
from services.arbiter.core.kinds import Variant
from services.arbiter.service.counting import Form, counted
from services.arbiter.service.course import Course
from services.arbiter.service.finishing import Ended, finished
from services.arbiter.service.measure import MeasureLimits, thresholds_of
from services.arbiter.service.plan import Defaults, Plan, Tokens, stepwise, stop_rule
from services.arbiter.service.recorded import Recorded
from services.arbiter.service.results import Event, ReplayResponse
from services.arbiter.service.stages import SOLVE
from services.arbiter.service.tracing import Tracer
from services.arbiter.service.values import AdaptiveOptions, ReplayRequest, Sample

UNLIMITED = Limits(max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT)


HERE = Here()


async def replay(
    ask: ReplayRequest,
    *,
    defaults: Defaults,
    tracer: Tracer,
    most: MeasureLimits,
    calculator: Calculating = HERE,
) -> ReplayResponse:
    """The recorded question as it would have gone, and as the whole recording has it.

    Raises:
        MalformedRequest: For a recording without solver samples.
        RequestOverLimit: For too many samples or solvers.
        RecordingTooShort: When a sample is needed that was not recorded; names it.
    """
    began = time.monotonic()
    _check(ask, most)
    spend = Spend(replace(limits(ask.envelope, UNLIMITED), timeout_ms=LARGEST_LIMIT, max_cost=None))
    recorded = Recorded(ask, spend.ledger)
    plan = _planned(ask, recorded, defaults)
    mathematics = calculator.within()
    course = Course(plan, recorded, spend, _unheard, mathematics)
    await course.run()
    if recorded.spoiled is not None:
        raise recorded.spoiled
    ended = Ended(plan=plan, course=course, stages=recorded, usage=spend.ledger.usage(), began=began)
    end = await finished(ended, tracer, None)
    whole, same = await asyncio.to_thread(_compared, recorded, course.standing.form, end.answer, mathematics)
    return ReplayResponse(
        id=ask.id,
        arbitration=end,
        recorded_answer=whole,
        same_answer=same,
        recorded_generations=recorded.generations,
    )


def _unheard(_: Event) -> None:
    """Nobody watches a replay."""


def _check(ask: ReplayRequest, most: MeasureLimits) -> None:
    if not ask.recorded_solver_samples:
        raise MalformedRequest("recorded_solver_samples: give at least one", field="recorded_solver_samples")
    drawn = max(len(ask.recorded_solver_samples), len(ask.recorded_arbitration_samples))
    if drawn > most.samples:
        raise RequestOverLimit(f"at most {most.samples} samples, not {drawn}", limit=str(most.samples))
    solvers = max(sample.solver or 0 for sample in ask.recorded_solver_samples) + 1
    if solvers > most.solvers:
        raise RequestOverLimit(f"at most {most.solvers} solvers, not {solvers}", limit=str(most.solvers))


def _planned(ask: ReplayRequest, recorded: Recorded, defaults: Defaults) -> Plan:
    options = ask.adaptive or AdaptiveOptions()
    solvers, samples = len(recorded.solved), ask.solver_samples or max(map(len, recorded.solved))
    if ask.variant is Variant.SELF_CONSISTENCY:
        solvers, samples = 1, ask.self_consistency_samples or len(recorded.solved[0])
    for solver in range(solvers):
        _demand(f"{SOLVE} by solver {solver}", recorded.solved[solver], samples)
    arbitration = 1 if ask.variant is Variant.SINGLE_ARBITER else ask.arbitration_samples
    if arbitration is None and ask.variant.arbitrates and not recorded.arbitrated:
        arbitration = defaults.arbitration_samples  # demanded only if it comes to an arbitration
    everything = [*(sample for own in recorded.solved for sample in own), *recorded.arbitrated]
    tokens = max((sample.completion_tokens or 0 for sample in everything), default=0) or 1
    return Plan(
        question=ask.question,
        answer_type=_form(ask, everything).answer_type,
        mode=ask.mode,
        variant=ask.variant,
        solvers=solvers,
        solver_samples=samples,
        rule=stop_rule(arbitration or len(recorded.arbitrated), options, defaults),
        agreement_entropy=options.agreement_entropy or 0.0,
        stepwise=stepwise(ask.mode, options, defaults),
        tokens=Tokens(solve=tokens, critique=1, arbitrate=tokens),
        thresholds=thresholds_of(ask.novelty_threshold, ask.overconfidence_threshold),
        truth=ask.truth,
        aliases=ask.truth_aliases,
        embedding_measures=ask.embedding_measures,
        options=listed_options(ask.question),
        is_recorded=True,
    )


def _demand(stage: str, recorded: Sequence[Sample], needed: int) -> None:
    if len(recorded) < needed:
        said = f"{stage}: the recording holds {len(recorded)} samples, and {needed} are asked for"
        raise RecordingTooShort(said, stage=stage, recorded=str(len(recorded)), needed=str(needed))


def _form(ask: ReplayRequest, samples: Sequence[Sample]) -> Form:
    """Form of the recorded answers: as given, as the question shows it, or as they look themselves."""
    if ask.answer_type is not None:
        return Form(answer_type=ask.answer_type)
    if ask.question.strip():
        texts = [sample.text for sample in samples if sample.text]
        return Form(answer_type=inferred_type(ask.question, samples=texts).answer_type)
    return Form(answer_type=form_of_answers([sample.answer or "" for sample in samples]).answer_type)


def _compared(recorded: Recorded, form: Form, answer: str, mathematics: Limited) -> tuple[str | None, bool | None]:
    """Answer of the whole recording in paper mode, and whether `answer` says the same."""
    found = [[sample.answer for sample in samples] for samples in recorded.solved]
    counts = counted(found, [sample.answer for sample in recorded.arbitrated], form, mathematics=mathematics).tally
    choice = chosen(counts.solver, counts.arbiter)
    if choice is None:
        return None, None
    same = same_canonical(choice.answer, answer, form.answer_type, mathematics) if answer else None
    return choice.answer, same
