"""Which answer is given, and by which distribution.

Source: SPEC 2.1. Of answers that are equally frequent the one with more solver samples wins, then the first in
canonical order. Without a valid arbitration sample the solvers' vote is the answer; without any valid sample there is
none.
"""

from collections.abc import Mapping, Sequence

from kernel.values import value
from services.arbiter.core.kinds import Source

Counts = Mapping[str, int]
"""Valid samples by canonical answer [count, >= 1]."""


@value
class Choice:
    """The answer of a question.

    Attributes:
        answer: Canonical form.
        source: Distribution that gave it.
        confidence: Its share there [0..1].
        tied: All answers that shared the lead, in order of preference; empty without a tie.
    """

    answer: str
    source: Source
    confidence: float
    tied: tuple[str, ...] = ()


def ranked(counts: Counts, solver: Counts) -> Sequence[str]:
    """Answers of `counts`, the one to give first.

    Example:
        >>> ranked({"12": 2, "13": 2, "14": 1}, {"13": 6, "12": 4})
        ['13', '12', '14']
    """
    return sorted(counts, key=lambda answer: (-counts[answer], -solver.get(answer, 0), answer))


def chosen(solver: Counts, arbiter: Counts, without_arbiter: Source = Source.SOLVER_FALLBACK) -> Choice | None:
    """The answer that the distributions give; None without any valid sample.

    Args:
        solver: Counts of the solvers.
        arbiter: Counts of the arbiter; empty when it did not speak.
        without_arbiter: What the solvers' vote is called where it decides.

    Example:
        >>> chosen({"12": 4, "13": 6}, {"12": 5, "13": 5}).answer
        '13'
        >>> chosen({"12": 4, "13": 6}, {}).source
        <Source.SOLVER_FALLBACK: 'SOLVER_FALLBACK'>
    """
    counts, source = (arbiter, Source.ARBITER) if arbiter else (solver, without_arbiter)
    if not counts:
        return None
    order = ranked(counts, solver)
    most = counts[order[0]]
    tied = tuple(answer for answer in order if counts[answer] == most)
    return Choice(
        answer=order[0],
        source=source,
        confidence=most / sum(counts.values()),
        tied=tied if len(tied) > 1 else (),
    )
