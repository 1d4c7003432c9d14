from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.activation import TERMS, ActivationWeights, InvalidActivationWeights, Route, activation, choose
from kernel.errors import Code
from kernel.msv import MSV

LEVELS = st.floats(0, 1)
KNOWN = st.builds(MSV, correctness=LEVELS, experience=LEVELS, conflict=LEVELS, importance=LEVELS)
ORDINARY: dict[str, Any] = {"experience": 0.5, "importance": 0.5}
# Twentieths: the paper's default weights and threshold in hundredths make every product below a whole number.
GRID = 20
FAVOURABLE = {"correctness": False, "experience": False, "conflict": True, "importance": True}


def with_term(msv: MSV, term: str, level: float) -> MSV:
    changed: dict[str, Any] = {term: level}
    return replace(msv, **changed)


def route(msv: MSV) -> Route:
    return choose(activation(msv)).system


def test_the_papers_hard_question_has_the_calculated_activation() -> None:
    level = activation(MSV(correctness=0.45, conflict=0.72, importance=0.85, experience=1.0))

    # 0.30 x 0.55 + 0.25 x 0.72 + 0.25 x 0.85 + 0.20 x 0
    assert level.value == pytest.approx(0.5575, abs=1e-12)
    assert level.terms == pytest.approx(
        {"correctness": 0.165, "conflict": 0.18, "importance": 0.2125, "experience": 0.0}
    )


@given(LEVELS)
@settings(deadline=None, max_examples=50)
def test_the_papers_hard_query_is_deliberated_whatever_the_experience(experience: float) -> None:
    level = activation(MSV(correctness=0.45, conflict=0.72, importance=0.85, experience=experience))

    assert level.value is not None
    assert level.value >= 0.5575
    assert choose(level).system is Route.SYSTEM_TWO


def test_the_papers_easy_query_is_answered_at_once() -> None:
    level = activation(MSV(correctness=0.92, conflict=0.12, **ORDINARY))

    # 0.30 x 0.08 + 0.25 x 0.12 + 0.25 x 0.5 + 0.20 x 0.5
    assert level.value == pytest.approx(0.279)
    assert choose(level).system is Route.SYSTEM_ONE


