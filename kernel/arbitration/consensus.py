"""The consensus rules decide which answer is given, and by which distribution.

Source: MC-MAS Eq. 5 and 6 (papers.md 2.1). Of answers that are equally frequent the one with more solver samples wins,
then the first in canonical order. Without a valid arbitration sample the solvers' vote is the answer; without any valid
sample there is none.
"""

from collections.abc import Mapping, Sequence
from math import ceil

from kernel.answers import entropy
from kernel.arbitration.modes import AnswerSource
from kernel.arbitration.tallies import Tally
from kernel.thresholds import exceeds
from kernel.values import value
from kernel.votes.states import ProbabilityState

# Samples of a vote that are drawn one by one [count].
SINGLE_VOTES = 5

Counts = Mapping[str, int]
"""Valid samples by canonical answer [count, >= 1]."""


@value
class ConsensusChoice:
    """This value is the answer of a question, with the distribution that gave it.

    Attributes:
        answer: Canonical form.
        source: Distribution that gave it.
        confidence: Its share there [0..1].
        tied: All answers that shared the lead, in order of preference; empty without a tie.
    """

    answer: str
    source: AnswerSource
    confidence: float
    tied: tuple[str, ...] = ()

    @property
    def confidence_state(self) -> ProbabilityState:
        """Return what the confidence is: a share of samples is not a probability of being right."""
        return ProbabilityState.UNCALIBRATED


def ranked_answers(counts: Counts, solver: Counts) -> Sequence[str]:
    """Return the answers of `counts`, the one to give first.

    Args:
        counts: Samples by answer [count, >= 1].
        solver: Samples of the solvers by answer, which decide between equal counts [count, >= 1].

    Example:
        >>> ranked_answers({"12": 2, "13": 2, "14": 1}, {"13": 6, "12": 4})
        ['13', '12', '14']
    """
    return sorted(counts, key=lambda answer: (-counts[answer], -solver.get(answer, 0), answer))


def consensus_choice(
    solver: Counts, arbiter: Counts, without_arbiter: AnswerSource = AnswerSource.SOLVER_FALLBACK
) -> ConsensusChoice | None:
    """Return the answer that the distributions give; None without any valid sample.

    Args:
        solver: Samples of the solvers by answer [count, >= 1].
        arbiter: Samples of the arbiter by answer [count, >= 1]; empty without one.
        without_arbiter: What the solvers' vote is called where it decides.

    Example:
        >>> consensus_choice({"12": 4, "13": 6}, {"12": 5, "13": 5}).answer
        '13'
        >>> consensus_choice({"12": 4, "13": 6}, {}).source
        <AnswerSource.SOLVER_FALLBACK: 'SOLVER_FALLBACK'>
    """
    counts, source = (arbiter, AnswerSource.ARBITER) if arbiter else (solver, without_arbiter)
    if not counts:
        return None
    order = ranked_answers(counts, solver)
    most = counts[order[0]]
    tied = tuple(answer for answer in order if counts[answer] == most)
    return ConsensusChoice(
        answer=order[0],
        source=source,
        confidence=most / sum(counts.values()),
        tied=tied if len(tied) > 1 else (),
    )


def solvers_agree(counts: Counts, most: float = 0.0) -> bool:
    """Return whether the entropy of the solvers' answers is at most `most` [nats].

    Without a valid sample they do not agree.

    Args:
        counts: Samples of the solvers by answer [count, >= 1].
        most: Entropy up to which they agree [nats, >= 0].

    Example:
        >>> solvers_agree({"12": 10}), solvers_agree({"12": 9, "13": 1}), solvers_agree({})
        (True, False, False)
    """
    level = entropy(list(counts.values()))
    return level is not None and not exceeds(level, most)


