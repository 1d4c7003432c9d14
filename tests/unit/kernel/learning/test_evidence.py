from dataclasses import replace

import numpy as np
import pytest

from kernel.learning.contrasts import Deliberated
from kernel.learning.evidence import LEAST_MATCHED, Evidence, evidence, is_best_for, matched_share, weighted_auroc
from kernel.roles import DEFAULT_WEIGHTS
from tests.support.models.simulated_deliberations import TRUTH, distance, right_share, simulated


def found(deliberations: list[Deliberated], seed: int = 0) -> Evidence:
    return evidence(deliberations, DEFAULT_WEIGHTS, rng=np.random.default_rng(seed), resamples=200)


def test_weights_that_decide_are_shown_to_be_better_than_the_defaults_and_than_chance() -> None:
    built = found(simulated(300))

    assert built.shown
    assert distance(built.fitted, TRUTH) < distance(DEFAULT_WEIGHTS, TRUTH) / 2
    assert right_share(built.fitted) > right_share(DEFAULT_WEIGHTS) + 0.1
    assert (built.deliberations, built.effective) == (300, 300.0)
    assert built.after.matched < LEAST_MATCHED  # one assignment in 120 is the one that some weights would have given
    assert built.after.right_share.value is None
    assert built.gain.value == pytest.approx(
        (built.after.discrimination.value or 0) - (built.before.discrimination.value or 0)
    )


def test_labels_that_are_dealt_out_by_chance_show_no_gain() -> None:
    result = simulated(200)
    scores = np.random.default_rng(5).permutation([each.score for each in result])

    built = found([replace(each, score=float(score)) for each, score in zip(result, scores, strict=True)])

    assert not built.shown


def test_defaults_that_are_right_already_are_not_beaten() -> None:
    assert not found(simulated(200, truth=DEFAULT_WEIGHTS)).shown


def test_a_share_of_chance_teaches_too_and_shows_how_right_the_usual_roles_are() -> None:
    result = simulated(300, share=0.3, hardness=0.5, seed=2)

    built = found(result)

    assert built.effective < 150  # 90 by chance, and what the others add
    assert built.before.matched > 175
    usual = [each.score for each in result if is_best_for(each, DEFAULT_WEIGHTS)]
    assert built.before.right_share.value == pytest.approx(sum(usual) / len(usual), abs=0.02)
    assert distance(built.fitted, TRUTH) < distance(DEFAULT_WEIGHTS, TRUTH)


def test_the_weighted_area_is_as_calculated() -> None:
    scores, right = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])

    # pairs: .9 over .5 and .1 (2 each way of weight), .5 ties .5, .5 over .1
    assert weighted_auroc(scores, right, np.ones(4)) == 0.875
    assert weighted_auroc(scores, right, np.array([1.0, 3.0, 1.0, 1.0])) == pytest.approx((2 + 1.5 + 3) / 8)
    assert weighted_auroc(scores, np.array([True] * 4), np.ones(4)) is None


def test_the_share_of_matched_answers_is_as_calculated() -> None:
    right, matched = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0])

    assert matched_share(right, matched, np.array([3.0, 1.0, 9.0, 9.0])) == 0.75
    assert matched_share(right, np.zeros(4), np.ones(4)) is None
