"""Where an arbitration stands: the samples so far, and what they say."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from kernel.answers import AnswerType, Mathematics, entropy
from kernel.arbitration.consensus import ranked
from kernel.arbitration.modes import Phase
from kernel.arbitration.tallies import Tally
from services.arbiter.service.meaning import MeaningJudge
from services.arbiter.service.samples import (
    AnswerForm,
    CountedSamples,
    DrawnSamples,
    contract_sample,
    counted,
    plainly_counted,
    solver_result,
)
from services.arbiter.service.stages import Represented, Stages
from services.arbiter.service.values import Critique, Sample, SamplesDrawn, SolverResult


class SampleState:
    """Samples of one arbitration.

    Args:
        solvers: Solvers [count].
        form: Form of the answer.
        meanings: Judgement of free texts.
        mathematics: Who compares expressions.

    Attributes:
        solved: Samples by solver, in the order drawn.
        arbitrated: Arbitration samples, in the order drawn.
        critiques: Critiques by solver.
        form: Form of the answer.
    """

    def __init__(self, solvers: int, form: AnswerForm, meanings: MeaningJudge, mathematics: Mathematics) -> None:
        self.solved: list[list[DrawnSamples]] = [[] for _ in range(solvers)]
        self.arbitrated: list[DrawnSamples] = []
        self.critiques: dict[int, Critique] = {}
        self.form = form
        self._meanings = meanings
        self._mathematics = mathematics
        self._counted: tuple[object, CountedSamples] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was sampled at all."""
        return not any(self.solved) and not self.arbitrated

    async def count(self) -> None:
        """Count anew what has changed, in a thread where that takes more than a look."""
        while self._counted is None or self._counted[0] != self._state:
            state, form, judge = self._state, self.form, self._judge
            solved, arbitrated = self._answers
            made = plainly_counted(solved, arbitrated, form)
            if made is None:
                made = await asyncio.to_thread(counted, solved, arbitrated, form, judge, self._mathematics)
            self._counted = (state, made)

    @property
    def counted(self) -> CountedSamples:
        """All samples by what they say; `count` has them counted."""
        if self._counted is None or self._counted[0] != self._state:
            made = counted(*self._answers, self.form, self._judge, self._mathematics)
            self._counted = (self._state, made)
        return self._counted[1]

    @property
    def _state(self) -> object:
        """What the counts depend on."""
        return (*map(len, self.solved), len(self.arbitrated), self.form, self._meanings.judged)

    @property
    def _judge(self) -> MeaningJudge | None:
        return self._meanings if self.form.answer_type is AnswerType.TEXT else None

    @property
    def _answers(self) -> tuple[list[list[str | None]], list[str | None]]:
        return [[drawn.found for drawn in samples] for samples in self.solved], [d.found for d in self.arbitrated]

    @property
    def tally(self) -> Tally:
        """Counts of all samples."""
        return self.counted.tally

    @property
    def found(self) -> list[str]:
        """Every answer, as it is written."""
        return [d.found for samples in (*self.solved, self.arbitrated) for d in samples if d.found is not None]

    def reread(self, form: AnswerForm, stages: Stages) -> None:
        """Look for answers of another form."""
        self.form = form
        self.solved = [[stages.read(drawn, form) for drawn in samples] for samples in self.solved]

    def representative(self, solver: int) -> DrawnSamples | None:
        """A solver's first valid sample."""
        return next((drawn for drawn in self.solved[solver] if drawn.found is not None), None)

    def represented(self) -> list[Represented]:
        """Every solver, as the arbiter sees it."""
        made = []
        for solver in range(len(self.solved)):
            trace = self.representative(solver)
            critique = self.critiques.get(solver)
            made.append(
                Represented(
                    solver=solver,
                    trace=trace,
                    answer=trace.found or "" if trace else "",
                    critique=critique if critique and critique.succeeded else None,
                )
            )
        return made

    def results(self, stages: Stages) -> list[SolverResult]:
        """What each solver gave."""
        answers = self.counted.solvers
        return [
            solver_result((solver, *stages.names(solver)), samples, answers[solver])
            for solver, samples in enumerate(self.solved)
        ]

    def samples(self) -> list[Sample]:
        """Every sample in the order drawn, solvers first."""
        known = self.counted
        texts = [*(drawn for samples in self.solved for drawn in samples), *self.arbitrated]
        answers = [*(answer for given in known.solvers for answer in given), *known.arbiter]
        return [contract_sample(drawn, answer) for drawn, answer in zip(texts, answers, strict=True)]

    def text_of(self, answer: str, *, by_arbiter: bool) -> str:
        """Text of the first sample that holds `answer`."""
        known = self.counted
        texts = self.arbitrated if by_arbiter else [drawn for samples in self.solved for drawn in samples]
        answers = known.arbiter if by_arbiter else [given for answers in known.solvers for given in answers]
        return next((drawn.text for drawn, given in zip(texts, answers, strict=True) if given == answer), "")

    def drawn_event(self, solver: int | None, batch: int, planned: int, *, with_samples: bool) -> SamplesDrawn:
        """Event that tells of the last `batch` samples of a solver, or of the arbiter."""
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
            leader=ranked(counts, tally.solver)[0] if counts else None,
            leader_probability=None,
            samples=[contract_sample(*each) for each in last] if with_samples else (),
        )


def taken(samples: Sequence[DrawnSamples], form: AnswerForm, stages: Stages, solver: int | None) -> list[DrawnSamples]:
    """Samples with their answers and their solver."""
    return [replace(stages.read(drawn, form), solver=solver) for drawn in samples]
