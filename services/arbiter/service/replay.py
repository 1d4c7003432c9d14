"""This use case replays the stages of an arbitration from a recording, without a model call."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chassis.errors import RequestOverLimit
from inference import Spend
from kernel.answers import inferred_type, listed_options, same_canonical
from kernel.answers.answer_type_inference import type_of_answers
from kernel.arbitration.consensus import consensus_choice
from kernel.arbitration.defaults import AGREE
from kernel.arbitration.modes import Variant
from kernel.envelope import LARGEST_LIMIT, Limits, StageUsage, limits
from kernel.errors import MalformedRequest, MetacogError
from kernel.ledger import Ledger
from kernel.seeds import derived_seed
from sandbox.mathematics import LimitedMathematics, MathematicsSource
from services.arbiter.errors import RecordingTooShort
from services.arbiter.service.arbitration_run import ArbitrationRun
from services.arbiter.service.claim_tracing import Tracer
from services.arbiter.service.measurement import MeasureLimits, thresholds_of
from services.arbiter.service.plan import ArbitrationDefaults, Plan, Tokens, solving_stop, stop_rule
from services.arbiter.service.result import ArbitrationOutcome, arbitration_finished
from services.arbiter.service.samples import AnswerForm, DrawnSample, counted
from services.arbiter.service.stages import ARBITRATE, CRITIQUE, SOLVE, Batch, Represented
from services.arbiter.service.values import AdaptiveOptions, Critique, Event, ReplayRequest, ReplayResponse, Sample


class RecordedStages:
    """These stages draw from a recording, in its own order or in that of a seed.

    Args:
        request: The recording.
        ledger: The account of the drawn samples.

    Attributes:
        solved: Recorded samples by solver.
        arbitrated: Recorded arbitration samples.
        missing: The error of a sample that was not recorded.
        shortened: No names, since there is no prompt.
        digests: No digests, since there is no prompt.
    """

    def __init__(self, request: ReplayRequest, ledger: Ledger) -> None:
        self._ledger = ledger
        self._critiques = {critique.solver: critique for critique in request.recorded_critiques}
        count = max((sample.solver or 0 for sample in request.recorded_solver_samples), default=-1) + 1
        own = [[s for s in request.recorded_solver_samples if (s.solver or 0) == solver] for solver in range(count)]
        self.solved = [_ordered(samples, request.seed, f"{SOLVE}-{place}") for place, samples in enumerate(own)]
        self.arbitrated = _ordered(request.recorded_arbitration_samples, request.seed, ARBITRATE)
        self.missing: MetacogError | None = None
        self.shortened: Sequence[str] = ()
        self.digests: Mapping[str, str] = {}

    @property
    def generations(self) -> int:
        """Return the generations of the whole recording [count]."""
        return sum(map(len, self.solved)) + len(self._critiques) + len(self.arbitrated)

    def names(self, solver: int) -> tuple[str, str]:
        """Return no names: a recording does not hold the agents of its samples."""
        return "", ""

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Return no names: a recording does not hold the agent of the arbiter."""
        return "", ""

    def read(self, drawn: DrawnSample, form: AnswerForm) -> DrawnSample:
        """Return the sample with the answer that was recorded."""
        return drawn

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Return the next recorded samples of a solver."""
        return self._drawn(SOLVE, self.solved[solver], count, offset)

    async def criticise(self, solver: int, trace: DrawnSample) -> Critique:
        """Return the recorded critique; an empty one, which counts as written, where none was recorded."""
        critique = self._critiques.get(solver, Critique(solver=solver, succeeded=True))
        spent = critique.usage or StageUsage(generations=1)
        self._ledger.book(CRITIQUE, StageUsage(generations=1, completion_tokens=spent.completion_tokens))
        return critique

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Return the next recorded arbitration samples."""
        return self._drawn(ARBITRATE, self.arbitrated, count, offset)

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """Match no answer: those with the same meaning were recorded under one canonical form."""
        return [0] * len(answers)

    def _drawn(self, stage: str, recorded: Sequence[Sample], count: int, offset: int) -> Batch:
        part = recorded[offset : offset + count]
        if len(part) < count:
            message = f"{stage}: the recording holds {len(recorded)} samples, and sample {len(recorded) + 1} is needed"
            self.missing = RecordingTooShort(
                message, stage=stage, recorded=str(len(recorded)), needed=str(offset + count)
            )
            return Batch(failure=self.missing)
        tokens = sum(sample.completion_tokens or 0 for sample in part)
        self._ledger.book(stage, StageUsage(generations=count, completion_tokens=tokens))
        return Batch(samples=[_as_drawn(sample) for sample in part])


def _ordered(samples: Sequence[Sample], seed: int | None, name: str) -> Sequence[Sample]:
    if seed is None:
        return samples
    order = np.random.default_rng(derived_seed(seed, "replay", name)).permutation(len(samples))
    return [samples[place] for place in order]


def _as_drawn(sample: Sample) -> DrawnSample:
    return DrawnSample(
        text=sample.text,
        found=sample.answer,
        solver=sample.solver,
        tokens=sample.completion_tokens,
        truncated=sample.truncated,
    )


UNLIMITED = Limits(max_generations=LARGEST_LIMIT, max_generated_tokens=LARGEST_LIMIT, timeout_ms=LARGEST_LIMIT)


