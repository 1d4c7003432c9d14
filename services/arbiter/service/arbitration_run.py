"""An arbitration under way solves, criticises, arbitrates, and decides when to stop.

Source: MC-MAS Algorithm 1 (papers.md 2.1), and ours (papers.md 2.4). What the envelope cannot carry is left out from
the end: a sample is drawn only where its worst case fits, and critiques only where an arbitration sample still fits
after them.
"""

import asyncio
import time
from dataclasses import fields, replace

from chassis.serving.events import Emit
from chassis.shared_results import FairThreads
from chassis.telemetry import STAGE_SECONDS
from inference import DeadlineExceeded, Spend
from kernel.answers import entropy
from kernel.arbitration.consensus import (
    fair_split,
    is_certain_consensus,
    is_consensus,
    must_disagree,
)
from kernel.arbitration.modes import AnswerSource, Mode, Stopping
from kernel.arbitration.stopping import change_bound, is_uncatchable
from kernel.envelope import BudgetExhausted
from kernel.errors import MetacogError
from sandbox.mathematics import LimitedMathematics
from services.arbiter.service.meaning_judge import MeaningJudge
from services.arbiter.service.plan import Plan
from services.arbiter.service.sample_state import SampleState, with_answers
from services.arbiter.service.samples import DrawnSample
from services.arbiter.service.stages import ARBITRATE, SOLVE, Batch, Stages
from services.arbiter.service.values import Critique, CritiqueFinished, Event, SolversFinished

LIMITS_REACHED = (BudgetExhausted.reason, DeadlineExceeded.reason)
# Share of the time left in which the level of early stopping is computed [0..1].
LEVEL_SHARE = 0.25
UNDECIDED = "{}; such answers count as different"

_levels = FairThreads("stopping levels", threads=1, waiting=16)


