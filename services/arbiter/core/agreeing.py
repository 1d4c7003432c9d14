"""Whether solvers agree, and what can be known of that before all their samples are in (SPEC 2.4 a)."""

from kernel.answers import entropy
from kernel.thresholds import exceeds
from services.arbiter.core.choosing import Counts, ranked
from services.arbiter.core.tallies import Tally


def agree(counts: Counts, most: float = 0.0) -> bool:
    """Whether the entropy of the solvers' answers is at most `most` [nats]; without a valid sample they do not agree.

    Example:
        >>> agree({"12": 10}), agree({"12": 9, "13": 1}), agree({})
        (True, False, False)
    """
    level = entropy(list(counts.values()))
    return level is not None and not exceeds(level, most)


def is_consensus(tally: Tally, most: float = 0.0) -> bool:
    """Whether solvers agree, and enough was said for that to mean something.

    At least half of the samples must be valid, and at least two solvers must have a valid one where two were asked.

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
    speaking = sum(bool(given) for given in tally.solvers)
    enough = valid >= tally.solver_invalid and speaking >= min(2, len(tally.solvers))
    return enough and agree(counts, most)


def must_disagree(counts: Counts, remaining: int, most: float = 0.0) -> bool:
    """Whether no outcome of the `remaining` samples could make the solvers agree.

    More samples lower the entropy of given counts most when all of them fall to the leader: a mass added to an answer
    lowers it as long as the answer's share is above exp(-H), which the largest share always is.

    Example:
        >>> must_disagree({"12": 1, "13": 1}, 8), must_disagree({"12": 2}, 8), must_disagree({"12": 1, "13": 1}, 8, 0.4)
        (True, False, False)
    """
    if not counts:
        return False
    leader = ranked(counts, counts)[0]
    return not agree({**counts, leader: counts[leader] + remaining}, most) and not agree(counts, most)


def certain_consensus(counts: Counts, remaining: int, most: float = 0.0) -> bool:
    """Whether the solvers agree so far, and no outcome of the `remaining` samples could give another answer the lead.

    Example:
        >>> certain_consensus({"12": 6}, 4), certain_consensus({"12": 5}, 5), certain_consensus({"12": 5, "13": 1}, 4)
        (True, False, False)
    """
    if not agree(counts, most):
        return False
    first, *others = sorted(counts.values(), reverse=True)
    return first > remaining + max(others, default=0)


def first_step(solver_samples: int) -> int:
    """Samples of each solver in a first step after which unanimous solvers cannot be outvoted [count, >= 1].

    Example:
        >>> [first_step(samples) for samples in (1, 2, 5, 10)]
        [1, 2, 3, 6]
    """
    return solver_samples // 2 + 1