def is_consensus(tally: Tally, most: float = 0.0) -> bool:
    """Return whether the solvers agree on enough samples for that to mean something.

    At least half of the samples must be valid, and at least two solvers must have a valid one where there are two.

    Args:
        tally: The samples.
        most: Entropy up to which solvers agree [nats, >= 0].

    Source:
        Ours (papers.md 2.4); MC-MAS section 5.2 names the regime of high agreement.

    Example:
        >>> is_consensus(Tally(solvers=[{"12": 5}, {"12": 5}], arbiter={}))
        True
        >>> is_consensus(Tally(solvers=[{"12": 5}, {}], arbiter={}))
        False
        >>> is_consensus(Tally(solvers=[{"12": 1}, {"12": 1}], solver_invalid=8, arbiter={}))
        False
    """
    counts = tally.solver
    valid = sum(counts.values())
    with_valid = sum(bool(given) for given in tally.solvers)
    enough = valid >= tally.solver_invalid and with_valid >= min(2, len(tally.solvers))
    return enough and solvers_agree(counts, most)


def must_disagree(counts: Counts, remaining: int, most: float = 0.0) -> bool:
    """Return whether no outcome of the `remaining` samples could make the solvers agree.

    More samples lower the entropy of given counts most when all of them fall to the leader: a mass added to an answer
    lowers it as long as the answer's share is above exp(-H), which the largest share always is.

    Args:
        counts: Samples so far by answer [count, >= 1].
        remaining: Samples still to come [count, >= 0].
        most: Entropy up to which solvers agree [nats, >= 0].

    Example:
        >>> must_disagree({"12": 1, "13": 1}, 8), must_disagree({"12": 2}, 8), must_disagree({"12": 1, "13": 1}, 8, 0.4)
        (True, False, False)
    """
    if not counts:
        return False
    leader = ranked_answers(counts, counts)[0]
    return not solvers_agree({**counts, leader: counts[leader] + remaining}, most) and not solvers_agree(counts, most)


def is_certain_consensus(counts: Counts, remaining: int, most: float = 0.0) -> bool:
    """Return whether the solvers agree, and no outcome of the `remaining` samples could change the lead.

    Args:
        counts: Samples so far by answer [count, >= 1].
        remaining: Samples still to come [count, >= 0].
        most: Entropy up to which solvers agree [nats, >= 0].

    Example:
        >>> is_certain_consensus({"12": 6}, 4), is_certain_consensus({"12": 5}, 5)
        (True, False)
        >>> is_certain_consensus({"12": 5, "13": 1}, 4)
        False
    """
    if not solvers_agree(counts, most):
        return False
    first, *others = sorted(counts.values(), reverse=True)
    return first > remaining + max(others, default=0)


def first_step_samples(solver_samples: int) -> int:
    """Return the samples of each solver in a first step after which unanimous solvers cannot be outvoted [count, >= 1].

    Args:
        solver_samples: Samples of each solver in all [count, >= 1].

    Example:
        >>> [first_step_samples(samples) for samples in (1, 2, 5, 10)]
        [1, 2, 3, 6]
    """
    return solver_samples // 2 + 1


def vote_looks(samples: int) -> tuple[int, ...]:
    """Return the samples of each solver after which a vote is counted [count, >= 1]; the last are all.

    The first five come one by one, as in a vote; later ones in batches that grow by half, so that many samples which
    never agree take few calls.

    Args:
        samples: Samples of each solver in all [count, >= 1].

    Example:
        >>> vote_looks(3), vote_looks(5), vote_looks(20)
        ((1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 8, 12, 18, 20))
    """
    sizes = list(range(1, min(samples, SINGLE_VOTES) + 1))
    while sizes[-1] < samples:
        sizes.append(min(samples, ceil(sizes[-1] * 1.5)))
    return tuple(sizes)


def fair_split(wanted: Sequence[int], total: int) -> list[int]:
    """Return the samples for each, at most what it wants and `total` in all.

    They are dealt out one at a time, in order.

    Args:
        wanted: Samples that each wants [count, >= 0].
        total: Samples that there are [count, >= 0].

    Returns:
        Samples for each, in the order of `wanted` [count, 0..wanted].

    Example:
        >>> fair_split([5, 5], 62), fair_split([5, 5], 7), fair_split([1, 5], 4), fair_split([5, 5], 0)
        ([5, 5], [4, 3], [1, 3], [0, 0])
    """
    shares = [0] * len(wanted)
    left = min(total, sum(wanted))
    while left > 0:
        for place, most in enumerate(wanted):
            if left and shares[place] < most:
                shares[place] += 1
                left -= 1
    return shares
