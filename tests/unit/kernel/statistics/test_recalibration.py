from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from kernel.statistics.recalibration import (
    FITS,
    Method,
    Point,
    calibrated,
    is_fit_due,
    isotonic_points,
    platt_curve,
    platt_points,
    recalibration,
)
from kernel.statistics.reliability import calibration_error, chance_calibration_error
from kernel.statistics.samples import stratified_folds

JUDGED = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.25, 1.0])), min_size=1, max_size=40)
MAP = (
    Point(confidence=0.2, calibrated=0.1),
    Point(confidence=0.6, calibrated=0.5),
    Point(confidence=0.8, calibrated=0.5),
)


def drawn(levels: np.ndarray, chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random(len(levels)) < chances).astype(float)


@pytest.mark.parametrize(
    ("labels", "since", "fitted_on", "due"),
    [
        (99, 99, None, False),
        (100, 100, None, True),
        (119, 19, 100, False),
        (120, 20, 100, True),
        (300, 22, 111, False),
        (300, 23, 111, True),
        (99, 50, 100, False),
        (100, 20, 100, True),
    ],
    ids=[
        "too few",
        "enough",
        "20 are a fifth of 100",
        "a fifth more",
        "22.2 are a fifth of 111",
        "more than a fifth",
        "too few are left",
        "labels may be deleted meanwhile",
    ],
)
def test_a_map_is_due_from_a_hundred_labels_and_after_a_fifth_more(
    labels: int, since: int, fitted_on: int | None, due: bool
) -> None:
    assert is_fit_due(labels, since=since, fitted_on=fitted_on) is due


def test_a_new_fit_takes_at_least_one_new_label() -> None:
    # A thousandth of 60 is 0.06, which no new label would reach; one is needed all the same.
    result = [is_fit_due(60, since=since, fitted_on=60, minimum=60, growth=0.001) for since in (0, 1)]

    assert result == [False, True]


def test_between_points_a_map_is_linear_and_beyond_them_level() -> None:
    result = [calibrated(MAP, confidence) for confidence in (0.0, 0.2, 0.3, 0.6, 0.7, 0.8, 1.0)]

    assert result == [0.1, 0.1, 0.2, 0.5, 0.5, 0.5, 0.5]


def test_without_a_map_confidence_is_as_it_is() -> None:
    assert calibrated((), 0.37) == 0.37


def test_falling_shares_are_pooled_by_hand() -> None:
    # Two right, two wrong: 0 1 0 1 are smoothed to 1/4 3/4 1/4 3/4; the middle two fall, and are pooled to 1/2.
    points = isotonic_points([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])

    assert [(p.confidence, p.calibrated) for p in points] == [
        (0.2, 0.25),
        (0.4, 0.5),
        (0.6, 0.5),
        (0.8, 0.75),
    ]


def test_the_inside_of_a_step_is_left_out() -> None:
    points = isotonic_points([0.1, 0.2, 0.3, 0.4, 0.5], [0, 0, 0, 0, 1])

    # one right, four wrong: smoothed to 1/6 and 2/3
    assert [(p.confidence, round(p.calibrated, 6)) for p in points] == [
        (0.1, 0.166667),
        (0.4, 0.166667),
        (0.5, 0.666667),
    ]


def test_answers_with_the_same_confidence_share_a_point() -> None:
    points = isotonic_points([0.5, 0.5, 0.5, 0.5], [1, 1, 0, 0])

    assert [(p.confidence, p.calibrated) for p in points] == [(0.5, 0.5)]


def test_no_number_of_labels_makes_an_answer_certain() -> None:
    # a hundred right ones: (100 + 1) / (100 + 2)
    points = isotonic_points(np.linspace(0.5, 1, 100), np.ones(100))

    assert [p.calibrated for p in points] == pytest.approx([101 / 102, 101 / 102])
    assert recalibration(np.linspace(0.5, 1, 100), np.ones(100)).points[-1].calibrated < 1


def test_a_curve_is_found_again() -> None:
    rng = np.random.default_rng(5)
    confidences = rng.uniform(0.02, 0.98, 20_000)

    slope, intercept = platt_curve(confidences, drawn(confidences, expit(0.6 * logit(confidences) - 0.8), rng))

    assert slope == pytest.approx(0.6, abs=0.04)
    assert intercept == pytest.approx(-0.8, abs=0.04)


def test_with_next_to_no_labels_the_curve_stays_near_the_identity() -> None:
    slope, intercept = platt_curve([0.5], [1])

    # one right answer: target 2/3 at log-odds 0; the pull and the loss are even where 1/(1 + e^-b) - 2/3 + b = 0
    assert slope == pytest.approx(1.0)
    assert expit(intercept) - 2 / 3 + intercept == pytest.approx(0, abs=1e-5)


