"""This detector finds a change of an agent's competence: a generalized likelihood ratio over its recent outcomes.

Outcomes are right or wrong, and neither the old nor the new share of right ones is known beforehand. So the detector
computes for every place in the recent outcomes how much better two shares, one before and one after it, explain them
than a single one does. It needs no size of change to be set, finds rises as well as falls, and locates the change.
Page-Hinkley and CUSUM would need the size; ADWIN's bound is for any distribution, and so later for this one. The
threshold is set by simulation; `docs/evaluation/delegation-simulated.md` has delays and false alarms.

Source: MetaCogAgent VII, limitations (papers.md 3.6); the statistic as in Besson and Kaufmann 2019, for Bernoulli
outcomes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from kernel.thresholds import DECIMALS, exceeds
from kernel.values import value

DETECTOR = "bernoulli-glr"


@value
class DriftLimits:
    """These limits decide when a change counts as drift.

    Attributes:
        threshold: Value that the statistic must exceed [nats].
        window: Recent outcomes that are looked at [count].
        least: Outcomes that there must be on either side of a change [count, >= 1].
    """

    threshold: float = 9.0
    window: int = 200
    least: int = 5


DEFAULT_LIMITS = DriftLimits()


@value
class Split:
    """A split is the likeliest place of a change.

    Attributes:
        statistic: Log likelihood ratio of two shares against one [nats, >= 0].
        before: Share of right answers before the place [0..1].
        after: Share of right answers since [0..1].
        since: Outcomes since [count].
    """

    statistic: float
    before: float
    after: float
    since: int


def likeliest_change(outcomes: Sequence[int], least: int = 5) -> Split | None:
    """Return the place where two shares explain the outcomes best; None for too few outcomes.

    Args:
        outcomes: Outcome of each task, oldest first [right 1, wrong 0].
        least: Outcomes on either side [count, >= 1].

    Source:
        Besson and Kaufmann 2019 (papers.md 3.6): max_k [ k kl(m_1:k, m) + (n - k) kl(m_k+1:n, m) ], kl of Bernoulli
        distributions.

    Example:
        >>> split = likeliest_change([1] * 8 + [0] * 8)
        >>> split.since, split.before, split.after, round(split.statistic, 3)
        (8, 1.0, 0.0, 11.09)
    """
    n = len(outcomes)
    if n < 2 * least:
        return None
    right = np.concatenate([[0.0], np.cumsum(np.asarray(outcomes, dtype=np.float64))])
    places = np.arange(least, n - least + 1)
    heads, tails = right[places], right[n] - right[places]
    gain = _log_likelihood(heads, places) + _log_likelihood(tails, n - places)
    gain -= _log_likelihood(right[n:], np.array([n]))
    best = int(np.argmax(np.round(gain, DECIMALS)))
    place = int(places[best])
    return Split(
        statistic=round(max(0.0, float(gain[best])), DECIMALS),
        before=float(heads[best]) / place,
        after=float(tails[best]) / (n - place),
        since=n - place,
    )


def detected_change(outcomes: Sequence[int], limits: DriftLimits) -> Split | None:
    """Return a change in the recent outcomes, oldest first; None when none shows.

    Args:
        outcomes: Outcome of each task, oldest first [right 1, wrong 0].
        limits: When a change counts, and how far back it is looked for.
    """
    split = likeliest_change(outcomes[-limits.window :], limits.least)
    return split if split is not None and exceeds(split.statistic, limits.threshold) else None


def shortened_memory(memory: float, split: Split) -> float:
    """Return the observations that the estimate rests on once only those since the change count [count].

    Args:
        memory: Observations that the estimate rested on [count, >= 0].
        split: The change.
    """
    return min(memory, float(split.since))


def _log_likelihood(right: npt.NDArray[np.float64], n: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the largest log likelihood of `right` right outcomes among `n` [nats, <= 0]."""
    sides = xlogy(right, right / n) + xlogy(n - right, 1.0 - right / n)
    return np.asarray(sides, dtype=np.float64)
