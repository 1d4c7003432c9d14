from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.errors import Code
from kernel.msv import COMPONENTS, MSV
from kernel.roles import (
    AUTHOR,
    CHAIN,
    DEFAULT_WEIGHTS,
    FITNESS_TERMS,
    ROLES,
    FitnessMatrix,
    InvalidWeights,
    Role,
    Stage,
    checked_weights,
    fitness_matrix,
)

ADA = MSV(correctness=0.8, experience=0.5, conflict=0.3, importance=0.6, emotional_response=0.2)


def fitness(msv: MSV, role: Role) -> float:
    return float(fitness_matrix(["ada"], [msv]).fitness[ROLES.index(role), 0])


def terms(built: FitnessMatrix, role: Role, agent: int = 0) -> dict[str, float]:
    row = built.terms[ROLES.index(role), agent]
    return {term: float(level) for term, level in zip(FITNESS_TERMS, row, strict=True) if not np.isnan(level)}


@pytest.mark.parametrize(
    ("role", "by_hand"),
    [
        (Role.EXPERT, 0.68),  # 0.6 x 0.8 + 0.4 x 0.5
        (Role.CRITIC, 0.26),  # 0.6 x 0.3 + 0.4 x (1 - 0.8)
        (Role.EVALUATOR, 0.56),  # 0.4 x 0.8 + 0.3 x 0.3 + 0.3 x 0.5
        (Role.SYNTHESIZER, 0.62),  # 0.6 x 0.5 + 0.4 x 0.8
        (Role.GENERALIST, 0.39),  # 0.4 x 0.6 + 0.3 x 0.3 + 0.3 x 0.2
    ],
)
def test_the_fitness_for_each_role_is_as_calculated(role: Role, by_hand: float) -> None:
    assert fitness(ADA, role) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("role", "by_hand"),
    [
        (Role.EXPERT, {"correctness": 0.48, "experience": 0.20}),
        (Role.CRITIC, {"conflict": 0.18, "incorrectness": 0.08}),
        (Role.EVALUATOR, {"correctness": 0.32, "conflict": 0.09, "experience": 0.15}),
        (Role.SYNTHESIZER, {"experience": 0.30, "correctness": 0.32}),
        (Role.GENERALIST, {"importance": 0.24, "conflict": 0.09, "emotional_response": 0.06}),
    ],
)
def test_each_cell_reports_its_terms(role: Role, by_hand: dict[str, float]) -> None:
    assert terms(fitness_matrix(["ada"], [ADA]), role) == pytest.approx(by_hand)


@pytest.mark.parametrize(("role", "weight"), [(Role.EXPERT, 0.4), (Role.EVALUATOR, 0.3), (Role.SYNTHESIZER, 0.6)])
def test_experience_counts_with_its_whole_weight_in_every_role_that_has_it(role: Role, weight: float) -> None:
    novice = MSV(correctness=0.5, conflict=0.5, experience=0.0)
    veteran = MSV(correctness=0.5, conflict=0.5, experience=1.0)

    assert fitness(veteran, role) - fitness(novice, role) == pytest.approx(weight)


@pytest.mark.parametrize("role", ROLES)
def test_the_default_weights_of_a_role_sum_to_one(role: Role) -> None:
    assert sum(DEFAULT_WEIGHTS[role].values()) == pytest.approx(1)


LEVELS = st.none() | st.floats(0, 1)
STATES = st.builds(MSV, **dict.fromkeys(COMPONENTS, LEVELS))


