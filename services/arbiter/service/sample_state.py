"""This state holds the samples of an arbitration so far, and their counts."""

from collections.abc import Sequence
from dataclasses import replace

from kernel.answers import entropy
from kernel.arbitration.consensus import ranked_answers
from kernel.arbitration.modes import Phase
from kernel.arbitration.tallies import Tally
from sandbox.mathematics import LimitedMathematics
from services.arbiter.service.meaning_judge import MeaningJudge
from services.arbiter.service.samples import (
    AnswerForm,
    CountedSamples,
    DrawnSample,
    contract_sample,
    counted,
    counted_canonical,
    solver_result,
)
from services.arbiter.service.stages import Represented, Stages
from services.arbiter.service.values import Critique, Sample, SamplesDrawn, SolverResult


class SampleState:
    """This state holds the samples of one arbitration.

    Args:
        solvers: Solvers [count].
        form: Form of the answer.
        meanings: Judges which free texts mean the same.
        mathematics: Compares expressions.

    Attributes:
        solved: Samples by solver, in the order drawn.
        arbitrated: Arbitration samples, in the order drawn.
        critiques: Critiques by solver.
        form: Form of the answer.
    """

    def __init__(self, solvers: int, form: AnswerForm, meanings: MeaningJudge, mathematics: LimitedMathematics) -> None:
        self.solved: list[list[DrawnSample]] = [[] for _ in range(solvers)]
        self.arbitrated: list[DrawnSample] = []
        self.critiques: dict[int, Critique] = {}
        self.form = form
        self._meanings = meanings
        self._mathematics = mathematics
        self._counted: tuple[object, CountedSamples] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was sampled at all."""
        return not any(self.solved) and not self.arbitrated

    async def count(self) -> None:
        """Count the samples again where they have changed, in a thread where that takes long."""
        while self._counted is None or self._counted[0] != self._state:
            state, form, same_meaning = self._state, self.form, self._same_meaning
            solved, arbitrated = self._answers
            result = counted_canonical(solved, arbitrated, form)
            if result is None:
                result = await self._mathematics.run(
                    counted, solved, arbitrated, form, same_meaning, mathematics=self._mathematics
                )
            self._counted = (state, result)

    @property
    def counted(self) -> CountedSamples:
        """Return all samples by their answers, as `count` counted them.

        Raises:
            RuntimeError: When the samples have changed since, which is a mistake of the caller.
        """
        if self._counted is None or self._counted[0] != self._state:
            raise RuntimeError("the samples have changed since they were counted: `await count()` first")
        return self._counted[1]

    @property
    def _state(self) -> object:
        """Return the state that the counts depend on."""
        return (*map(len, self.solved), len(self.arbitrated), self.form, self._meanings.judged)

    @property
    def _same_meaning(self) -> MeaningJudge | None:
        return self._meanings if self.form.is_merged_by_meaning else None

    @property
    def _answers(self) -> tuple[list[list[str | None]], list[str | None]]:
        return [[drawn.found for drawn in samples] for samples in self.solved], [d.found for d in self.arbitrated]

    @property
    def tally(self) -> Tally:
        """Return the counts of all samples."""
        return self.counted.tally

    @property
    def found(self) -> list[str]:
        """Return every answer, as the samples spell it."""
        return [d.found for samples in (*self.solved, self.arbitrated) for d in samples if d.found is not None]

    def reread(self, form: AnswerForm, stages: Stages) -> None:
        """Read all solver samples again for answers of another form."""
        self.form = form
        self.solved = [[stages.read(drawn, form) for drawn in samples] for samples in self.solved]

    def representative(self, solver: int) -> DrawnSample | None:
        """Return a solver's first valid sample."""
        return next((drawn for drawn in self.solved[solver] if drawn.found is not None), None)

    def represented(self) -> list[Represented]:
        """Return every solver as the arbiter sees it."""
        shown = []
        for solver in range(len(self.solved)):
            trace = self.representative(solver)
            critique = self.critiques.get(solver)
            shown.append(
                Represented(
                    solver=solver,
                    trace=trace,
                    answer=trace.found or "" if trace else "",
                    critique=critique if critique and critique.succeeded else None,
                )
            )
        return shown

    def results(self, stages: Stages) -> list[SolverResult]:
        """Return the result of each solver."""
        answers = self.counted.solvers
        return [
            solver_result((solver, *stages.names(solver)), samples, answers[solver])
            for solver, samples in enumerate(self.solved)
        ]

    def samples(self) -> list[Sample]:
        """Return every sample in the order drawn, solvers first."""
        known = self.counted
        texts = [*(drawn for samples in self.solved for drawn in samples), *self.arbitrated]
        answers = [*(answer for answers in known.solvers for answer in answers), *known.arbiter]
        return [contract_sample(drawn, answer) for drawn, answer in zip(texts, answers, strict=True)]

    def text_of(self, answer: str, *, by_arbiter: bool) -> str:
        """Return the text of the first sample that holds `answer`."""
        known = self.counted
        texts = self.arbitrated if by_arbiter else [drawn for samples in self.solved for drawn in samples]
        answers = known.arbiter if by_arbiter else [given for answers in known.solvers for given in answers]
        return next((drawn.text for drawn, given in zip(texts, answers, strict=True) if given == answer), "")

    def drawn_event(self, solver: int | None, batch: int, planned: int, *, with_samples: bool) -> SamplesDrawn:
        """Return the event of the last `batch` samples of a solver, or of the arbiter."""
        known = self.counted
        tally = known.tally
        counts, invalid = (
            (tally.arbiter, tally.arbiter_invalid) if solver is None else (tally.solver, tally.solver_invalid)
        )
        texts, answers = (
            (self.arbitrated, known.arbiter) if solver is None else (self.solved[solver], known.solvers[solver])
        )
        last = list(zip(texts, answers, strict=True))[-batch:]
        return SamplesDrawn(
            phase=Phase.ARBITRATE if solver is None else Phase.SOLVE,
            solver=solver,
            batch=batch,
            drawn=sum(counts.values()) + invalid,
            planned=planned,
            counts=dict(sorted(counts.items())),
            invalid=invalid,
            entropy=entropy(list(counts.values())),
            leader=ranked_answers(counts, tally.solver)[0] if counts else None,
            leader_probability=None,
            samples=[contract_sample(*each) for each in last] if with_samples else (),
        )


def with_answers(
    samples: Sequence[DrawnSample], form: AnswerForm, stages: Stages, solver: int | None
) -> list[DrawnSample]:
    """Return the samples with their answers and their solver."""
    return [replace(stages.read(drawn, form), solver=solver) for drawn in samples]
