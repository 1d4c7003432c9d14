from math import comb

import numpy as np
import pytest

from kernel.assignment import build_problem, count_assignments, random_assignment
from kernel.learning.contrasts import (
    Deliberated,
    contrasts,
    counting_weights,
    effective_number,
    holding_shares,
    possible_assignments,
)
from kernel.msv import MSV
from kernel.roles import CHAIN_ROLES, FITNESS_TERMS, Role

ADA = MSV(correctness=0.9, experience=0.5, conflict=0.1)
BEN = MSV(correctness=0.4, experience=0.5, conflict=0.6)


def deliberated(
    *, capacities: tuple[int, ...] = (3, 2), propensity: float = 0.1, msvs: tuple[MSV, ...] = (ADA, BEN)
) -> Deliberated:
    """Ada is expert, evaluator and generalist, Ben critic and synthesizer."""
    return Deliberated(
        agents=("ada", "ben"),
        msvs=msvs,
        capacities=capacities,
        chosen=(0, 1, 0, 1, 0),
        propensity=propensity,
        score=1.0,
    )


def contrast(each: Deliberated, role: Role, term: str) -> float:
    return float(contrasts([each])[0, CHAIN_ROLES.index(role), FITNESS_TERMS.index(term)])


@pytest.mark.parametrize(
    ("role", "term", "by_hand"),
    [
        (Role.EXPERT, "correctness", 0.2),  # 0.9 less 0.6 x 0.9 + 0.4 x 0.4 = 0.7
        (Role.CRITIC, "incorrectness", 0.3),  # 0.6 less 0.3
        (Role.CRITIC, "conflict", 0.3),  # 0.6 less 0.6 x 0.1 + 0.4 x 0.6 = 0.3
        (Role.SYNTHESIZER, "correctness", -0.3),
        (Role.EVALUATOR, "experience", 0.0),
    ],
)
def test_a_contrast_is_the_level_of_who_had_the_role_less_the_average_one(
    role: Role, term: str, by_hand: float
) -> None:
    assert contrast(deliberated(), role, term) == pytest.approx(by_hand)


def test_an_unknown_level_counts_neither_way() -> None:
    silent = deliberated(msvs=(ADA, MSV(experience=0.5, conflict=0.6)))

    assert contrast(silent, Role.CRITIC, "incorrectness") == 0.0  # nobody knows how sure Ben was
    assert contrast(silent, Role.EXPERT, "correctness") == pytest.approx(0, abs=1e-12)  # nobody to compare Ada with
    assert contrast(silent, Role.CRITIC, "conflict") == pytest.approx(0.3)


def test_the_generalist_has_no_contrast() -> None:
    assert Role.GENERALIST not in CHAIN_ROLES
    assert contrasts([deliberated()]).shape == (1, 4, 6)


@pytest.mark.parametrize("capacities", [(5,), (3, 2), (3, 3), (1, 4), (2, 2, 5), (1, 1, 1, 1, 1), (1, 2, 3, 4)])
def test_shares_and_counts_are_those_of_all_assignments(capacities: tuple[int, ...]) -> None:
    names = [f"a{place}" for place in range(len(capacities))]
    problem = build_problem(names, np.zeros((5, len(names))), capacities=capacities)
    rng = np.random.default_rng(0)

    drawn = np.array([random_assignment(problem, rng) for _ in range(500)])

    assert possible_assignments(capacities) == count_assignments(problem)
    seen = [float((drawn == place).mean()) for place in range(len(names))]
    assert holding_shares(capacities) == pytest.approx(seen, abs=0.05)  # 2,500 roles; standard deviation 0.01 at most
    assert sum(holding_shares(capacities)) == pytest.approx(1)


def test_what_cannot_be_assigned_has_no_shares() -> None:
    with pytest.raises(ValueError, match="may hold 4 roles in all"):
        holding_shares((2, 2))


def test_a_deliberation_counts_by_how_unlikely_its_roles_were() -> None:
    usual = deliberated(capacities=(3, 3), propensity=0.81)  # 20 assignments, a share of 0.2 by chance
    rare = deliberated(capacities=(3, 3), propensity=0.01)

    counts = counting_weights([usual, rare])

    assert comb(5, 2) + comb(5, 3) == 20
    assert counts[1] / counts[0] == pytest.approx(81)
    assert counts.sum() == pytest.approx(effective_number(np.array([1 / 81, 1.0])))


def test_equal_chances_count_alike() -> None:
    assert counting_weights([deliberated(propensity=0.1)] * 4).tolist() == pytest.approx([1.0] * 4)
    assert counting_weights([]).tolist() == []
    assert effective_number(np.array([])) == 0.0
