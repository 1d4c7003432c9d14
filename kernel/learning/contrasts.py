"""A contrast is what set an assignment of roles apart from the others that were possible for the same question.

An answer is right or wrong mostly because its question is easy or hard, and states differ more between questions than
between agents. So weights are learned from contrasts within a question: the level of the agent that had a role, less
the average level of all assignments that were possible. Where chance gives the roles, and deliberations count by how
unlikely they were, contrasts have nothing to do with the question.

Source: inverse propensity weighting (Horvitz and Thompson 1952; papers.md 1.6), with the assignments equally likely as
target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import factorial

import numpy as np

from kernel.assignment import AssignedAgents
from kernel.msv import MSV
from kernel.roles import CHAIN_ROLES, FITNESS_TERMS, ROLES, Floats, term_levels
from kernel.statistics.samples import effective_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliberated:
    """This value is one deliberation whose answer has a label.

    Attributes:
        agents: Identifiers in ascending order.
        msvs: Their states on the question.
        capacities: Roles that each could hold [count, >= 1].
        chosen: Place of the agent that had each role, in the order of `ROLES`.
        propensity: Probability with which these roles were drawn [0 < p <= 1].
        score: How right the answer was [0..1].
    """

    agents: tuple[str, ...]
    msvs: tuple[MSV, ...]
    capacities: tuple[int, ...]
    chosen: AssignedAgents
    propensity: float
    score: float


@cache
def holding_shares(capacities: tuple[int, ...]) -> tuple[float, ...]:
    """Return the share of all possible assignments in which each agent has one given role [0..1]; they sum to 1.

    Args:
        capacities: Roles that each agent may hold [count, >= 1].

    Raises:
        ValueError: When the agents together cannot hold all roles.

    Example:
        >>> holding_shares((3, 2)), holding_shares((1, 4)), holding_shares((1,) * 5)
        ((0.6, 0.4), (0.2, 0.8), (0.2, 0.2, 0.2, 0.2, 0.2))
    """
    total = _assignments(capacities)
    if not total:
        raise ValueError(f"agents that may hold {sum(capacities)} roles in all cannot hold {len(ROLES)}")
    return tuple(
        round(sum(held * ways for held, ways in enumerate(_held(capacities, agent))) / total / len(ROLES), 12)
        for agent in range(len(capacities))
    )


@cache
def possible_assignments(capacities: tuple[int, ...]) -> int:
    """Return the number of assignments that the capacities allow.

    Args:
        capacities: Roles that each agent may hold [count, >= 1].

    Returns:
        Their number [count, >= 0].

    Example:
        >>> possible_assignments((1,) * 5), possible_assignments((3, 3))
        (120, 20)
    """
    return round(_assignments(capacities))


def contrasts(deliberations: Sequence[Deliberated]) -> Floats:
    """Return for each deliberation, chain role and term the level of the agent that had the role, less the average one.

    Returns:
        [deliberations x CHAIN_ROLES x TERMS, -1..1]; 0 where the level is unknown, which carries no information.
    """
    return np.array([_contrast(each) for each in deliberations], dtype=float).reshape(
        len(deliberations), len(CHAIN_ROLES), len(FITNESS_TERMS)
    )


def counting_weights(deliberations: Sequence[Deliberated]) -> Floats:
    """Return how much each deliberation counts, as if all assignments of a question had been equally likely.

    Returns:
        For each deliberation 1 / (number of possible assignments · propensity), scaled to sum to the effective number
        of deliberations [count, > 0; shape (n,)].
    """
    raw = np.array([1 / (possible_assignments(each.capacities) * each.propensity) for each in deliberations])
    return raw * (effective_number(raw) / raw.sum()) if len(raw) else raw


def effective_number(weights: Floats) -> float:
    """Return the equally weighted observations that carry as much information as weighted ones [count].

    Args:
        weights: Weight of each observation [> 0, shape (n,)].

    Example:
        >>> effective_number(np.array([1.0, 1.0])), effective_number(np.array([3.0, 1.0]))
        (2.0, 1.6)
    """
    return effective_size(float(weights.sum()), float((weights**2).sum()))


def _contrast(each: Deliberated) -> Floats:
    levels = term_levels(each.msvs)
    known = ~np.isnan(levels)
    shares = np.where(known, np.array(holding_shares(each.capacities))[:, None], 0.0)
    masses = shares.sum(axis=0)
    average = (np.nan_to_num(levels) * shares).sum(axis=0) / np.where(masses > 0, masses, 1.0)
    had = levels[[each.chosen[ROLES.index(role)] for role in CHAIN_ROLES]]
    contrast: Floats = np.nan_to_num(had - average)
    return contrast


def _assignments(capacities: Sequence[int]) -> float:
    """Return 5! times the coefficient of x⁵ in the product over agents of Σ_j≤c x^j / j!."""
    return _coefficient([_ways(capacity) for capacity in capacities]) * factorial(len(ROLES))


def _held(capacities: Sequence[int], agent: int) -> list[float]:
    """Return the number of assignments in which `agent` has 0, 1, ... roles."""
    others = [_ways(capacity) for place, capacity in enumerate(capacities) if place != agent]
    alone = _ways(capacities[agent])
    counts = []
    for held in range(len(ROLES) + 1):
        only = np.zeros(len(ROLES) + 1)
        only[held] = alone[held]
        counts.append(_coefficient([only, *others]) * factorial(len(ROLES)))
    return counts


def _ways(capacity: int) -> Floats:
    return np.array([1 / factorial(held) if held <= capacity else 0.0 for held in range(len(ROLES) + 1)])


def _coefficient(series: Sequence[Floats]) -> float:
    product = np.array([1.0])
    for each in series:
        product = np.convolve(product, each)[: len(ROLES) + 1]
    return float(product[-1])