async def replay(
    request: ReplayRequest,
    *,
    defaults: ArbitrationDefaults,
    tracer: Tracer,
    most: MeasureLimits,
    calculator: MathematicsSource,
) -> ReplayResponse:
    """Arbitrate the recorded question again, and compare with the answer of the whole recording.

    Raises:
        MalformedRequest: For a recording without solver samples.
        RequestOverLimit: For too many samples or solvers.
        Overloaded: When as many replays of this API key wait as may.
        RecordingTooShort: When a sample is needed that was not recorded; names it.
    """
    started_at = time.monotonic()
    _check(request, most)
    spend = Spend(replace(limits(request.envelope, UNLIMITED), timeout_ms=LARGEST_LIMIT, max_cost=None))
    recorded = RecordedStages(request, spend.ledger)
    plan = _plan(request, recorded, defaults)
    mathematics = calculator.within()
    run = ArbitrationRun(plan, recorded, spend, _discard, mathematics)
    await run.run()
    if recorded.missing is not None:
        raise recorded.missing
    outcome = ArbitrationOutcome(plan=plan, run=run, stages=recorded, usage=spend.ledger.usage(), started_at=started_at)
    finished = await arbitration_finished(outcome, tracer, None)
    recorded_answer, same = await mathematics.run(_compared, recorded, run.state.form, finished.answer, mathematics)
    return ReplayResponse(
        id=request.id,
        arbitration=finished,
        recorded_answer=recorded_answer,
        same_answer=same,
        recorded_generations=recorded.generations,
    )


def _discard(_: Event) -> None:
    """Discard an event; a replay has no listener."""


def _check(request: ReplayRequest, most: MeasureLimits) -> None:
    if not request.recorded_solver_samples:
        raise MalformedRequest("recorded_solver_samples: give at least one", field="recorded_solver_samples")
    lengths = (len(request.recorded_solver_samples), len(request.recorded_arbitration_samples))
    drawn = max(*lengths, request.arbitration_samples or 0)
    if drawn > most.samples:
        raise RequestOverLimit(f"at most {most.samples} samples, not {drawn}", limit=str(most.samples))
    solvers = max(sample.solver or 0 for sample in request.recorded_solver_samples) + 1
    if solvers > most.solvers:
        raise RequestOverLimit(f"at most {most.solvers} solvers, not {solvers}", limit=str(most.solvers))


def _plan(request: ReplayRequest, recorded: RecordedStages, defaults: ArbitrationDefaults) -> Plan:
    options = request.adaptive or AdaptiveOptions()
    solvers, samples = len(recorded.solved), request.solver_samples or max(map(len, recorded.solved))
    if request.variant is Variant.SELF_CONSISTENCY:
        solvers, samples = 1, request.self_consistency_samples or len(recorded.solved[0])
    for solver in range(solvers):
        _check_recorded(f"{SOLVE} by solver {solver}", recorded.solved[solver], samples)
    arbitration = 1 if request.variant is Variant.SINGLE_ARBITER else request.arbitration_samples
    if arbitration is None and request.variant.has_arbiter and not recorded.arbitrated:
        arbitration = defaults.arbitration_samples  # needed only if the replay gets as far as the arbitration
    all_samples = [*(sample for own in recorded.solved for sample in own), *recorded.arbitrated]
    tokens = max((sample.completion_tokens or 0 for sample in all_samples), default=0) or 1
    return Plan(
        question=request.question,
        answer_type=_form(request, all_samples).answer_type,
        mode=request.mode,
        variant=request.variant,
        solvers=solvers,
        solver_samples=samples,
        rule=stop_rule(arbitration or len(recorded.arbitrated), options, defaults),
        agreement_entropy=options.agreement_entropy or 0.0,
        stop=solving_stop(request.mode, options, defaults),
        agree=options.agree or AGREE,
        tokens=Tokens(solve=tokens, critique=1, arbitrate=tokens),
        thresholds=thresholds_of(request.novelty_threshold, request.overconfidence_threshold),
        truth=request.truth,
        aliases=request.truth_aliases,
        embedding_measures=request.embedding_measures,
        options=listed_options(request.question),
        is_recorded=True,
    )


def _check_recorded(stage: str, recorded: Sequence[Sample], needed: int) -> None:
    if len(recorded) < needed:
        message = f"{stage}: the recording holds {len(recorded)} samples, and {needed} are asked for"
        raise RecordingTooShort(message, stage=stage, recorded=str(len(recorded)), needed=str(needed))


def _form(request: ReplayRequest, samples: Sequence[Sample]) -> AnswerForm:
    """Return the form of the recorded answers: as given, as the question shows it, or as the answers show it."""
    if request.answer_type is not None:
        return AnswerForm(answer_type=request.answer_type)
    if request.question.strip():
        texts = [sample.text for sample in samples if sample.text]
        return AnswerForm(answer_type=inferred_type(request.question, samples=texts).answer_type)
    return AnswerForm(answer_type=type_of_answers([sample.answer or "" for sample in samples]).answer_type)


def _compared(
    recorded: RecordedStages, form: AnswerForm, answer: str, mathematics: LimitedMathematics
) -> tuple[str | None, bool | None]:
    """Return the answer of the whole recording in paper mode, and whether `answer` means the same."""
    found = [[sample.answer for sample in samples] for samples in recorded.solved]
    counts = counted(found, [sample.answer for sample in recorded.arbitrated], form, mathematics=mathematics).tally
    choice = consensus_choice(counts.solver, counts.arbiter)
    if choice is None:
        return None, None
    same = same_canonical(choice.answer, answer, form.answer_type, mathematics=mathematics) if answer else None
    return choice.answer, same