class ArbitrationRun:
    """This run is one arbitration under way.

    Args:
        plan: The stages and their sizes.
        stages: Draws the samples.
        spend: The envelope.
        emit: Receives the events.
        mathematics: Compares expressions.

    Attributes:
        state: The samples so far.
        stopping: Why no further sample was drawn.
        stopping_error: Bound on the probability that all samples would have given another answer; None unless that
            ended the sampling.
        saved: Generations that adaptive stopping saved [count].
        reasons: Reasons why the answer is less than what was asked for.
        exhausted: Whether a limit of the envelope was reached.
        without_arbiter: Source of the answer where the solvers' vote decides.
        mathematics: Compares expressions.
    """

    def __init__(
        self, plan: Plan, stages: Stages, spend: Spend, emit: Emit[Event], mathematics: LimitedMathematics
    ) -> None:
        self._plan = plan
        self._stages = stages
        self._spend = spend
        self._emit = emit
        self._meanings = MeaningJudge(stages.match)
        self.mathematics = mathematics
        self.state = SampleState(plan.solvers, plan.form(), self._meanings, mathematics)
        self.stopping = Stopping.ALL_SAMPLES
        self.stopping_error: float | None = None
        self.saved = 0
        self.reasons: list[str] = []
        self.exhausted = False
        self.without_arbiter = AnswerSource.SOLVER_FALLBACK
        self._error: MetacogError | None = None
        self._failed_solvers: set[int] = set()
        self._solvers_reported = False
        self._event_lock = asyncio.Lock()
        self._background: asyncio.TaskGroup
        self._critique_tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run all stages.

        Raises:
            MetacogError: The error, when nothing could be sampled at all.
        """
        try:
            async with asyncio.TaskGroup() as self._background:
                await self._run_stages()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        if self.mathematics.undecided:
            self.reasons.append(UNDECIDED.format(self.mathematics.timeout_reason))
        self.exhausted = self.exhausted or self._spend.ledger.exhausted

    async def _run_stages(self) -> None:
        await self._solve()
        if self.state.is_empty:
            raise self._error or BudgetExhausted("the envelope has no room for a single sample", stage=SOLVE)
        await self._finish_solving()
        if self._is_settled():
            self._settle()
        elif await self._criticise():
            await self._arbitrate()

    async def _solve(self) -> None:
        """Draw the samples of all solvers, solvers at once, until the solving may end."""
        started_at = time.monotonic()
        for goal in self._plan.solver_looks:
            if not await self._draw_solvers(goal):
                break
            left = self._plan.solvers * (self._plan.solver_samples - goal)
            if left and self._may_end_solving(left):
                self.saved += left
                break
        STAGE_SECONDS.labels(SOLVE).observe(time.monotonic() - started_at)

    def _may_end_solving(self, left: int) -> bool:
        counts = self.state.tally.solver
        if not self._plan.is_vote:
            return is_certain_consensus(counts, left, self._plan.agreement_entropy) and self._agree()
        has_agreed = max(counts.values(), default=0) >= self._plan.agree
        if has_agreed:
            self.stopping = Stopping.SOLVERS_AGREE
        return has_agreed

    async def _draw_solvers(self, goal: int) -> bool:
        """Draw until every solver has `goal` samples; return whether that was possible."""
        while missing := [self._missing(solver, goal) for solver in range(self._plan.solvers)]:
            if not any(missing):
                break
            shares = fair_split(missing, self._affordable(self._plan.tokens.solve))
            if not any(shares):
                self._end_by_limit(SOLVE)
                break
            async with asyncio.TaskGroup() as group:
                for solver, count in enumerate(shares):
                    if count:
                        group.create_task(self._draw_solver(solver, count))
        return not self.exhausted

    def _missing(self, solver: int, goal: int) -> int:
        return 0 if solver in self._failed_solvers else goal - len(self.state.solved[solver])

    async def _draw_solver(self, solver: int, count: int) -> None:
        """Draw samples of a solver by one call, then begin the critiques that are certain to be needed."""
        drawn = self.state.solved[solver]
        batch = await self._stages.solve(solver, self.state.form, count=count, offset=len(drawn))
        async with self._event_lock:
            drawn.extend(with_answers(batch.samples, self.state.form, self._stages, solver))
            await self.state.count()
            if batch.samples:
                planned = self._plan.solvers * self._plan.solver_samples
                self._emit(
                    self.state.drawn_event(solver, len(batch.samples), planned, with_samples=self._plan.return_samples)
                )
            if batch.failure is not None:
                self._failed_solvers.add(solver)
                self._record_failure(f"solver {solver}", batch)
            self._criticise_early()
            if not any(self._missing(each, self._plan.solver_samples) for each in range(self._plan.solvers)):
                await self._finish_solving()

    def _criticise_early(self) -> None:
        """Begin the critique of every solver whose trace is known, where all are certain to be needed and affordable.

        They run beside the rest of the solving, and delay no other call.
        """
        plan = self._plan
        if plan.variant.has_critiques and plan.is_form_firm and self._is_contested() and self._affords_critiques():
            self._begin_critiques()

    def _is_contested(self) -> bool:
        """Return whether critiques are certain to be needed, whatever answers the next samples hold."""
        left = self._plan.solvers * self._plan.solver_samples - sum(map(len, self.state.solved))
        may_merge = self.state.form.is_merged_by_meaning
        counts = self.state.tally.solver
        certain = not may_merge and must_disagree(counts, left, self._plan.agreement_entropy)
        return self._plan.mode is Mode.PAPER or certain

    def _begin_critiques(self) -> None:
        for solver in range(self._plan.solvers):
            trace = self.state.representative(solver)
            if trace is not None and solver not in self._critique_tasks:
                self._critique_tasks[solver] = self._background.create_task(self._critique(solver, trace))

    async def _finish_solving(self) -> None:
        """Fix the form of the answer, compare texts by meaning, and report the solver samples, which are complete."""
        if self._solvers_reported or self.state.is_empty:
            return
        self._solvers_reported = True
        if not self._plan.is_form_firm:
            self._correct_form()
        await self._compare()
        tally = self.state.tally
        self._emit(
            SolversFinished(
                counts=dict(sorted(tally.solver.items())),
                invalid=tally.solver_invalid,
                entropy=entropy(list(tally.solver.values())),
                solver_results=self.state.results(self._stages),
                settled=self._is_settled(),
            )
        )

    def _correct_form(self) -> None:
        """Change to the form that the samples show, where more of them clearly end in an answer of that form."""
        texts = [drawn.text for samples in self.state.solved for drawn in samples]
        form = self._plan.form(texts)
        clear = sum(form.found(text, strict=True) is not None for text in texts)
        if form != self.state.form and clear > len(self.state.found):
            self.state.reread(form, self._stages)

    def _is_settled(self) -> bool:
        """Return whether the solvers' vote is the answer: the variant has no other stage, or the solvers agree."""
        return self._plan.is_vote or self._agree()

    def _agree(self) -> bool:
        return self._plan.adaptive and is_consensus(self.state.tally, self._plan.agreement_entropy)

    def _settle(self) -> None:
        plan = self._plan
        if not plan.is_vote and self.stopping is Stopping.ALL_SAMPLES:
            self.saved += plan.critiques + plan.arbitration_samples
            self.stopping = Stopping.SOLVERS_AGREE
        self.without_arbiter = AnswerSource.SOLVER_VOTE if plan.is_vote else AnswerSource.CONSENSUS

    async def _criticise(self) -> bool:
        """Criticise all solvers that have a trace, at once; return whether arbitration follows."""
        plan = self._plan
        if not plan.variant.has_arbiter:
            self.without_arbiter = AnswerSource.SOLVER_VOTE
        elif not self._affords_critiques():
            self._end_by_limit("critique")
            return False
        self._begin_critiques()
        if self._critique_tasks:
            await asyncio.wait(self._critique_tasks.values())
        return plan.variant.has_arbiter

    async def _critique(self, solver: int, trace: DrawnSample) -> None:
        critique = await self._stages.criticise(solver, trace)
        self.state.critiques[solver] = critique
        self._emit(CritiqueFinished(**{part.name: getattr(critique, part.name) for part in fields(Critique)}))
        STAGE_SECONDS.labels("critique").observe(critique.duration_ms / 1000)
        if not critique.succeeded:
            self.reasons.append(f"critique of solver {solver} failed: {critique.failure}")
            self.exhausted = self.exhausted or critique.failure.startswith(LIMITS_REACHED)

    def _affords_critiques(self) -> bool:
        """Return whether all critiques that have not begun fit, and one arbitration sample after them."""
        plan, ledger = self._plan, self._spend.ledger
        missing = plan.critiques - len(self._critique_tasks)
        arbiter = 1 if plan.variant.has_arbiter else 0
        tokens = missing * plan.tokens.critique + arbiter * plan.tokens.arbitrate
        in_time = self._spend.seconds_left() > 0
        return in_time and ledger.generations_left >= missing + arbiter and ledger.tokens_left >= tokens

    async def _arbitrate(self) -> None:
        """Draw arbitration samples, all at once or in growing batches until the answer is settled."""
        started_at, rule = time.monotonic(), self._plan.rule
        level = await self._level() if self._plan.adaptive else 0.0
        for goal in rule.looks if self._plan.adaptive else (rule.samples,):
            if not await self._draw_arbiter(goal) or (goal < rule.samples and self._may_stop(level)):
                break
        if self.state.tally.solver and not self.state.tally.arbiter:
            self.reasons.append("no arbitration sample holds a valid answer; the solvers' vote is the answer")
        STAGE_SECONDS.labels(ARBITRATE).observe(time.monotonic() - started_at)

    async def _level(self) -> float:
        """Return the level at which arbitration stops early; 0, which only an uncatchable answer passes, when late.

        It takes seconds for hundreds of samples, whose number the caller chooses.
        """
        rule = self._plan.rule
        try:
            async with asyncio.timeout(self._spend.seconds_left() * LEVEL_SHARE):
                return await _levels.run(lambda: rule.level)
        except TimeoutError:
            self.reasons.append("the level of early stopping was not computed in time; only a sure answer stops early")
            return 0.0

    async def _draw_arbiter(self, goal: int) -> bool:
        """Draw until there are `goal` arbitration samples; return whether that was possible."""
        drawn = self.state.arbitrated
        while len(drawn) < goal:
            count = min(goal - len(drawn), self._affordable(self._plan.tokens.arbitrate))
            if not count:
                self._end_by_limit(ARBITRATE)
                return False
            represented, form = self.state.represented(), self.state.form
            batch = await self._stages.arbitrate(represented, form, count=count, offset=len(drawn))
            drawn.extend(with_answers(batch.samples, form, self._stages, None))
            await self._compare()
            if batch.samples:
                self._emit_arbitrated(len(batch.samples))
            if batch.failure is not None:
                self._record_failure(ARBITRATE, batch)
                return False
        return True

    def _emit_arbitrated(self, batch: int) -> None:
        event = self.state.drawn_event(None, batch, self._plan.rule.samples, with_samples=self._plan.return_samples)
        if self._plan.adaptive and event.counts:
            event = replace(event, leader_probability=1.0 - self._change_bound())
        self._emit(event)

    def _may_stop(self, level: float) -> bool:
        """Return whether the answer is settled; record why no further sample is drawn."""
        tally = self.state.tally
        left = self._plan.rule.samples - len(self.state.arbitrated)
        if is_uncatchable(tally.arbiter, tally.solver, left):
            self.stopping = Stopping.LEADER_UNCATCHABLE
        elif level > 0 and (bound := self._change_bound()) <= level:
            self.stopping, self.stopping_error = Stopping.LEADER_LIKELY, bound
        else:
            return False
        self.saved += left
        return True

    def _change_bound(self) -> float:
        tally = self.state.tally
        left = self._plan.rule.samples - len(self.state.arbitrated)
        return (
            0.0
            if is_uncatchable(tally.arbiter, tally.solver, left)
            else change_bound(tally.arbiter, tally.solver, left)
        )

    async def _compare(self) -> None:
        """Compare free texts by meaning, and count the samples."""
        if self.state.form.is_merged_by_meaning:
            failure = await self._meanings.judge(self.state.found)
            if failure and failure not in self.reasons:
                self.reasons.append(failure)
                self.exhausted = self.exhausted or failure.startswith(LIMITS_REACHED)
        await self.state.count()

    def _affordable(self, tokens_each: int) -> int:
        """Return how many samples' worst case the envelope covers; a first one takes whatever tokens are left."""
        ledger = self._spend.ledger
        if self._spend.seconds_left() <= 0:
            return 0
        covered = min(ledger.generations_left, ledger.tokens_left // tokens_each)
        minimum = 1 if self.state.is_empty and ledger.generations_left and ledger.tokens_left else 0
        return max(covered, minimum)

    def _end_by_limit(self, stage: str) -> None:
        """Record that the envelope ends the run at `stage`."""
        is_late = self._spend.seconds_left() <= 0
        limit_ms = str(self._spend.timeout_ms)
        if stage == SOLVE and is_late:
            message = f"the request's {limit_ms} ms were over before the first sample"
            self._error = self._error or DeadlineExceeded(message, timeout_ms=limit_ms)
        self.exhausted = True
        self.stopping = Stopping.BUDGET
        limit = DeadlineExceeded.reason if is_late else BudgetExhausted.reason
        self.reasons.append(f"{limit}: the envelope ended the stage `{stage}`")

    def _record_failure(self, stage: str, batch: Batch) -> None:
        error = batch.failure
        assert error is not None
        self._error = self._error or error
        self.reasons.append(f"{stage} failed: {error.reason}: {error.message}")
        limit_reached = error.reason in LIMITS_REACHED
        self.exhausted = self.exhausted or limit_reached
        if stage == ARBITRATE or limit_reached:
            self.stopping = Stopping.BUDGET if limit_reached else Stopping.FAILURE
