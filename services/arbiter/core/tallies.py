"""Counted samples of many questions as arrays, so that all of them are measured at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel.values import value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@value
class Tally:
    """Counted samples of one question.

    Attributes:
        solvers: Valid samples of each solver by canonical answer [count, >= 1].
        solver_invalid: Solver samples without a valid answer [count].
        arbiter: Valid arbitration samples by canonical answer [count, >= 1].
        arbiter_invalid: Arbitration samples without a valid answer [count].
    """

    solvers: Sequence[Mapping[str, int]]
    solver_invalid: int = 0
    arbiter: Mapping[str, int]
    arbiter_invalid: int = 0

    @property
    def answers(self) -> tuple[str, ...]:
        """All answers, in canonical order."""
        return tuple(sorted({answer for counts in (*self.solvers, self.arbiter) for answer in counts}))

    @property
    def solver(self) -> dict[str, int]:
        """Valid samples of all solvers by canonical answer [count]."""
        total: dict[str, int] = {}
        for counts in self.solvers:
            for answer, count in counts.items():
                total[answer] = total.get(answer, 0) + count
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """Counted samples of many questions; an answer's place in a question is its place in canonical order.

    Attributes:
        solvers: Valid samples [questions x solvers x answers, count].
        arbiter: Valid arbitration samples [questions x answers, count].
        solver_invalid: Solver samples without a valid answer [questions, count].
        arbiter_invalid: The same of the arbiter [questions, count].
    """

    solvers: Ints
    arbiter: Ints
    solver_invalid: Ints
    arbiter_invalid: Ints

    @property
    def solver(self) -> Ints:
        """Valid samples of all solvers [questions x answers, count]."""
        total: Ints = self.solvers.sum(axis=1)
        return total


def stacked(tallies: Sequence[Tally]) -> Tallies:
    """`tallies` as arrays, padded with zeros to the most solvers and answers."""
    answers = [tally.answers for tally in tallies]
    shape = (
        len(tallies),
        max((len(tally.solvers) for tally in tallies), default=1) or 1,
        max(map(len, answers), default=1) or 1,
    )
    solvers, arbiter = np.zeros(shape, dtype=np.int64), np.zeros((shape[0], shape[2]), dtype=np.int64)
    for question, (tally, known) in enumerate(zip(tallies, answers, strict=True)):
        place = {answer: index for index, answer in enumerate(known)}
        for solver, counts in enumerate(tally.solvers):
            for answer, count in counts.items():
                solvers[question, solver, place[answer]] = count
        for answer, count in tally.arbiter.items():
            arbiter[question, place[answer]] = count
    return Tallies(
        solvers=solvers,
        arbiter=arbiter,
        solver_invalid=np.array([tally.solver_invalid for tally in tallies], dtype=np.int64),
        arbiter_invalid=np.array([tally.arbiter_invalid for tally in tallies], dtype=np.int64),
    )
