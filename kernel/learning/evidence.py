"""This evidence shows whether learned weights are better than those so far, and than weights learned from noise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernel.assignment import best_assignment, build_problem, greedy_assignment, total_fitness
from kernel.learning.contrasts import Deliberated, contrasts, counting_weights, effective_number
from kernel.learning.fitting import advantages, fitted_role_weights, held_out_weights
from kernel.roles import Floats, RoleWeights, fitness_matrix
from kernel.statistics.bootstrap import RESAMPLES, Estimate, bootstrap_difference, bootstrap_interval
from kernel.statistics.samples import RIGHT
from kernel.thresholds import reaches
from kernel.values import value

# Deliberations whose roles were as some weights would have given them, from which on their share of right answers
# is estimated [count].
LEAST_MATCHED = 30


@value
class WeightsMerit:
    """This value measures weights on deliberations that they were not fitted to.

    Attributes:
        discrimination: Probability that of a right and a wrong answer the right one had the fitter assignment [0..1].
        matched: Deliberations whose roles were given as these weights would give them [count].
        right_share: Share of right answers had these weights given all roles [0..1]; no value with fewer than
            `LEAST_MATCHED` of those.
    """

    discrimination: Estimate
    matched: int
    right_share: Estimate


@value
class Evidence:
    """This value compares fitted weights with the weights so far and with a control.

    Attributes:
        fitted: Weights fitted to all deliberations [>= 0, sum 1 for each role].
        deliberations: Deliberations [count].
        effective: Equally weighted ones that carry as much information [count].
        right: Those whose answer was right [count].
        before: The weights so far.
        after: Fitted weights, each deliberation by weights fitted without it.
        control: The same fitted to labels dealt out by chance.
        gain: Discrimination of fitted weights less that of the weights so far, paired.
        gain_over_control: The same less that of the control.
    """

    fitted: RoleWeights
    deliberations: int
    effective: float
    right: int
    before: WeightsMerit
    after: WeightsMerit
    control: WeightsMerit
    gain: Estimate
    gain_over_control: Estimate

    @property
    def shown(self) -> bool:
        """Return whether fitted weights are better than both: the two intervals lie above 0."""
        return all(found.low is not None and found.low > 0 for found in (self.gain, self.gain_over_control))


def evidence(
    deliberations: Sequence[Deliberated],
    prior: RoleWeights,
    *,
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
) -> Evidence:
    """Fit weights to `deliberations`, and compare them with the weights so far and with a control.

    Args:
        deliberations: Judged deliberations in which chance had a part in the roles.
        prior: The weights so far, towards which fitted ones are pulled [>= 0, sum 1 for each role].
        rng: Chance, for folds, control and resampling.
        resamples: Draws of each interval [count].
    """
    contrasted, counts = contrasts(deliberations), counting_weights(deliberations)
    scores = np.array([each.score for each in deliberations])
    held = held_out_weights(contrasted, scores, counts, prior, rng)
    shuffled = held_out_weights(contrasted, rng.permutation(scores), counts, prior, rng)
    evaluations = [
        _WeightsEvaluation(deliberations, contrasted, weights, scores >= RIGHT, counts)
        for weights in ([prior] * len(deliberations), held, shuffled)
    ]
    before, after, control = evaluations
    return Evidence(
        fitted=fitted_role_weights(contrasted, scores, counts, prior),
        deliberations=len(deliberations),
        effective=round(effective_number(counts), 3),
        right=int((scores >= RIGHT).sum()),
        before=before.merit(rng, resamples),
        after=after.merit(rng, resamples),
        control=control.merit(rng, resamples),
        gain=bootstrap_difference(weighted_auroc, before.columns, after.columns, rng=rng, resamples=resamples),
        gain_over_control=bootstrap_difference(
            weighted_auroc, control.columns, after.columns, rng=rng, resamples=resamples
        ),
    )


def weighted_auroc(scores: Floats, right: Floats, counts: Floats) -> float | None:
    """Return the probability that a right item scores above a wrong one, ties counting half.

    Each item counts as `counts` says.

    Args:
        scores: Score of each item, of which only the order matters [shape (n,)].
        right: Whether each item is right [1 or 0, shape (n,)].
        counts: How much each item counts [>= 0, shape (n,)].

    Returns:
        The probability [0..1]; None without both kinds.

    Source:
        Ours (papers.md 1.6): Mann and Whitney 1947, each deliberation counting by its weight.

    Example:
        >>> weighted_auroc(np.array([0.1, 0.4, 0.4]), np.array([0, 1, 0]), np.array([1.0, 1.0, 3.0]))
        0.625
    """
    _, places = np.unique(scores, return_inverse=True)
    rights = np.bincount(places, np.where(right, counts, 0.0))
    wrongs = np.bincount(places, np.where(right, 0.0, counts))
    if not rights.sum() or not wrongs.sum():
        return None
    below = np.cumsum(wrongs) - wrongs
    return float((rights * (below + wrongs / 2)).sum() / (rights.sum() * wrongs.sum()))


def matched_share(right: Floats, matched: Floats, counts: Floats) -> float | None:
    """Return the share of right answers among `matched` items, each counting as `counts` says; None without any.

    Args:
        right: How right the answer of each item is [0..1, shape (n,)].
        matched: Whether each item is one of those asked for [1 or 0, shape (n,)].
        counts: How much each item counts [>= 0, shape (n,)].

    Returns:
        The share [0..1]; None without a matched item.

    Source: the self-normalised estimate of a policy's value (Swaminathan and Joachims 2015; papers.md 1.6).
    """
    mass = float((matched * counts).sum())
    return float((right * matched * counts).sum() / mass) if mass > 0 else None


class _WeightsEvaluation:
    """This class evaluates weights on deliberations; each deliberation may have weights of its own."""

    def __init__(
        self,
        deliberations: Sequence[Deliberated],
        contrasted: Floats,
        weights: Sequence[RoleWeights],
        right: NDArray[np.bool_],
        counts: Floats,
    ) -> None:
        advantage_of_each = [advantages(one[None], each)[0] for one, each in zip(contrasted, weights, strict=True)]
        self.columns = (np.array(advantage_of_each), right, counts)
        self._matched = np.array(
            [is_best_for(one, each) for one, each in zip(deliberations, weights, strict=True)], dtype=float
        )

    def merit(self, rng: np.random.Generator, resamples: int) -> WeightsMerit:
        """Return the merit of the weights."""
        _, right, counts = self.columns
        matched = int(self._matched.sum())
        none = Estimate(value=None, low=None, high=None, items=len(right), resamples=0)
        columns = (right.astype(float), self._matched, counts)
        share = bootstrap_interval(matched_share, *columns, rng=rng, resamples=resamples)
        return WeightsMerit(
            discrimination=bootstrap_interval(weighted_auroc, *self.columns, rng=rng, resamples=resamples),
            matched=matched,
            right_share=share if matched >= LEAST_MATCHED else none,
        )


def is_best_for(each: Deliberated, weights: RoleWeights) -> bool:
    """Return whether the roles of a deliberation are the ones that `weights` would have given.

    Args:
        each: The deliberation.
        weights: Weights by role [>= 0, sum 1 for each role].
    """
    matrix = fitness_matrix(each.agents, each.msvs, weights)
    problem = build_problem(each.agents, matrix.fitness, capacities=each.capacities)
    greedy = greedy_assignment(problem)  # quickly found, and a bound that most assignments by chance miss
    if greedy is not None and not reaches(total_fitness(problem, each.chosen), total_fitness(problem, greedy)):
        return False
    return best_assignment(problem) == each.chosen
