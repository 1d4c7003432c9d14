"""These fits find the weights under which the roles' fitness separates right answers from wrong ones."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from kernel.roles import CHAIN_ROLES, FITNESS_TERMS, ROLES, Floats, RoleWeights
from kernel.statistics.samples import FOLDS, RIGHT, stratified_folds
from kernel.statistics.weighing import FIRST_SLOPE, LEAST_SLOPE, PULL, rounded_weights

# Pull, first slope and least slope are those of the activation's weights: here the pull weighs as much as some hundred
# deliberations whose agents differ by a fifth.
# Components whose contrasts spread less than this do not distinguish agents; their weights cannot be learned.
LEAST_SPREAD = 0.01


def fitted_role_weights(contrasted: Floats, scores: Floats, counts: Floats, prior: RoleWeights) -> RoleWeights:
    """Fit the weights under which the roles' total fitness explains best how right answers are.

    The log-odds of a right answer are taken for an intercept plus, for each chain role, slope · Σ weight · contrast,
    with slope and weights >= 0. What is fitted is pulled towards `prior`. A component that does not distinguish agents
    keeps its weight, and the others of its role share the rest; a role whose levels carry no information, and the
    generalist, keep all theirs.

    Args:
        contrasted: Contrasts [deliberations x CHAIN_ROLES x TERMS].
        scores: How right each answer was [0..1, shape (n,)].
        counts: How much each deliberation counts [>= 0, shape (n,)].
        prior: The weights so far [>= 0, sum 1 for each role]; a component without weight stays so.

    Returns:
        Weights, to four decimals [>= 0, sum 1 for each role].

    Source:
        Ours (papers.md 1.6): logistic regression with a ridge, weights >= 0 with sum 1, drawn toward the defaults.
    """
    usable = informative_weights(contrasted, counts, prior)
    old = np.array([[prior[role].get(term, 0.0) for term in FITNESS_TERMS] for role in CHAIN_ROLES])
    shares = np.where(usable, old, 0.0)
    masses = shares.sum(axis=1)
    first = FIRST_SLOPE * (shares / np.where(masses > 0, masses, 1.0)[:, None])[usable]
    fit = minimize(
        _loss,
        np.append(first, 0.0),
        args=(contrasted[:, usable], scores, counts, first),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(first) + [(None, None)],
    )
    slopes = np.zeros_like(old)
    slopes[usable] = fit.x[:-1]
    fitted: dict[str, Mapping[str, float]] = {role: prior[role] for role in ROLES}
    for row, role in enumerate(CHAIN_ROLES):
        total = slopes[row].sum()
        if total > LEAST_SLOPE:
            weights = np.where(usable[row], masses[row] * slopes[row] / total, old[row])
            fitted[role] = _rounded(weights, prior[role])
    return {role: fitted[role] for role in ROLES}


def informative_weights(contrasted: Floats, counts: Floats, prior: RoleWeights) -> NDArray[np.bool_]:
    """Return whether the data are informative on each weight [CHAIN_ROLES x TERMS].

    Two components of a role at least differ.

    Args:
        contrasted: Contrasts [deliberations x CHAIN_ROLES x TERMS, -1..1].
        counts: How much each deliberation counts [>= 0, shape (n,)].
        prior: The weights so far [>= 0, sum 1 for each role].
    """
    weighs = np.array([[prior[role].get(term, 0.0) > 0 for term in FITNESS_TERMS] for role in CHAIN_ROLES])
    total = counts.sum()
    spread = np.sqrt((counts[:, None, None] * contrasted**2).sum(axis=0) / (total if total > 0 else 1.0))
    usable: NDArray[np.bool_] = weighs & (spread > LEAST_SPREAD)
    usable &= (usable.sum(axis=1) > 1)[:, None]
    return usable


def advantages(contrasted: Floats, weights: RoleWeights) -> Floats:
    """Return how much fitter than the average one each assignment was for the chain, under `weights`.

    Args:
        contrasted: Contrasts [deliberations x CHAIN_ROLES x TERMS, -1..1].
        weights: Weights by role [>= 0, sum 1 for each role].

    Returns:
        Fitness of the chain above the average one, for each deliberation [-4..4, shape (n,)].
    """
    matrix = np.array([[weights[role].get(term, 0.0) for term in FITNESS_TERMS] for role in CHAIN_ROLES])
    summed: Floats = (contrasted * matrix).sum(axis=(1, 2))
    return summed.round(12)


def held_out_weights(
    contrasted: Floats, scores: Floats, counts: Floats, prior: RoleWeights, rng: np.random.Generator
) -> tuple[RoleWeights, ...]:
    """Return for each deliberation the weights fitted without it, by folds.

    Args:
        contrasted: Contrasts [deliberations x CHAIN_ROLES x TERMS, -1..1].
        scores: How right each answer was [0..1, shape (n,)].
        counts: How much each deliberation counts [>= 0, shape (n,)].
        prior: The weights so far [>= 0, sum 1 for each role].
        rng: Chance, for the folds.

    Returns:
        For each deliberation the weights fitted without it [>= 0, sum 1 for each role].
    """
    held: list[RoleWeights] = [prior] * len(scores)
    for part in stratified_folds(scores >= RIGHT, FOLDS, rng):
        rest = np.ones(len(scores), dtype=np.bool_)
        rest[part] = False
        fitted = fitted_role_weights(contrasted[rest], scores[rest], counts[rest], prior)
        for place in part:
            held[place] = fitted
    return tuple(held)


def _loss(fit: Floats, levels: Floats, scores: Floats, counts: Floats, first: Floats) -> tuple[float, Floats]:
    """Return the weighted log loss with the pull, and its gradient.

    `fit` is a slope for each component, then the intercept.
    """
    slopes, odds = fit[:-1], levels @ fit[:-1] + fit[-1]
    gaps = counts * (expit(odds) - scores)
    aside = slopes - first
    cost = counts @ (np.logaddexp(0, odds) - scores * odds) + PULL * aside @ aside / 2
    return float(cost), np.append(gaps @ levels + PULL * aside, gaps.sum())


def _rounded(weights: Floats, prior: Mapping[str, float]) -> Mapping[str, float]:
    """Return the weights of the terms of `prior`, to four decimals."""
    terms = list(prior)
    rounded = rounded_weights(weights[[FITNESS_TERMS.index(term) for term in terms]])
    return dict(zip(terms, rounded, strict=True))
