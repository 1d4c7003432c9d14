"""The stopping rule of arbitration bounds how likely the remaining samples are to change the answer.

Source: ours (papers.md 2.4). `docs/evaluation/stopping.md` has the argument. Two steps:

1. `change_bound`, after each batch: from the samples so far, a bound on the probability that all K_a samples would
   lead to another answer (posterior predictive; one pair of answers at a time, then the union bound).
2. `stopping_level`, once for K_a and the batches: how small that bound must be, so that early stopping gives another
   answer with at most the required probability. Given the K_a samples that would be drawn, the first n are a sample
   without replacement; so the error of the rule is computed exactly (`kernel.arbitration.polya`) for every split of K_a
   samples between two answers and invalid samples, and between three answers, and the largest of them is what counts.
   Questions with more answers than that are covered by simulation only. Above `MOST_JUDGED` samples an upper bound of
   that error takes its place (`error_bound`), so that the same promise holds with a stricter level.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from math import ceil

import numpy as np
from scipy.special import betaln, gammaln

from kernel.arbitration.consensus import Counts, ranked_answers
from kernel.arbitration.polya import Floats, Ints, Look, change_probabilities, compositions_at_looks
from kernel.values import value

# Samples that each answer of a pair counts as having had beforehand (Jeffreys).
PRIOR = 0.5
# By how much a batch makes the samples grow.
GROWTH = 1.6
# The most samples for which the error of a level is computed exactly: the cost grows with their third power.
MOST_JUDGED = 64
# The most samples for which it is bounded; more have no other early stop than an uncatchable leader.
MOST_BOUNDED = 512
# Levels that are tried there: each is this share of the one before.
_LEVEL_STEP = 0.8
_LEVELS = 64


@value
class StopRule:
    """This rule decides when adaptive arbitration stops.

    Attributes:
        samples: Arbitration samples at most, K_a [count, >= 1].
        first_batch: Samples of the first batch [count, >= 1].
        probability: Probability that all samples would give the same answer, from which no more are drawn [0.5..1].
            Above `MOST_BOUNDED` samples only a leader that cannot be caught stops early.
    """

    samples: int
    first_batch: int
    probability: float

    @property
    def looks(self) -> tuple[int, ...]:
        """Return the samples after which the rule is applied [count, rising]; the last are all."""
        return looks(self.samples, self.first_batch)

    @property
    def level(self) -> float:
        """Return the largest value of `change_bound` at which arbitration stops [0..1]."""
        return stopping_level(self.samples, self.first_batch, self.probability)


def looks(samples: int, first_batch: int) -> tuple[int, ...]:
    """Return the sizes that the sample grows to, batch by batch.

    Args:
        samples: Samples in all [count, >= 1].
        first_batch: Samples of the first batch [count, >= 1].

    Returns:
        Samples drawn after each batch [count, rising]; the last is `samples`.

    Example:
        >>> looks(50, 6), looks(3, 6)
        ((6, 10, 16, 26, 42, 50), (3,))
    """
    sizes = [min(first_batch, samples)]
    while sizes[-1] < samples:
        sizes.append(min(samples, ceil(sizes[-1] * GROWTH)))
    return tuple(sizes)


def is_uncatchable(counts: Counts, solver: Counts, remaining: int) -> bool:
    """Return whether no outcome of the `remaining` samples could give another answer the lead, ties included.

    Args:
        counts: Arbitration samples so far by answer [count, >= 1].
        solver: The solvers' samples by answer, which break ties [count, >= 1].
        remaining: Samples still to come; any of them may be invalid [count, >= 0].

    Example:
        >>> is_uncatchable({"12": 6}, {"12": 1}, 6), is_uncatchable({"12": 6}, {"13": 1}, 6)
        (True, False)
    """
    if not counts:
        return False
    leader, *others = ranked_answers(counts, solver)
    rivals = [*others, *(answer for answer in solver if answer not in counts)]
    is_held = all(_keeps_lead(counts, solver, leader, rival, remaining) for rival in rivals)
    # An answer that no sample gives yet has no solver sample: it loses a tie against one that has.
    no_new_leader = counts[leader] > remaining or (counts[leader] == remaining and solver.get(leader, 0) > 0)
    return is_held and no_new_leader


def change_bound(counts: Counts, solver: Counts, remaining: int) -> float:
    """Return an upper bound of the probability that the `remaining` samples change the answer so far [0..1].

    For each rival as if all remaining samples went to it or to the leader, which favours a change; summed over the
    rivals that have samples, and one that stands for all others.

    Args:
        counts: Arbitration samples so far by answer [count, >= 1].
        solver: The solvers' samples by answer, which break ties [count, >= 1].
        remaining: Samples still to come; any of them may be invalid [count, >= 0].

    Returns:
        The bound under a Beta(1/2, 1/2) prior on each pair; 1 without a valid sample.

    Example:
        >>> round(change_bound({"12": 6}, {"12": 1}, 44), 4), change_bound({"12": 6}, {"12": 1}, 5)
        (0.0023, 0.0)
    """
    if not counts:
        return 1.0
    leader, *others = ranked_answers(counts, solver)
    pairs = [(counts[leader], counts[rival], _wins_ties(solver, leader, rival)) for rival in others]
    # A new answer is taken to win ties, since it is unknown which one it will be.
    bound = sum(_overtaken(*pair, remaining) for pair in pairs) + _overtaken(counts[leader], 0, False, remaining)
    return min(1.0, bound)


@lru_cache(maxsize=64)
def stopping_level(samples: int, first_batch: int, probability: float) -> float:
    """Return a level for `change_bound` at which early stopping is right with `probability`, whatever the shares.

    Args:
        samples: Arbitration samples at most, K_a [count, >= 1]; above `MOST_BOUNDED` the level is 0.
        first_batch: Samples of the first batch [count, >= 1].
        probability: Required probability [0.5..1]; 1 gives 0, at which only an uncatchable leader stops.

    Returns:
        The largest level found by bisection over the bounds that can occur [0..1 - probability], for which
        `largest_error` is at most 1 - probability; above `MOST_JUDGED` samples the largest of a fixed row of levels
        for which `error_bound` is.

    Example:
        >>> 0.01 < stopping_level(50, 6, 0.95) < 0.02
        True
    """
    if samples > MOST_BOUNDED or probability >= 1.0:
        return 0.0
    allowed = 1.0 - probability
    if samples > MOST_JUDGED:
        row = [allowed * _LEVEL_STEP**step for step in range(_LEVELS)]
        place = bisect_left(row, True, key=lambda level: error_bound(samples, first_batch, level) <= allowed)
        return row[place] if place < _LEVELS else 0.0
    tables = _tables(samples, first_batch)
    bounds = [look.bounds[np.isfinite(look.bounds)] for table in tables.values() for look in table]
    possible = np.unique(np.concatenate([np.zeros(1), *bounds]))
    levels = possible[possible <= allowed]
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if largest_error(samples, first_batch, float(levels[middle])) <= allowed:
            low = middle
        else:
            high = middle - 1
    return float(levels[low])


def largest_error(samples: int, first_batch: int, level: float) -> float:
    """Return the largest probability that stopping at `level` changes the answer.

    Over all splits of `samples` between two answers and invalid samples, and between three answers.

    Args:
        samples: Arbitration samples at most, K_a [count, 1..`MOST_JUDGED`].
        first_batch: Samples of the first batch [count, >= 1].
        level: Level of `change_bound` [0..1].

    Returns:
        The probability [0..1].

    Example:
        >>> largest_error(50, 6, 0.05) > 0.1, largest_error(50, 6, stopping_level(50, 6, 0.95)) <= 0.05
        (True, True)
    """
    tables = _tables(samples, first_batch)
    return max(
        float(change_probabilities(table, samples, level, third_answers=third).max()) for third, table in tables.items()
    )


def error_bound(samples: int, first_batch: int, level: float) -> float:
    """Return an upper bound of the probability that stopping at `level` changes the answer.

    It holds for every split of `samples` between two answers and invalid samples, and between three answers. Let y lead
    at a look where x leads in the end. Of the m samples of the two so far, y has at least t, the fewest with which the
    rule stops; of the M samples of the two in all, y has at most half, and less where it wins ties. So its samples so
    far are hypergeometric, and P(at least t) is largest where y has most. The largest over m and M is summed over the
    looks, as if no look had stopped before, and over the two answers that may lead wrongly.

    Args:
        samples: Arbitration samples at most, K_a [count, >= 1].
        first_batch: Samples of the first batch [count, >= 1].
        level: Level of `change_bound` [0..1].

    Returns:
        The bound [0..1].

    Example:
        >>> error_bound(3, 1, 1.0), largest_error(50, 6, 0.001) <= error_bound(50, 6, 0.001) < 0.03
        (1.0, True)
    """
    stops = looks(samples, first_batch)[:-1]
    return min(1.0, 2.0 * sum(_error_at(drawn, samples - drawn, level) for drawn in stops))


def _error_at(drawn: int, remaining: int, level: float) -> float:
    """Return the largest probability of a wrong stop at one look, over the samples that two answers may have."""
    largest = 0.0
    for wins_ties in (False, True):
        leader = 1
        for both in range(1, drawn + 1):
            leader = max(leader, (both + 1 + (not wins_ties)) // 2)
            while leader <= both and _overtaken(leader, both - leader, wins_ties, remaining) > level:
                leader += 1
            if leader <= both:
                largest = max(largest, _leads_wrongly(leader, both, both + remaining, wins_ties))
    return largest


def _leads_wrongly(leader: int, both: int, most: int, wins_ties: bool) -> float:
    """Return the largest P(at least `leader` of the first `both` samples are of one kind) over all wholes up to `most`.

    The kind has half of the whole, or less where it wins ties, so that it does not lead in the end.
    """
    least = 2 * leader + wins_ties
    if least > most:
        return 0.0
    whole = np.arange(least, most + 1)[:, None]
    kind, found = (whole - wins_ties) // 2, np.arange(leader, both + 1)[None, :]
    others = both - found
    possible = (found <= kind) & (others <= whole - kind)
    logs = (
        _log_ways(kind, np.minimum(found, kind))
        + _log_ways(whole - kind, np.minimum(others, whole - kind))
        - _log_ways(whole, np.full_like(whole, both))
    )
    return float(np.where(possible, np.exp(logs), 0.0).sum(axis=1).max())


def _log_ways(of: Ints, taken: Ints) -> Floats:
    """Return the logarithms of binomial coefficients."""
    logs = _log_factorials()
    ways: Floats = logs[of] - logs[taken] - logs[of - taken]
    return ways


@lru_cache(maxsize=1)
def _log_factorials() -> Floats:
    found: Floats = gammaln(np.arange(MOST_BOUNDED + 1) + 1.0)
    return found


@lru_cache(maxsize=8)
def _tables(samples: int, first_batch: int) -> Mapping[bool, tuple[Look, ...]]:
    """Return every composition at every look, by whether the third kind of sample is an answer."""

    def bound(counts: Counts, left: int) -> float:
        return change_bound(counts, {}, left)

    stops = looks(samples, first_batch)
    return {third: compositions_at_looks(stops, bound, samples, third_answers=third) for third in (False, True)}


def _keeps_lead(counts: Counts, solver: Counts, leader: str, rival: str, remaining: int) -> bool:
    lead = counts[leader] - counts.get(rival, 0)
    return lead > remaining or (lead == remaining and _wins_ties(solver, leader, rival))


def _wins_ties(solver: Counts, leader: str, rival: str) -> bool:
    return (-solver.get(leader, 0), leader) < (-solver.get(rival, 0), rival)


def _overtaken(leader: int, rival: int, wins_ties: bool, remaining: int) -> float:
    """Return the posterior predictive probability that the rival ends ahead if the two share all remaining samples."""
    needed = -(-(leader - rival + remaining + wins_ties) // 2)
    if needed > remaining:
        return 0.0
    return _tail(leader, rival, remaining, max(0, needed))


@lru_cache(maxsize=65_536)
def _tail(leader: int, rival: int, remaining: int, needed: int) -> float:
    """Return P(the rival gets at least `needed` of the remaining samples): a beta-binomial."""
    gains = np.arange(needed, remaining + 1)
    ways = gammaln(remaining + 1) - gammaln(gains + 1) - gammaln(remaining - gains + 1)
    logs = (
        ways + betaln(rival + PRIOR + gains, leader + PRIOR + remaining - gains) - betaln(rival + PRIOR, leader + PRIOR)
    )
    return min(1.0, float(np.exp(logs).sum()))