@pytest.mark.parametrize("experience", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("importance", [0.0, 0.5, 0.7])
def test_the_papers_easy_query_stays_easy_over_the_ordinary_range(experience: float, importance: float) -> None:
    # at worst 0.024 + 0.03 + 0.175 + 0.2 = 0.429
    assert route(MSV(correctness=0.92, conflict=0.12, experience=experience, importance=importance)) is Route.SYSTEM_ONE


@pytest.mark.parametrize(
    ("experience", "conflict", "importance"),
    [(0.8, 0.76, 0.76), (0.0, 0.44, 0.44), (None, 0.66, 0.66)],
    ids=["they must reach 1.52 of 2", "only 0.88 with nothing known", "1.32 with experience unknown"],
)
def test_the_specs_examples_of_a_threshold_sit_exactly_on_it(
    experience: float | None, conflict: float, importance: float
) -> None:
    on_it = MSV(correctness=0.9, experience=experience, conflict=conflict, importance=importance)
    below = replace(on_it, importance=importance - 0.01)

    assert route(on_it) is Route.SYSTEM_TWO
    assert route(below) is Route.SYSTEM_ONE


def exact_points() -> list[tuple[int, int, int, int]]:
    """Grid points, in twentieths, whose activation is exactly 0.45, found in whole numbers."""
    steps = range(GRID + 1)
    return [
        (ce, ci, pi, em)
        for ce, ci, pi, em in product(steps, repeat=4)
        if 30 * (GRID - ce) + 25 * ci + 25 * pi + 20 * (GRID - em) == 45 * GRID
    ]


def test_every_grid_point_on_the_threshold_is_deliberated_though_floats_put_many_below_it() -> None:
    points = [tuple(step / GRID for step in point) for point in exact_points()]
    below = [
        (ce, ci, pi, em)
        for ce, ci, pi, em in points
        if 0.30 * (1 - ce) + 0.25 * ci + 0.25 * pi + 0.20 * (1 - em) < 0.45
    ]

    routes = {route(MSV(correctness=ce, conflict=ci, importance=pi, experience=em)) for ce, ci, pi, em in points}

    assert len(below) > len(points) / 10
    assert routes == {Route.SYSTEM_TWO}


@given(KNOWN, st.sampled_from(TERMS), LEVELS)
@settings(deadline=None, max_examples=50)
def test_more_doubt_never_lowers_the_pressure_and_more_knowledge_never_raises_it(
    msv: MSV, term: str, other: float
) -> None:
    low, high = sorted((getattr(msv, term), other))

    calm = activation(with_term(msv, term, low)).value
    tense = activation(with_term(msv, term, high)).value

    assert calm is not None
    assert tense is not None
    assert tense >= calm - 1e-11 if FAVOURABLE[term] else calm >= tense - 1e-11


@pytest.mark.parametrize(
    ("term", "pressure"),
    [("correctness", -0.30), ("experience", -0.20), ("conflict", 0.25), ("importance", 0.25)],
)
def test_the_polarity_and_weight_of_each_term_are_the_papers(term: str, pressure: float) -> None:
    middle = MSV(correctness=0.5, experience=0.5, conflict=0.5, importance=0.5)

    low = activation(with_term(middle, term, 0.0))
    high = activation(with_term(middle, term, 1.0))

    assert low.value is not None
    assert high.value is not None
    assert high.value - low.value == pytest.approx(pressure)


@given(KNOWN)
@settings(deadline=None, max_examples=50)
def test_the_terms_sum_to_the_activation_which_lies_in_its_range(msv: MSV) -> None:
    level = activation(msv)

    assert level.value == pytest.approx(sum(level.terms.values()))
    assert 0 <= (level.value or 0) <= 1


def test_both_ends_of_the_range_can_be_reached() -> None:
    assert activation(MSV(correctness=0.0, experience=0.0, conflict=1.0, importance=1.0)).value == 1.0
    assert activation(MSV(correctness=1.0, experience=1.0, conflict=0.0, importance=0.0)).value == 0.0


@given(KNOWN, LEVELS)
@settings(deadline=None, max_examples=50)
def test_emotion_is_not_in_the_activation(msv: MSV, emotional_response: float) -> None:
    assert activation(replace(msv, emotional_response=emotional_response)) == activation(msv)


def test_emotion_is_no_term_that_makes_an_activation_determined() -> None:
    assert activation(MSV(emotional_response=0.9, conflict=0.9)).value is None


def test_two_known_terms_are_rescaled_by_their_weights() -> None:
    level = activation(MSV(correctness=0.9, conflict=0.2))

    # 0.30 x 0.1 = 0.03 and 0.25 x 0.2 = 0.05 over 0.55
    assert level.terms == pytest.approx({"correctness": 3 / 55, "conflict": 5 / 55})
    assert level.value == pytest.approx(8 / 55)
    assert level.unknown == ("importance", "experience")


def test_three_known_terms_are_rescaled_by_their_weights() -> None:
    level = activation(MSV(correctness=0.5, conflict=0.6, importance=0.4))

    # 0.15 + 0.15 + 0.10 over 0.80
    assert level.value == pytest.approx(0.5)
    assert level.terms == pytest.approx({"correctness": 0.1875, "conflict": 0.1875, "importance": 0.125})


def test_an_unknown_component_is_never_taken_for_zero() -> None:
    unknown = activation(MSV(correctness=0.9, conflict=0.0, importance=0.0))
    zero = activation(MSV(correctness=0.9, conflict=0.0, importance=0.0, experience=0.0))

    assert unknown.value == pytest.approx(0.0375)  # 0.03 / 0.80
    assert zero.value == pytest.approx(0.23)  # 0.03 + 0.20


def test_four_zeros_are_one_half_and_four_unknowns_are_not() -> None:
    zeros = activation(MSV(correctness=0.0, experience=0.0, conflict=0.0, importance=0.0))
    unknowns = activation(MSV())

    assert zeros.value == pytest.approx(0.5)
    assert unknowns.value is None
    assert unknowns.terms == {}
    assert unknowns.unknown == TERMS


@pytest.mark.parametrize("known", [{}, *({term: level} for term in TERMS for level in (0.0, 1.0))])
def test_fewer_than_two_known_terms_are_undetermined_and_deliberated(known: dict[str, float]) -> None:
    choice = choose(activation(MSV(**known)))  # type: ignore[arg-type]

    assert choice.system is Route.SYSTEM_TWO
    assert choice.reason == "undetermined"


def test_what_an_undetermined_query_gets_is_configurable() -> None:
    assert choose(activation(MSV()), undetermined=Route.SYSTEM_ONE).system is Route.SYSTEM_ONE


def test_two_known_terms_are_enough_to_decide() -> None:
    assert choose(activation(MSV(correctness=0.9, conflict=0.2))).reason == "activation"


def test_known_terms_without_any_weight_decide_nothing() -> None:
    only_doubt = ActivationWeights(correctness=0.5, experience=0.5, conflict=0.0, importance=0.0)

    assert activation(MSV(conflict=1.0, importance=1.0), only_doubt).value is None


def test_weights_and_threshold_are_configuration() -> None:
    even = ActivationWeights(correctness=0.25, conflict=0.25, importance=0.25, experience=0.25)

    level = activation(MSV(correctness=0.8, conflict=0.4, importance=0.6, experience=0.6), even, 0.40)

    assert level.value == pytest.approx(0.4)  # (0.2 + 0.4 + 0.6 + 0.4) / 4
    assert level.weights == dict.fromkeys(TERMS, 0.25)
    assert level.threshold == 0.40
    assert choose(level).system is Route.SYSTEM_TWO


@pytest.mark.parametrize(
    "weights",
    [
        {"correctness": -0.1, "conflict": 0.65},
        {"correctness": 0.31},
        {"correctness": 0.29},
        {"correctness": 0.0, "conflict": 0.0, "importance": 0.0, "experience": 0.0},
        {"correctness": float("nan")},
        {"correctness": float("inf")},
    ],
)
def test_weights_that_are_negative_or_do_not_sum_to_one_are_rejected(weights: dict[str, float]) -> None:
    with pytest.raises(InvalidActivationWeights) as rejected:
        ActivationWeights(**weights)

    assert (rejected.value.code, rejected.value.reason) == (Code.FAILED_PRECONDITION, "INVALID_WEIGHTS")


def test_the_default_weights_and_threshold_are_the_papers() -> None:
    level = activation(MSV())

    assert level.weights == {"correctness": 0.30, "conflict": 0.25, "importance": 0.25, "experience": 0.20}
    assert level.threshold == 0.45


def test_float_noise_in_the_sum_of_the_weights_is_no_reason_to_refuse_them() -> None:
    tenths = ActivationWeights(correctness=0.1 + 0.2, conflict=0.3, importance=0.3, experience=0.1)

    assert tenths.correctness > 0.3
