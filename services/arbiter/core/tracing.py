"""Where the claims of the final stage come from: what is novel in them, and what traces to a solver, and how.

Source: SPEC 2.2. Similarity is the cosine of sentence embeddings.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernel.thresholds import DECIMALS
from kernel.values import value
from services.arbiter.core.claims import Claim

NOVEL_BELOW = 0.7

Vectors = NDArray[np.float32] | NDArray[np.float64]


@value
class Traced:
    """How the claims of the final stage relate to those of the solvers.

    Attributes:
        novelty: Share whose similarity to every solver claim is below the threshold [0..1]; None without a claim, and
            without a solver claim.
        symbolic: Share that traces to a solver claim by equal numbers or arithmetic [0..1].
        semantic: Share that traces by similarity only [0..1].
        untraced: Share that does not trace [0..1]; the three sum to 1.
        redundancy: Mean cosine over all pairs of claims [-1..1]; None with fewer than two claims.
        critique_novelty: Novelty of the critiques' claims [0..1]; None without one.
    """

    novelty: float | None
    symbolic: float | None
    semantic: float | None
    untraced: float | None
    redundancy: float | None
    critique_novelty: float | None


@value
class Spoken:
    """Claims of one stage with their unit vectors, one row a claim."""

    claims: Sequence[Claim]
    vectors: Vectors


def traced(solvers: Spoken, critiques: Spoken, final: Spoken, *, below: float, everything: Vectors) -> Traced:
    """The embedding measures of one question.

    Args:
        solvers: Claims of the solvers' representative traces.
        critiques: Claims of the critiques.
        final: Claims of the final stage.
        below: Similarity below which a claim is novel [-1..1].
        everything: Vectors of all claims, each once for each time that it was made.
    """
    nearest = nearest_cosines(final.vectors, solvers.vectors)
    novel = is_below(nearest, below)
    symbolic = np.array([by_symbols(claim, solvers.claims) for claim in final.claims], dtype=bool)
    known = len(final.claims) > 0 and len(solvers.claims) > 0
    shares = _shares(symbolic, novel) if known else (None, None, None)
    return Traced(
        novelty=float(novel.mean()) if known else None,
        symbolic=shares[0],
        semantic=shares[1],
        untraced=shares[2],
        redundancy=redundancy(everything),
        critique_novelty=_novelty(critiques, solvers, below),
    )


def nearest_cosines(of: Vectors, among: Vectors) -> NDArray[np.float64]:
    """For each vector the largest cosine to any of `among` [-1..1]; -inf where there is none. Vectors are unit vectors.

    Example:
        >>> nearest_cosines(np.eye(2), np.array([[0.6, 0.8]])).tolist()
        [0.6, 0.8]
    """
    if not len(of) or not len(among):
        return np.full(len(of), -np.inf)
    nearest: NDArray[np.float64] = (np.asarray(of, dtype=float) @ np.asarray(among, dtype=float).T).max(axis=1)
    return nearest


def is_below(cosines: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Whether each cosine is below the threshold, both rounded to 1e-9."""
    below: NDArray[np.bool_] = np.round(cosines, DECIMALS) < round(threshold, DECIMALS)
    return below


def redundancy(vectors: Vectors) -> float | None:
    """Mean cosine over all pairs of unit vectors [-1..1]; None with fewer than two.

    The squared length of their sum holds each pair twice and each vector once with itself.

    Example:
        >>> redundancy(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])) == 1 / 3
        True
    """
    count = len(vectors)
    if count < 2:
        return None
    total = np.asarray(vectors, dtype=float).sum(axis=0)
    itself = float((np.asarray(vectors, dtype=float) ** 2).sum())
    return (float(total @ total) - itself) / (count * (count - 1))


def by_symbols(claim: Claim, solver_claims: Sequence[Claim]) -> bool:
    """Whether the claim's numbers all stand in one solver claim, or an arithmetic expression of it does.

    A claim without numbers traces by no symbols.
    """
    if not claim.numbers:
        return False
    return any(claim.numbers <= other.numbers or claim.expressions & other.expressions for other in solver_claims)


def _shares(symbolic: NDArray[np.bool_], novel: NDArray[np.bool_]) -> tuple[float, float, float]:
    count = len(symbolic)
    semantic = int((~symbolic & ~novel).sum())
    untraced = int((~symbolic & novel).sum())
    return (count - semantic - untraced) / count, semantic / count, untraced / count


def _novelty(of: Spoken, solvers: Spoken, below: float) -> float | None:
    if not of.claims or not solvers.claims:
        return None
    return float(is_below(nearest_cosines(of.vectors, solvers.vectors), below).mean())
