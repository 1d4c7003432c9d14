"""These measures show how information moves from solvers to arbiter, for many questions at once.

Source: MC-MAS Eq. 7 to 13 (papers.md 2.2). Logarithms are natural; what is undefined is NaN.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtrc, gammaln

from kernel.arbitration.tallies import Bools, Floats, Ints, Tallies

# Chance with which solvers of one distribution would differ as much, from which their disagreement is structured.
STRUCTURED_CHANCE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Information:
    """This value holds measures of distributions, one row a question; NaN where undefined.

    Attributes:
        entropy_solver: Entropy of the solvers' answers [nats, >= 0]; NaN without a valid sample.
        entropy_arbiter: Entropy of the arbiter's answers [nats, >= 0]; NaN without a valid sample.
        entropy_reduction: The first less the second [nats].
        compression: 1 - arbiter / solver [<= 1]; NaN where the solvers' is 0.
        solver_invalid_share: Share of invalid solver samples [0..1]; NaN without a sample.
        arbiter_invalid_share: Share of invalid arbiter samples [0..1]; NaN without a sample.
        solver_divergence: Jensen-Shannon divergence between the solvers [nats, >= 0]; NaN with fewer than two.
        sampling_divergence: What sampling alone would make of it [nats, >= 0].
        structured: Whether solvers differ clearly more than that; False where the divergence is NaN.
    """

    entropy_solver: Floats
    entropy_arbiter: Floats
    entropy_reduction: Floats
    compression: Floats
    solver_invalid_share: Floats
    arbiter_invalid_share: Floats
    solver_divergence: Floats
    sampling_divergence: Floats
    structured: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """This value holds the leading answers, one row a question.

    Attributes:
        answer: Place of the most frequent answer [0..answers - 1]; -1 without a valid sample.
        share: Its share [0..1]; NaN without a valid sample.
    """

    answer: Ints
    share: Floats


def information(tallies: Tallies) -> Information:
    """Return the measures of all questions.

    Source:
        MC-MAS Eq. 7 to 9 and 13 (papers.md 2.2): H = -sum p ln p, reduction = H_solver - H_arb, compression = 1 - H_arb
        / H_solver.
    """
    solver, arbiter = entropies(tallies.solver), entropies(tallies.arbiter)
    divided = np.divide(arbiter, solver, out=np.full_like(solver, np.nan), where=solver > 0)
    between = divergences(tallies.solvers)
    expected = sampling_divergences(tallies.solvers)
    return Information(
        entropy_solver=solver,
        entropy_arbiter=arbiter,
        entropy_reduction=solver - arbiter,
        compression=1.0 - divided,
        solver_invalid_share=_invalid_share(tallies.solver, tallies.solver_invalid),
        arbiter_invalid_share=_invalid_share(tallies.arbiter, tallies.arbiter_invalid),
        solver_divergence=between,
        sampling_divergence=expected,
        structured=_structured(tallies.solvers, between, expected),
    )


def entropies(counts: Ints) -> Floats:
    """Return the entropy of the shares that counts have in their sum, along the last axis [nats, >= 0].

    It is NaN for an empty sum.

    Args:
        counts: Samples by answer along the last axis [count, >= 0; shape (..., answers)].

    Example:
        >>> entropies(np.array([[3, 1], [4, 0], [0, 0]])).round(4).tolist()
        [0.5623, 0.0, nan]
    """
    total = counts.sum(axis=-1, keepdims=True)
    share = np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)
    nats = np.abs(_plogp(share).sum(axis=-1))
    return np.where(total[..., 0] > 0, nats, np.nan)


def leads(counts: Ints, solver: Ints) -> Leads:
    """Return the most frequent answers; of equally frequent ones that with more in `solver`, then the first.

    Args:
        counts: Counts [count, questions x answers].
        solver: Counts of the solvers [count, questions x answers].
    """
    total = counts.sum(axis=-1)
    best = np.argmax(counts * (solver.max(initial=0) + 1) + np.where(counts > 0, solver, 0), axis=-1)
    most = np.take_along_axis(counts, best[..., None], axis=-1)[..., 0]
    share = np.divide(most, total, out=np.full(total.shape, np.nan), where=total > 0)
    return Leads(answer=np.where(total > 0, best, -1), share=share)


def divergences(solvers: Ints) -> Floats:
    """Return the Jensen-Shannon divergence between solvers, weighted by their samples [nats, >= 0].

    It is NaN with fewer than two.

    Args:
        solvers: Counts [questions x solvers x answers].

    Example:
        >>> float(divergences(np.array([[[5, 0], [0, 5]]]))[0].round(4))
        0.6931
    """
    per_solver = solvers.sum(axis=-1)
    total = per_solver.sum(axis=-1, keepdims=True)
    weight = np.divide(per_solver, total, out=np.zeros(per_solver.shape), where=total > 0)
    within = np.nansum(weight * np.nan_to_num(entropies(solvers)), axis=-1)
    between = np.maximum(entropies(solvers.sum(axis=1)) - within, 0.0)
    return np.where((per_solver > 0).sum(axis=-1) >= 2, between, np.nan)


def sampling_divergences(solvers: Ints) -> Floats:
    """Return the divergence to expect if every solver's samples came from one and the same solver [nats, >= 0].

    For each solver in turn, all samples are drawn anew from its own shares, in parts as large as the solvers' samples;
    the expected divergence between the parts is exact, and the mean over the solvers is weighted by their samples.
    NaN with fewer than two solvers.

    Args:
        solvers: Samples of each solver by answer [count, questions x solvers x answers].

    Example:
        >>> sampling_divergences(np.array([[[5, 0], [0, 5]]])).tolist()
        [0.0]
    """
    sizes = solvers.sum(axis=-1)
    total = sizes.sum(axis=-1)
    expected = np.full(len(solvers), np.nan)
    for question in np.flatnonzero((sizes > 0).sum(axis=-1) >= 2):
        parts = tuple(sorted(int(size) for size in sizes[question] if size))
        rows = (row for row, size in zip(solvers[question].tolist(), sizes[question], strict=True) if size)
        shapes = [tuple(sorted(count for count in row if count)) for row in rows]
        of_each = [sum(shape) * _expected_divergence(shape, parts) for shape in shapes]
        expected[question] = max(0.0, sum(of_each) / total[question])
    return expected


@lru_cache(maxsize=65_536)
def _expected_divergence(counts: tuple[int, ...], parts: tuple[int, ...]) -> float:
    """Return the expected divergence between parts of these sizes, all drawn from the shares of `counts`."""
    drawn, whole = sum(counts), sum(parts)
    pooled = sum(_expected_term(whole, count, drawn) for count in counts)
    apart = sum(size / whole * _expected_term(size, count, drawn) for size in parts for count in counts)
    return pooled - apart


@lru_cache(maxsize=65_536)
def _expected_term(size: int, count: int, drawn: int) -> float:
    """Return the expected -x ln x of a share x among `size` samples of an answer whose probability is count / drawn."""
    if count == drawn:
        return 0.0
    hits = np.arange(1, size + 1)
    ways = gammaln(size + 1) - gammaln(hits + 1) - gammaln(size - hits + 1)
    chance = np.exp(ways + hits * np.log(count / drawn) + (size - hits) * np.log1p(-count / drawn))
    return float((chance * _plogp(hits / size)).sum())


def _structured(solvers: Ints, between: Floats, expected: Floats) -> Bools:
    """Return whether the likelihood ratio test finds the solvers' distributions different; 2 n JSD is its statistic."""
    known = ~np.isnan(between)
    apart = np.nan_to_num(between)
    solver_count = (solvers.sum(axis=-1) > 0).sum(axis=-1)
    answers = (solvers.sum(axis=1) > 0).sum(axis=-1)
    freedom = np.maximum((solver_count - 1) * (answers - 1), 1)
    chance = chdtrc(freedom, 2 * solvers.sum(axis=(1, 2)) * apart)  # of a chi-squared value at least as high
    found: Bools = known & (chance < STRUCTURED_CHANCE) & (apart > np.nan_to_num(expected))
    return found


def _plogp(share: Floats) -> Floats:
    """Return -x ln x, 0 at 0."""
    logs = np.log(share, out=np.zeros(share.shape), where=share > 0)
    terms: Floats = -share * logs
    return terms


def _invalid_share(valid: Ints, invalid: Ints) -> Floats:
    drawn: Ints = valid.sum(axis=-1) + invalid
    share: Floats = np.divide(invalid, drawn, out=np.full(drawn.shape, np.nan), where=drawn > 0)
    return share
