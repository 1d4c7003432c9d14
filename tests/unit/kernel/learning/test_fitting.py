import numpy as np
import pytest

from kernel.learning.contrasts import contrasts, counting_weights
from kernel.learning.fitting import advantages, fitted_role_weights, held_out_weights, informative_weights
from kernel.roles import CHAIN_ROLES, DEFAULT_WEIGHTS, FITNESS_TERMS, ROLES, Role, RoleWeights, checked_weights
from tests.support.models.simulated_deliberations import TRUTH, distance, simulated

MANY = simulated(500)
CONTRASTS, COUNTS = contrasts(MANY), counting_weights(MANY)
SCORES = np.array([each.score for each in MANY])


def fitted(count: int = len(MANY)) -> RoleWeights:
    return fitted_role_weights(CONTRASTS[:count], SCORES[:count], COUNTS[:count], DEFAULT_WEIGHTS)


def test_weights_that_decide_are_recovered() -> None:
    built = fitted()

    assert distance(DEFAULT_WEIGHTS, TRUTH) == pytest.approx(0.5)
    assert distance(built, TRUTH) < 0.2
    assert built[Role.EXPERT]["experience"] > built[Role.EXPERT]["correctness"]
    assert built[Role.SYNTHESIZER]["correctness"] > built[Role.SYNTHESIZER]["experience"]


def test_few_labels_leave_the_weights_near_the_defaults() -> None:
    assert distance(fitted(20), DEFAULT_WEIGHTS) < distance(fitted(300), DEFAULT_WEIGHTS)
    assert distance(fitted(20), DEFAULT_WEIGHTS) < 0.2


@pytest.mark.parametrize("count", [1, 20, 500])
def test_fitted_weights_are_weights(count: int) -> None:
    built = fitted(count)

    assert checked_weights(built) == built
    assert {role: set(built[role]) for role in ROLES} == {role: set(DEFAULT_WEIGHTS[role]) for role in ROLES}


def test_labels_on_the_answer_teach_nothing_of_the_note() -> None:
    assert fitted()[Role.GENERALIST] == DEFAULT_WEIGHTS[Role.GENERALIST]


def test_a_component_that_all_agents_share_keeps_its_weight() -> None:
    alike = CONTRASTS.copy()
    alike[:, :, FITNESS_TERMS.index("experience")] = 0.0

    built = fitted_role_weights(alike, SCORES, COUNTS, DEFAULT_WEIGHTS)

    assert built[Role.EVALUATOR]["experience"] == DEFAULT_WEIGHTS[Role.EVALUATOR]["experience"]
    assert built[Role.EVALUATOR]["correctness"] > 0.5  # of the 0.7 that correctness and conflict share
    assert built[Role.EXPERT] == DEFAULT_WEIGHTS[Role.EXPERT]  # one component alone cannot be weighed against another
    result = informative_weights(alike, COUNTS, DEFAULT_WEIGHTS)
    assert result.sum(axis=1).tolist() == [0, 2, 2, 0]


def test_levels_that_count_against_right_answers_leave_the_defaults() -> None:
    right = np.tile([1.0, 0.0], 200)
    against = np.where(right[:, None, None] > 0, -0.5, 0.5) * np.ones((400, 4, 6))

    assert fitted_role_weights(against, right, np.ones(400), DEFAULT_WEIGHTS) == DEFAULT_WEIGHTS


def test_an_advantage_is_the_weighted_sum_of_the_contrasts() -> None:
    contrasted = np.zeros((1, 4, 6))
    contrasted[0, CHAIN_ROLES.index(Role.EXPERT), FITNESS_TERMS.index("correctness")] = 0.5
    contrasted[0, CHAIN_ROLES.index(Role.CRITIC), FITNESS_TERMS.index("conflict")] = -0.25

    assert advantages(contrasted, DEFAULT_WEIGHTS).tolist() == [0.15]  # 0.6 x 0.5 - 0.6 x 0.25


def test_a_rare_assignment_counts_like_many_usual_ones() -> None:
    """Two kinds of deliberations that contradict each other: which one wins is a matter of how much each counts."""
    levels = np.zeros((2, 4, 6))
    levels[:, 0, [0, 2]] = [[0.5, -0.5], [-0.5, 0.5]]
    both = np.concatenate([levels] * 50)
    right = np.tile([1.0, 1.0], 50)
    right[:50:2] = 0.0

    weights = [
        fitted_role_weights(both, right, np.tile(counts, 50), DEFAULT_WEIGHTS)[Role.EXPERT]["experience"]
        for counts in ([1.0, 1.0], [1.0, 0.01])
    ]

    assert weights[0] > weights[1]


def test_a_deliberation_is_judged_by_weights_fitted_without_it() -> None:
    few, scores = slice(0, 60), SCORES[:60].copy()
    place = int(np.flatnonzero(scores == 1)[0])

    held = held_out_weights(CONTRASTS[few], scores, COUNTS[few], DEFAULT_WEIGHTS, np.random.default_rng(4))
    scores[place] = 0.6  # still right, so that the folds are the same
    other = held_out_weights(CONTRASTS[few], scores, COUNTS[few], DEFAULT_WEIGHTS, np.random.default_rng(4))

    same = [one == two for one, two in zip(held, other, strict=True)]
    assert same[place]
    assert 10 <= sum(same) <= 14  # its fold of five
    assert len({str(weights) for weights in held}) == 5
