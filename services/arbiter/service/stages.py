"""This interface is that of the stages that an arbitration draws samples from: models, or a recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernel.errors import MetacogError
from services.arbiter.service.samples import AnswerForm, DrawnSample
from services.arbiter.service.values import Critique

SOLVE, CRITIQUE, ARBITRATE, COMPARE = "solve", "critique", "arbitrate", "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch holds the samples of one call, and the error by which some or all are missing."""

    samples: Sequence[DrawnSample] = ()
    failure: MetacogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Represented:
    """This value is a solver, as critic and arbiter see it.

    Attributes:
        solver: The solver, from 0.
        trace: Its first valid sample; None when it has none.
        answer: The answer in it.
        critique: Critique of it; None without one.
    """

    solver: int
    trace: DrawnSample | None
    answer: str = ""
    critique: Critique | None = None


class Stages(Protocol):
    """An arbitration has these stages."""

    @property
    def shortened(self) -> Sequence[str]:
        """Return the names of the texts that were shortened to fit a prompt."""

    @property
    def digests(self) -> Mapping[str, str]:
        """Return the digest of each prompt template used, by its name."""

    def names(self, solver: int) -> tuple[str, str]:
        """Return agent and model of a solver."""

    @property
    def arbiter_names(self) -> tuple[str, str]:
        """Return agent and model of the arbiter."""

    def read(self, drawn: DrawnSample, form: AnswerForm) -> DrawnSample:
        """Return the sample with the answer of this form that it holds."""

    async def solve(self, solver: int, form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Draw `count` samples of a solver, the first of which is its sample `offset`."""

    async def criticise(self, solver: int, trace: DrawnSample) -> Critique:
        """Criticise a solver's representative trace; the critique reports a failure."""

    async def arbitrate(self, solvers: Sequence[Represented], form: AnswerForm, *, count: int, offset: int) -> Batch:
        """Draw `count` samples of the arbiter, the first of which is its sample `offset`."""

    async def match(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        """Return for each answer the place, from 1, of the reference that means the same; 0 for none.

        Raises:
            MetacogError: When the answers cannot be compared.
        """