@given(st.lists(STATES, min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
def test_every_known_fitness_lies_in_its_range_and_is_the_sum_of_its_terms(msvs: list[MSV]) -> None:
    built = fitness_matrix([str(number) for number in range(len(msvs))], msvs)

    for row, role in enumerate(ROLES):
        for column in range(len(msvs)):
            cell = float(built.fitness[row, column])
            known = terms(built, role, column)
            assert known == {} if np.isnan(cell) else cell == pytest.approx(sum(known.values()))
            assert np.isnan(cell) or -1e-12 <= cell <= 1 + 1e-12


@given(STATES)
@settings(deadline=None, max_examples=50)
def test_a_cell_is_unknown_exactly_where_all_its_components_are(msv: MSV) -> None:
    built = fitness_matrix(["ada"], [msv])

    for row, role in enumerate(ROLES):
        assert np.isnan(built.fitness[row, 0]) == (set(built.unknown(role, 0)) == set(DEFAULT_WEIGHTS[role]))


@pytest.mark.parametrize(
    ("role", "by_hand"),
    [
        (Role.EXPERT, 0.8),  # 0.48 / 0.6
        (Role.EVALUATOR, 0.41 / 0.7),  # (0.32 + 0.09) / 0.7
        (Role.SYNTHESIZER, 0.8),  # 0.32 / 0.4
        (Role.CRITIC, 0.26),
        (Role.GENERALIST, 0.39),
    ],
)
def test_unknown_experience_is_left_out_and_the_rest_rescaled(role: Role, by_hand: float) -> None:
    newcomer = MSV(correctness=0.8, conflict=0.3, importance=0.6, emotional_response=0.2)

    assert fitness(newcomer, role) == pytest.approx(by_hand)


def test_unknown_correctness_is_left_out_of_both_its_polarities() -> None:
    unsure = MSV(experience=0.5, conflict=0.3, importance=0.6, emotional_response=0.2)

    built = fitness_matrix(["ada"], [unsure])

    assert terms(built, Role.EXPERT) == pytest.approx({"experience": 0.5})
    assert terms(built, Role.CRITIC) == pytest.approx({"conflict": 0.3})
    assert terms(built, Role.EVALUATOR) == pytest.approx({"conflict": 0.15, "experience": 0.25})  # over 0.6
    assert built.unknown(Role.EXPERT, 0) == ("correctness",)
    assert built.unknown(Role.CRITIC, 0) == ("incorrectness",)
    assert built.unknown(Role.GENERALIST, 0) == ()


def test_a_fitness_that_rests_on_nothing_is_unknown_and_not_zero() -> None:
    built = fitness_matrix(["ada"], [MSV(importance=0.6)])

    assert np.isnan(built.fitness[:4, 0]).all()
    assert built.fitness[4, 0] == pytest.approx(0.6)
    assert built.unknown(Role.EVALUATOR, 0) == ("correctness", "experience", "conflict")


def test_one_agents_unknowns_leave_the_others_alone() -> None:
    built = fitness_matrix(["ada", "ben"], [ADA, MSV()])

    assert built.fitness[0, 0] == pytest.approx(0.68)
    assert np.isnan(built.fitness[0, 1])


def test_more_doubt_makes_a_better_critic_and_a_worse_expert() -> None:
    doubts = [fitness(MSV(correctness=level, conflict=0.5, experience=0.5), Role.CRITIC) for level in (0.9, 0.5, 0.1)]
    trust = [fitness(MSV(correctness=level, conflict=0.5, experience=0.5), Role.EXPERT) for level in (0.9, 0.5, 0.1)]

    assert all(less < more for less, more in pairwise(doubts))
    assert all(more > less for more, less in pairwise(trust))


def test_weights_that_are_requested_replace_those_of_their_role_only() -> None:
    weights = checked_weights({Role.EXPERT: {"correctness": 1.0}})

    assert weights[Role.EXPERT] == {"correctness": 1.0}
    assert weights[Role.CRITIC] == {"conflict": 0.6, "incorrectness": 0.4}
    assert set(weights) == set(ROLES)


def test_a_component_of_weight_zero_is_neither_a_term_nor_missed() -> None:
    weights = checked_weights({Role.EXPERT: {"correctness": 1.0, "experience": 0.0}})

    built = fitness_matrix(["ada", "ben"], [ADA, MSV(correctness=0.4)], weights)

    assert built.fitness[0] == pytest.approx([0.8, 0.4])
    assert built.unknown(Role.EXPERT, 0) == built.unknown(Role.EXPERT, 1) == ()


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"correctness": 0.6, "experience": 0.5},
        {"correctness": 0.6, "experience": 0.3},
        {"correctness": 1.2, "experience": -0.2},
        {"correctness": float("nan")},
    ],
)
def test_weights_that_are_negative_or_do_not_sum_to_one_are_rejected(weights: dict[str, float]) -> None:
    with pytest.raises(InvalidWeights, match="weights of EXPERT must be >= 0 and sum to 1") as rejected:
        checked_weights({Role.EXPERT: weights})

    assert rejected.value.metadata == {"role": "EXPERT"}
    assert rejected.value.code is Code.INVALID_ARGUMENT


def test_a_weight_for_something_that_is_no_component_is_rejected_by_name() -> None:
    with pytest.raises(InvalidWeights) as rejected:
        checked_weights({Role.CRITIC: {"conflict": 0.5, "EM": 0.5}})

    assert rejected.value.metadata == {"role": "CRITIC", "component": "EM"}


def test_four_roles_write_the_chain_and_the_generalist_stands_outside() -> None:
    assert [AUTHOR[stage] for stage in CHAIN] == [Role.EXPERT, Role.CRITIC, Role.EVALUATOR, Role.SYNTHESIZER]
    assert AUTHOR[Stage.NOTE] is Role.GENERALIST
    assert Stage.NOTE not in CHAIN
