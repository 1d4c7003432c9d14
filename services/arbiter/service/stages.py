"""What an arbitration needs from whoever samples: models, or a recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernel.errors import MetacogError
from services.arbiter.service.samples import AnswerForm, DrawnSamples
from services.arbiter.service.values import Critique

SOLVE, CRITIQUE, ARBITRATE, COMPARE = "solve", "critique", "arbitrate", "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Samples of one call, and why some or all are missing."""

    samples: Sequence[DrawnSamples] = ()
    failure: MetacogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Represented:
    """A solver, as critic and arbiter see it.

    Attributes:
        solver: The solver, from 0.
        trace: Its first valid sample; None when it has none.
        answer: The answer in it.
        critique: Critique of it; None without one.
    """

    solver: int
    trace: DrawnSamples | None
    answer: str = ""
    critique: Critique | None = None


class Stages(Protocol):
    """Who samples."""

    @property
    def shortened(self) -> Sequence[str]:
        """Names of the texts that were shortened to fit a prompt."""

    @property
    def digests(self) -> Mapping[str, str]:
        """Digest of each prompt template used, by its name."""

    def names(self, solver: int) -> tuple[str, str]:
        """Agent and model of a solver."""

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Agent and model of the arbiter."""

    def read(self, drawn: DrawnSamples, form: AnswerForm) -> DrawnSamples:
        """The sample with the answer of this form that it holds."""

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """`count` samples of a solver, the first of which is its sample `offset`."""

    async def criticise(self, solver: int, trace: DrawnSamples) -> Critique:
        """A critique of a solver's representative trace; a failure is told in it."""

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """`count` samples of the arbiter, the first of which is its sample `offset`."""

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """For each answer the place, from 1, of the reference that says the same; 0 for none.

        Raises:
            MetacogError: When nobody can tell.
        """