def test_a_confidence_that_misleads_becomes_level_and_is_not_turned_around() -> None:
    confidences = np.linspace(0.05, 0.95, 200)

    slope, _ = platt_curve(confidences, (confidences < 0.5).astype(float))

    assert slope == 0.0


def test_the_points_of_a_curve_follow_it_closely() -> None:
    rng = np.random.default_rng(6)
    confidences = rng.uniform(0, 1, 500)
    scores = drawn(confidences, expit(1.8 * logit(confidences) + 1), rng)
    slope, intercept = platt_curve(confidences, scores)

    points = platt_points(confidences, scores)

    requested = np.linspace(0.001, 0.999, 5000)
    served = np.array([calibrated(points, one) for one in requested])
    assert np.abs(served - expit(slope * logit(requested) + intercept)).max() < 0.003


@pytest.mark.parametrize("method", list(Method))
@given(judged=JUDGED)
@settings(deadline=None, max_examples=60)
def test_a_map_never_falls_and_stays_inside_the_unit(method: Method, judged: list[tuple[float, float]]) -> None:
    points = FITS[method](np.array([c for c, _ in judged]), np.array([s for _, s in judged]))

    served = [calibrated(points, step / 50) for step in range(51)]
    assert all(0 <= one <= 1 for one in served)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(served))
    assert [p.confidence for p in points] == sorted({p.confidence for p in points})


def test_the_same_answers_give_the_same_map() -> None:
    rng = np.random.default_rng(7)
    confidences = rng.uniform(0, 1, 120)
    scores = drawn(confidences, confidences / 2, rng)

    assert recalibration(confidences, scores) == recalibration(list(confidences), list(scores))


def test_a_curve_is_preferred_where_the_truth_is_one_and_steps_where_it_is_not() -> None:
    rng = np.random.default_rng(8)
    confidences = rng.uniform(0.02, 0.98, 1500)
    curved = drawn(confidences, expit(0.5 * logit(confidences) - 1), rng)
    stepped = drawn(confidences, np.where((confidences > 0.3) & (confidences < 0.9), 0.5, confidences > 0.5), rng)

    assert recalibration(confidences, curved).method is Method.PLATT
    assert recalibration(confidences, stepped).method is Method.ISOTONIC


@pytest.mark.parametrize("method", list(Method))
def test_a_map_mends_the_error_of_other_answers(method: Method) -> None:
    rng = np.random.default_rng(9)
    confidences, others = rng.uniform(0.5, 1, 500), rng.uniform(0.5, 1, 5000)
    scores, theirs = drawn(confidences, confidences - 0.35, rng), drawn(others, others - 0.35, rng)

    points = FITS[method](confidences, scores)

    mapped = [calibrated(points, one) for one in others]
    before, after = calibration_error(others, theirs), calibration_error(mapped, theirs)
    assert before == pytest.approx(0.35, abs=0.02)
    assert after is not None
    assert after < (chance_calibration_error(mapped) or 0.0) + 0.05


@pytest.mark.parametrize("n", [100, 400])
def test_a_map_that_is_not_needed_seldom_passes_for_better(n: int) -> None:
    rng = np.random.default_rng(10)
    passed = 0
    for _ in range(40):
        confidences = rng.beta(4, 2, n)
        passed += recalibration(confidences, drawn(confidences, confidences, rng)).improves

    assert passed <= 8


def test_a_map_that_is_needed_passes() -> None:
    rng = np.random.default_rng(11)
    confidences = rng.uniform(0.5, 1, 100)

    fitted = recalibration(confidences, drawn(confidences, confidences - 0.35, rng))

    assert fitted.improves
    assert fitted.brier_after < fitted.brier_before
    assert fitted.observations == 100


def test_answers_fewer_than_folds_are_rejected() -> None:
    with pytest.raises(ValueError, match="too few"):
        recalibration([0.5] * 4, [1] * 4)
    with pytest.raises(ValueError, match="no answer"):
        isotonic_points([], [])
    with pytest.raises(ValueError, match="no answer"):
        platt_points([], [])


@given(st.lists(st.booleans(), min_size=4, max_size=60), st.integers(2, 4), st.integers(0, 9))
@settings(deadline=None)
def test_folds_hold_every_item_once_and_their_share_of_each_kind(kinds: list[bool], count: int, seed: int) -> None:
    folds = stratified_folds(np.array(kinds), count, np.random.default_rng(seed))

    assert sorted(np.concatenate(folds).tolist()) == list(range(len(kinds)))
    sizes = [len(fold) for fold in folds]
    true = [sum(kinds[index] for index in fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    assert max(true) - min(true) <= 1


def test_there_are_at_least_two_folds() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        stratified_folds([0, 1], 1, np.random.default_rng(0))
