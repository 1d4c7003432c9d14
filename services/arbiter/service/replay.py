"""Stages of an arbitration from a recording; no model call."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chassis.errors import RequestOverLimit
from inference.spend import Spend
from kernel.answers import inferred_type, listed_options, same_canonical
from kernel.answers.answer_type_inference import form_of_answers
from kernel.arbitration.consensus import chosen
from kernel.arbitration.modes import Variant
from kernel.envelope import LARGEST_LIMIT, Limits, StageUsage, limits
from kernel.errors import MalformedRequest, MetacogError
from kernel.ledger import Ledger
from kernel.seeds import derived_seed
from sandbox.mathematics import Calculating, Here, Limited
from services.arbiter.errors import RecordingTooShort
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measure import MeasureLimits, thresholds_of
from services.arbiter.service.plan import ArbitrationDefaults, Plan, Tokens, stepwise, stop_rule
from services.arbiter.service.result import ArbitrationOutcome, finished
from services.arbiter.service.samples import AnswerForm, DrawnSamples, counted
from services.arbiter.service.stages import ARBITRATE, CRITIQUE, SOLVE, Batch, Represented
from services.arbiter.service.values import AdaptiveOptions, Critique, Event, ReplayRequest, ReplayResponse, Sample


class RecordedStages:
    """A recording that is drawn from, in its own order or in that of a seed.

    Args:
        ask: The recording.
        ledger: Account of what is drawn.

    Attributes:
        solved: Recorded samples by solver.
        arbitrated: Recorded arbitration samples.
        spoiled: The refusal of a sample that was not recorded.
        shortened: Nothing: no prompt is made.
        digests: Nothing, for the same reason.
    """

    def __init__(self, ask: ReplayRequest, ledger: Ledger) -> None:
        self._ledger = ledger
        self._critiques = {critique.solver: critique for critique in ask.recorded_critiques}
        count = max((sample.solver or 0 for sample in ask.recorded_solver_samples), default=-1) + 1
        own = [[s for s in ask.recorded_solver_samples if (s.solver or 0) == solver] for solver in range(count)]
        self.solved = [_ordered(samples, ask.seed, f"{SOLVE}-{place}") for place, samples in enumerate(own)]
        self.arbitrated = _ordered(ask.recorded_arbitration_samples, ask.seed, ARBITRATE)
        self.spoiled: MetacogError | None = None
        self.shortened: Sequence[str] = ()
        self.digests: Mapping[str, str] = {}

    @property
    def generations(self) -> int:
        """Generations of the whole recording [count]."""
        return sum(map(len, self.solved)) + len(self._critiques) + len(self.arbitrated)

    def names(self, solver: int) -> tuple[str, str]:
        """Nobody's: a recording does not say who gave its samples."""
        return "", ""

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Nobody's, for the same reason."""
        return "", ""

    def read(self, drawn: DrawnSamples, form: AnswerForm) -> DrawnSamples:
        """The sample with the answer that was recorded."""
        return drawn

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """The next recorded samples of a solver."""
        return self._drawn(SOLVE, self.solved[solver], count, offset)

    async def criticise(self, solver: int, trace: DrawnSamples) -> Critique:
        """The recorded critique; an empty one, which counts as written, where none was recorded."""
        critique = self._critiques.get(solver, Critique(solver=solver, succeeded=True))
        spent = critique.usage or StageUsage(generations=1)
        self._ledger.book(CRITIQUE, StageUsage(generations=1, completion_tokens=spent.completion_tokens))
        return critique

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """The next recorded arbitration samples."""
        return self._drawn(ARBITRATE, self.arbitrated, count, offset)

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """None says the same: what was judged alike was recorded under one canonical form."""
        return [0] * len(answers)

    def _drawn(self, stage: str, recorded: Sequence[Sample], count: int, offset: int) -> Batch:
        part = recorded[offset : offset + count]
        if len(part) < count:
            said = f"{stage}: the recording holds {len(recorded)} samples, and sample {len(recorded) + 1} is needed"
            self.spoiled = RecordingTooShort(said, stage=stage, recorded=str(len(recorded)), needed=str(offset + count))
            return Batch(failure=self.spoiled)
        tokens = sum(sample.completion_tokens or 0 for sample in part)
        self._ledger.book(stage, StageUsage(generations=count, completion_tokens=tokens))
        return Batch(samples=[_as_drawn(sample) for sample in part])


def _ordered(samples: Sequence[Sample], seed: int | None, name: str) -> Sequence[Sample]:
    if seed is None:
        return samples
    order = np.random.default_rng(derived_seed(seed, "replay", name)).permutation(len(samples))
    return [samples[place] for place in order]


def _as_drawn(sample: Sample) -> DrawnSamples:
    return DrawnSamples(
        text=sample.text,
        found=sample.answer,
        solver=sample.solver,
        tokens=sample.completion_tokens,
        truncated=sample.truncated,
    )


UNLIMITED = Limits(max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT)


HERE = Here()


async def replay(
    ask: ReplayRequest,
    *,
    defaults: ArbitrationDefaults,
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
    recorded = RecordedStages(ask, spend.ledger)
    plan = _planned(ask, recorded, defaults)
    mathematics = calculator.within()
    course = ArbitrationRun(plan, recorded, spend, _unheard, mathematics)
    await course.run()
    if recorded.spoiled is not None:
        raise recorded.spoiled
    ended = ArbitrationOutcome(plan=plan, course=course, stages=recorded, usage=spend.ledger.usage(), began=began)
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


def _planned(ask: ReplayRequest, recorded: RecordedStages, defaults: ArbitrationDefaults) -> Plan:
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


def _form(ask: ReplayRequest, samples: Sequence[Sample]) -> AnswerForm:
    """Form of the recorded answers: as given, as the question shows it, or as they look themselves."""
    if ask.answer_type is not None:
        return AnswerForm(answer_type=ask.answer_type)
    if ask.question.strip():
        texts = [sample.text for sample in samples if sample.text]
        return AnswerForm(answer_type=inferred_type(ask.question, samples=texts).answer_type)
    return AnswerForm(answer_type=form_of_answers([sample.answer or "" for sample in samples]).answer_type)


def _compared(
    recorded: RecordedStages, form: AnswerForm, answer: str, mathematics: Limited
) -> tuple[str | None, bool | None]:
    """Answer of the whole recording in paper mode, and whether `answer` says the same."""
    found = [[sample.answer for sample in samples] for samples in recorded.solved]
    counts = counted(found, [sample.answer for sample in recorded.arbitrated], form, mathematics=mathematics).tally
    choice = chosen(counts.solver, counts.arbiter)
    if choice is None:
        return None, None
    same = same_canonical(choice.answer, answer, form.answer_type, mathematics) if answer else None
    return choice.answer, same
