"""Stages of an arbitration from a recording; no model call."""

from collections.abc import Mapping, Sequence

import numpy as np

from kernel.envelope import StageUsage
from kernel.errors import MetacogError
from kernel.ledger import Ledger
from kernel.seeds import derived_seed
from services.arbiter.core.errors import RecordingTooShort
from services.arbiter.service.counting import Drawn, Form
from services.arbiter.service.stages import ARBITRATE, CRITIQUE, SOLVE, Batch, Represented
from services.arbiter.service.values import Critique, ReplayRequest, Sample


class Recorded:
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

    def read(self, drawn: Drawn, form: Form) -> Drawn:
        """The sample with the answer that was recorded."""
        return drawn

    async def solve(self, solver: int, form: Form, *, count: int, offset: int) -> Batch:
        """The next recorded samples of a solver."""
        return self._drawn(SOLVE, self.solved[solver], count, offset)

    async def criticise(self, solver: int, trace: Drawn) -> Critique:
        """The recorded critique; an empty one, which counts as written, where none was recorded."""
        critique = self._critiques.get(solver, Critique(solver=solver, succeeded=True))
        spent = critique.usage or StageUsage(generations=1)
        self._ledger.book(CRITIQUE, StageUsage(generations=1, completion_tokens=spent.completion_tokens))
        return critique

    async def arbitrate(self, solvers: Sequence[Represented], form: Form, *, count: int, offset: int) -> Batch:
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


def _as_drawn(sample: Sample) -> Drawn:
    return Drawn(
        text=sample.text,
        found=sample.answer,
        solver=sample.solver,
        tokens=sample.completion_tokens,
        truncated=sample.truncated,
    )
