"""Tallies are the counted samples of many questions, as arrays, so that all of them are measured at once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernel.answers import AnswerType, canonical, rules_of
from kernel.values import value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@value
class Tally:
    """A tally holds the counted samples of one question.

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
        """Return all answers, in canonical order."""
        return tuple(sorted({answer for counts in (*self.solvers, self.arbiter) for answer in counts}))

    @property
    def solver(self) -> dict[str, int]:
        """Return the valid samples of all solvers by canonical answer [count]."""
        total: dict[str, int] = {}
        for counts in self.solvers:
            for answer, count in counts.items():
                total[answer] = total.get(answer, 0) + count
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """This value holds the counted samples of many questions.

    An answer's place in a question is its place in canonical order.

    Attributes:
        solvers: Valid samples [questions x solvers x answers, count].
        arbiter: Valid arbitration samples [questions x answers, count].
        solver_invalid: Solver samples without a valid answer [count, shape (questions,)].
        arbiter_invalid: Arbitration samples without one [count, shape (questions,)].
    """

    solvers: Ints
    arbiter: Ints
    solver_invalid: Ints
    arbiter_invalid: Ints

    @property
    def solver(self) -> Ints:
        """Return the valid samples of all solvers [questions x answers, count]."""
        total: Ints = self.solvers.sum(axis=1)
        return total


def stacked_tallies(tallies: Sequence[Tally]) -> Tallies:
    """Return `tallies` as arrays, padded with zeros to the most solvers and answers."""
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


def is_already_canonical(answer: str, answer_type: AnswerType) -> bool:
    """Return whether `answer` is its own canonical form, and equal to no other.

    Example:
        >>> [is_already_canonical(answer, AnswerType.NUMBER) for answer in ("12", "-7", "012", "12.0")]
        [True, True, False, False]
    """
    pattern = rules_of(answer_type).simple_form
    return pattern is not None and pattern.fullmatch(answer) is not None


def simple_canonical_forms(
    answers: Sequence[str], answer_type: AnswerType, options: Sequence[str] = ()
) -> dict[str, str | None] | None:
    r"""Return the canonical form of each distinct answer, None for an invalid one; None where equality takes more.

    Example:
        >>> simple_canonical_forms(["12", "12.0", "?"], AnswerType.NUMBER)
        {'12': '12', '12.0': '12', '?': None}
        >>> simple_canonical_forms(["2", r"\sqrt{4}"], AnswerType.NUMBER) is None
        True
    """
    if rules_of(answer_type).simple_form is None or options:
        return None
    forms = {
        answer: answer if is_already_canonical(answer, answer_type) else _read(answer, answer_type)
        for answer in set(answers)
    }
    if all(form is None or is_already_canonical(form, answer_type) for form in forms.values()):
        return dict(sorted(forms.items()))
    return None


def most_frequent_spellings(answers: Sequence[str], forms: Mapping[str, str | None]) -> dict[str, str]:
    """Return how each answer is most often written; of several ways the first in code point order."""
    best: dict[str, str] = {}
    for answer, _ in sorted(Counter(answers).items(), key=lambda spelling: (-spelling[1], spelling[0])):
        form = forms[answer]
        if form is not None:
            best.setdefault(form, answer)
    return best


@lru_cache(maxsize=65_536)
def _read(answer: str, answer_type: AnswerType) -> str | None:
    return canonical(answer, answer_type)
