"""This module computes how often a stopping rule changes the answer: exactly, for every outcome of K_a samples.

Think of all K_a samples as drawn, in an urn. Samples are exchangeable, so the first n of them are a sample without
replacement, and every order of what was drawn is equally likely. So one walk over compositions serves every urn: how
probable it is that a given composition is reached without an earlier stop does not depend on the urn, and how probable
the composition itself is follows from binomial coefficients.

Urns hold two answers and invalid samples, or three answers. Answers are named in the order in which they win ties.

Source: ours (papers.md 2.4); `docs/evaluation/stopping.md` has the argument.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Bound = Callable[[Mapping[str, int], int], float]
"""A bound is compared with a level; it follows from the counts so far and the samples that are left."""

NAMES = ("a", "b", "c")
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Look:
    """A look is a number of samples after which a rule may stop, for every composition of them.

    Attributes:
        drawn: Samples drawn [count].
        bounds: What the rule compares with its level, by the counts of the first two kinds [0..1, shape (drawn + 1,
            drawn + 1)]; infinite where impossible.
        leaders: Place of the answer that leads, by the same [0..2, the same shape]; -1 where there is none.
    """

    drawn: int
    bounds: Floats
    leaders: Ints


def compositions_at_looks(looks: Sequence[int], bound: Bound, samples: int, *, third_answers: bool) -> tuple[Look, ...]:
    """Return every composition at each look but the last, at which all is known.

    Args:
        looks: Samples at which the rule may stop [count, rising]; the last is `samples`.
        bound: What the rule compares with its level.
        samples: Samples in the urn [count].
        third_answers: Whether the third kind is an answer; else it is an invalid sample.
    """
    return tuple(_look(n, bound, samples - n, third_answers) for n in looks[:-1])


def change_probabilities(looks: Sequence[Look], samples: int, level: float, *, third_answers: bool) -> Floats:
    """Return the probability that stopping at `level` changes the answer, by the counts of the first two kinds.

    Args:
        looks: Every composition at each look but the last.
        samples: Samples in the urn [count, >= 1].
        level: Bound up to which the rule stops [0..1].
        third_answers: Whether the third kind is an answer; else it is an invalid sample.

    Returns:
        Probabilities for each pair of counts [0..1, shape (samples + 1, samples + 1)].

    Example:
        Stop after one of three samples, whatever it is. The urn of one a and two b gives b in the end, and a is drawn
        first with probability 1/3.

        >>> first = compositions_at_looks((1, 3), lambda counts, left: 0.0, 3, third_answers=False)
        >>> round(float(change_probabilities(first, 3, 0.0, third_answers=False)[1, 2]), 4)
        0.3333
    """
    final = _leaders(samples, third_answers)
    wrong = np.zeros((samples + 1, samples + 1))
    for look, going in zip(looks, continuation_shares(looks, level), strict=True):
        stopped = np.where(look.bounds <= level, going, 0.0)
        for answer in range(len(NAMES) if third_answers else 2):
            mistaken = np.where(look.leaders != answer, stopped, 0.0)
            wrong += np.where(final == answer, _grown(mistaken, look.drawn, samples), 0.0)
    return wrong


def continuation_shares(looks: Sequence[Look], level: float) -> list[Floats]:
    """Return the share of the orders of each composition, at each look, that were not stopped before [0..1].

    Args:
        looks: Every composition at each look but the last.
        level: Bound up to which the rule stops [0..1].
    """
    shares: list[Floats] = []
    for place, look in enumerate(looks):
        if place == 0:
            shares.append(np.ones_like(look.bounds))
            continue
        before = looks[place - 1]
        going_on = np.where(before.bounds <= level, 0.0, shares[-1])
        shares.append(_grown(going_on, before.drawn, look.drawn))
    return shares


def _look(drawn: int, bound: Bound, left: int, third_answers: bool) -> Look:
    bounds = np.full((drawn + 1, drawn + 1), np.inf)
    for first in range(drawn + 1):
        for second in range(drawn + 1 - first):
            kinds = (first, second, drawn - first - second if third_answers else 0)
            counts = {name: count for name, count in zip(NAMES, kinds, strict=True) if count}
            bounds[first, second] = bound(counts, left) if counts else np.inf
    return Look(drawn=drawn, bounds=bounds, leaders=_leaders(drawn, third_answers))


def _leaders(drawn: int, third_answers: bool) -> Ints:
    """Return the place of the answer that leads, by the counts of the first two kinds; -1 where there is none."""
    first, second = np.indices((drawn + 1, drawn + 1))
    third = drawn - first - second
    kinds = np.stack([first, second, third if third_answers else np.zeros_like(third)])
    leaders: Ints = np.where((third < 0) | (kinds.max(axis=0) == 0), NO_LEADER, kinds.argmax(axis=0))
    return leaders


def _grown(weights: Floats, small: int, large: int) -> Floats:
    """Return the mean of `weights` over the first `small` samples of each composition of `large`, in any order.

    Args:
        weights: By the counts of the first two kinds among `small` samples.
        small: Samples of the part [count].
        large: Samples of the whole [count].
    """
    ways, of_first = _ways(large)[:, : small + 1], _of_first(small, large)
    first, second = np.indices((large + 1, large + 1))
    third = large - first - second
    # For each (a, b, c): the sum over (b', c') of C(a, a') C(b, b') C(c, c') weight.
    with_second = np.matmul(ways, _by_others(weights, small) * of_first)
    sums = np.einsum("abi,abi->ab", with_second, ways[np.maximum(third, 0)])
    means: Floats = np.where(third >= 0, sums, 0.0) / comb(large, small)
    return means


def _by_others(weights: Floats, small: int) -> Floats:
    """Return `weights` by the counts of the second and the third kind; 0 where they are impossible."""
    second, third = np.indices((small + 1, small + 1))
    first = small - second - third
    return np.where(first >= 0, weights[np.maximum(first, 0), second], 0.0)


@lru_cache(maxsize=32)
def _of_first(small: int, large: int) -> Floats:
    """Return C(a, a'), by a and the counts of the second and the third kind."""
    second, third = np.indices((small + 1, small + 1))
    first = small - second - third
    found: Floats = np.where(first >= 0, _ways(large)[:, np.maximum(first, 0)], 0.0)
    return found


@lru_cache(maxsize=64)
def _ways(large: int) -> Floats:
    """Return the binomial coefficients of all numbers up to `large`."""
    numbers = np.arange(large + 1)
    found: Floats = np.asarray(comb(numbers[:, None], numbers[None, :]), dtype=np.float64)
    return found
