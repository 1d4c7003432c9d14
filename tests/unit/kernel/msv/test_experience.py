import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.msv.experience import (
    NO_RIGHT_ANSWER,
    NOTHING_NEAR,
    NOTHING_STORED,
    NOTHING_STORED_NEAR,
    ExperienceWeights,
    InvalidCalibration,
    InvalidExperienceWeights,
    SimilarityCalibration,
    agent_experience,
    experience_match,
)

EVEN = ExperienceWeights()
LINE = SimilarityCalibration(floor=0.2, ceiling=0.8)
COSINES = st.floats(-1, 1)


def value(
    knowledge: float | None, experience: float | None, weights: ExperienceWeights = EVEN, *, covers: bool = False
) -> float | None:
    cosines = {"knowledge": knowledge, "experience": experience}
    return experience_match(cosines, weights=weights, calibration=LINE, covers=covers).value


@pytest.mark.parametrize(
    ("cosine", "similarity"), [(-1.0, 0.0), (0.2, 0.0), (0.35, 0.25), (0.5, 0.5), (0.8, 1.0), (1.0, 1.0)]
)
def test_a_cosine_counts_from_the_floor_to_the_ceiling(cosine: float, similarity: float) -> None:
    assert LINE.of(cosine) == similarity


def test_both_ends_can_be_reached() -> None:
    assert value(0.95, 0.9) == 1.0
    assert value(0.1, -0.3, covers=True) == 0.0


def test_experience_is_the_weighted_mean_of_both_sources() -> None:
    assert value(0.8, 0.5) == 0.75
    assert value(0.8, 0.5, ExperienceWeights(knowledge=0.2, experience=0.8)) == 0.6


def test_an_empty_source_leaves_the_other_alone() -> None:
    assert value(0.5, None) == 0.5
    assert value(None, 0.8, ExperienceWeights(knowledge=0.9, experience=0.1)) == 1.0


@pytest.mark.parametrize("cosine", [-1.0, 0.2])
def test_a_source_with_nothing_near_leaves_the_other_alone(cosine: float) -> None:
    assert value(cosine, 0.5) == 0.5
    assert value(0.65, cosine, ExperienceWeights(knowledge=0.2, experience=0.8)) == 0.75


def test_nothing_near_in_any_source_is_unknown_and_not_zero() -> None:
    matched = experience_match({"knowledge": 0.1, "experience": 0.2}, weights=EVEN, calibration=LINE)

    assert (matched.value, matched.reason) == (None, NOTHING_STORED_NEAR)
    assert matched.parts == {"knowledge_similarity": 0.0, "experience_similarity": 0.0}


def test_nothing_near_is_a_match_of_zero_where_what_is_stored_covers_the_questions() -> None:
    assert value(0.1, None, covers=True) == 0.0
    assert value(0.1, 0.5, covers=True) == 0.25
    assert value(0.1, 0.5, ExperienceWeights(knowledge=0.2, experience=0.8), covers=True) == 0.4


def test_an_empty_store_is_unknown_even_where_it_is_declared_to_cover_the_questions() -> None:
    matched = experience_match({}, weights=EVEN, calibration=LINE, covers=True)

    assert (matched.value, matched.reason) == (None, NOTHING_STORED)


def test_nothing_near_in_a_source_that_does_not_count_makes_nothing_known() -> None:
    weights = ExperienceWeights(knowledge=0.0, experience=1.0)

    matched = experience_match({"knowledge": 0.1}, weights=weights, calibration=LINE, covers=True)

    assert (matched.value, matched.reason) == (None, "nothing is stored yet in a source that counts")


def test_with_nothing_stored_it_is_unknown_and_not_zero() -> None:
    matched = experience_match({"knowledge": None, "experience": None}, weights=EVEN, calibration=LINE)

    assert (matched.value, matched.reason, matched.parts) == (None, NOTHING_STORED, {})


def test_a_source_that_does_not_count_makes_nothing_known() -> None:
    weights = ExperienceWeights(knowledge=0.0, experience=1.0)

    matched = experience_match({"knowledge": 0.9}, weights=weights, calibration=LINE)

    assert matched.value is None
    assert matched.reason == "nothing is stored yet in a source that counts"
    assert matched.parts == {"knowledge_similarity": 1.0}


def test_the_parts_are_the_similarities_of_the_sources() -> None:
    matched = experience_match({"knowledge": 0.8, "experience": 0.5}, weights=EVEN, calibration=LINE)

    assert matched.parts == {"knowledge_similarity": 1.0, "experience_similarity": 0.5}
    assert matched.reason == ""


@given(COSINES, COSINES, st.floats(0, 1))
def test_more_similarity_never_lowers_it_where_the_store_covers_the_questions_and_it_stays_in_range(
    one: float, other: float, share: float
) -> None:
    weights = ExperienceWeights(knowledge=share, experience=1 - share)
    lower, higher = sorted((one, other))

    less, more = (value(cosine, 0.5, weights, covers=True) for cosine in (lower, higher))

    assert less is not None
    assert more is not None
    assert 0 <= less <= more <= 1


@pytest.mark.parametrize("weights", [(0.5, 0.6), (-0.5, 1.5), (0.0, 0.0), (float("nan"), 0.5)])
def test_weights_that_are_negative_or_do_not_sum_to_one_are_rejected(weights: tuple[float, float]) -> None:
    with pytest.raises(InvalidExperienceWeights):
        ExperienceWeights(knowledge=weights[0], experience=weights[1])


@pytest.mark.parametrize(("floor", "ceiling"), [(0.8, 0.2), (0.5, 0.5), (-1.1, 0.5), (0.2, 1.1), (float("nan"), 0.5)])
def test_a_floor_above_its_ceiling_is_rejected(floor: float, ceiling: float) -> None:
    with pytest.raises(InvalidCalibration):
        SimilarityCalibration(floor=floor, ceiling=ceiling)


def test_experience_of_an_agent_is_the_match_with_the_nearest_question_that_it_answered_right() -> None:
    near = agent_experience(0.5, calibration=LINE)

    assert (near.value, near.reason) == (0.5, "")
    assert near.parts == {"experience_similarity": 0.5}


def test_an_agent_without_a_right_answer_has_unknown_experience() -> None:
    assert agent_experience(None, calibration=LINE, covers=True).value is None
    assert agent_experience(None, calibration=LINE).reason == NO_RIGHT_ANSWER


@pytest.mark.parametrize("cosine", [-1.0, 0.2])
def test_nothing_near_says_something_only_where_the_records_cover_the_questions(cosine: float) -> None:
    unknown = agent_experience(cosine, calibration=LINE)

    assert (unknown.value, unknown.reason) == (None, NOTHING_NEAR)
    assert agent_experience(cosine, calibration=LINE, covers=True).value == 0.0
