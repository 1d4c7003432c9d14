import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.msv import MSVKind
from kernel.msv.ratings import (
    ORDER,
    RATING_SCHEMA,
    CountsPlaces,
    counts_places,
    other_order,
    places_of,
    rated_msv,
    read_numbers,
    read_rating,
    unrated_msv,
)

# logic 90, facts 80, fit 70, inconsistency 10, consequence 30, urgency 20, scope 10
RATED = {"r": [90, 80, 70, 10, 30, 20, 10]}


def test_the_numbers_of_a_rating_are_read_by_their_place() -> None:
    assert read_rating(RATED) == {
        "logical_consistency": 90.0,
        "factual_accuracy": 80.0,
        "contextual_fit": 70.0,
        "internal_inconsistency": 10.0,
        "consequence": 30.0,
        "urgency": 20.0,
        "scope": 10.0,
    }


@pytest.mark.parametrize(
    "document",
    [
        None,
        "I would say 90.",
        [],
        {},
        {"r": None},
        {"r": {}},
        {"r": "90 80 70 10 30 20 10"},
        {"r": []},
        {"r": [90] * 6},
        {"r": [90] * 8},
        {"r": [90] * 6 + [None]},
        {"r": [90] * 6 + ["20"]},
        {"r": [90] * 6 + [True]},
        {"r": [90] * 6 + [[20]]},
        {"r": [90] * 6 + [-1]},
        {"r": [90] * 6 + [101]},
        {"r": [90] * 6 + [0.5]},
        {"r": [90] * 6 + [float("nan")]},
        {"r": [90] * 6 + [float("inf")]},
    ],
)
def test_a_document_that_is_no_rating_is_rejected_and_not_read_as_zeros(document: object) -> None:
    with pytest.raises(ValueError, match="a rating lists 7 whole numbers from 0 to 100"):
        read_rating(document)


@pytest.mark.parametrize("numbers", [[1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]])
def test_a_list_that_counts_its_places_is_no_rating(numbers: list[float]) -> None:
    with pytest.raises(CountsPlaces, match="counts its places"):
        read_rating({"r": numbers})


def test_the_other_order_moves_every_question_and_keeps_those_about_the_answer_first() -> None:
    other = other_order()

    assert other == (
        "internal_inconsistency",
        "contextual_fit",
        "factual_accuracy",
        "logical_consistency",
        "scope",
        "urgency",
        "consequence",
    )
    assert places_of(other) == (3, 2, 1, 0, 6, 5, 4)
    assert other_order(("expertise", "approach", "knowledge")) == ("knowledge", "approach", "expertise")


def test_the_same_numbers_for_the_same_questions_in_another_order_are_a_rating() -> None:
    first = read_numbers({"r": [1, 2, 3, 4, 5, 6, 7]})
    again = {"r": [first[name] for name in other_order()]}

    assert counts_places(list(first.values()))
    assert read_rating(again, other_order()) == first


def test_counting_again_in_the_other_order_is_no_rating() -> None:
    with pytest.raises(CountsPlaces):
        read_rating({"r": [1, 2, 3, 4, 5, 6, 7]}, other_order())


@pytest.mark.parametrize("numbers", [[2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 8], [7, 6, 5, 4, 3, 2, 1], [1] * 7])
def test_other_low_numbers_are_ratings(numbers: list[int]) -> None:
    assert list(read_rating({"r": numbers}).values()) == numbers


def test_a_single_one_is_a_rating() -> None:
    assert read_rating({"r": [1]}, ["urgency"]) == {"urgency": 1.0}


def test_the_schema_asks_for_as_many_numbers_as_are_read() -> None:
    numbers = RATING_SCHEMA["properties"]["r"]

    assert numbers["minItems"] == numbers["maxItems"] == len(ORDER) == 7
    assert (numbers["items"]["minimum"], numbers["items"]["maximum"]) == (0, 100)


def test_correctness_and_importance_are_means_and_conflict_is_the_inconsistency() -> None:
    msv = rated_msv(read_rating(RATED), kind=MSVKind.RETROSPECTIVE)

    assert msv.correctness == pytest.approx(0.8)
    assert msv.conflict == pytest.approx(0.1)
    assert msv.importance == pytest.approx(0.2)
    assert msv.kind is MSVKind.RETROSPECTIVE


@pytest.mark.parametrize(
    ("name", "component", "sign"),
    [
        ("logical_consistency", "correctness", 1),
        ("factual_accuracy", "correctness", 1),
        ("contextual_fit", "correctness", 1),
        ("internal_inconsistency", "conflict", 1),
        ("consequence", "importance", 1),
        ("urgency", "importance", 1),
        ("scope", "importance", 1),
    ],
)
def test_the_polarity_of_every_number_is_fixed_by_its_name(name: str, component: str, sign: int) -> None:
    before = rated_msv(dict.fromkeys(ORDER, 50.0), kind=MSVKind.PROSPECTIVE)

    after = rated_msv({**dict.fromkeys(ORDER, 50.0), name: 80.0}, kind=MSVKind.PROSPECTIVE)

    assert sign * (getattr(after, component) - getattr(before, component)) > 0
    others = {"correctness", "conflict", "importance"} - {component}
    assert all(getattr(after, other) == getattr(before, other) for other in others)


def test_a_missing_number_is_an_unknown_part() -> None:
    rating = {name: level for name, level in read_rating(RATED).items() if name != "urgency"}

    msv = rated_msv(rating, kind=MSVKind.PROSPECTIVE)

    assert msv.importance == pytest.approx(0.2)  # (0.30 + 0.10) / 2
    assert "urgency" not in msv.parts


def test_a_component_that_the_rating_left_out_is_unknown_with_its_reason() -> None:
    msv = rated_msv({"consequence": 30.0}, kind=MSVKind.PROSPECTIVE)

    assert msv.unknown == ("emotional_response", "correctness", "experience", "conflict")
    assert set(msv.unknown_reasons) == set(msv.unknown)


def test_a_rating_leaves_experience_unknown() -> None:
    msv = rated_msv(read_rating(RATED), kind=MSVKind.PROSPECTIVE)

    assert msv.experience is None
    assert msv.unknown_reasons["experience"] == "not measured by a rating"


def test_measured_affect_stays_with_its_finer_values() -> None:
    msv = rated_msv(read_rating(RATED), kind=MSVKind.PROSPECTIVE, emotional={"intensity": 0.4, "emotion.fear": 0.3})

    assert msv.emotional_response == 0.4
    assert msv.parts["emotion.fear"] == 0.3
    assert "intensity" not in msv.parts
    assert "emotional_response" not in msv.unknown_reasons


def test_a_failed_rating_leaves_everything_unknown_with_the_reason() -> None:
    msv = unrated_msv("UNPARSABLE_OUTPUT: no JSON", kind=MSVKind.PROSPECTIVE)

    assert msv.unknown == ("emotional_response", "correctness", "experience", "conflict", "importance")
    assert msv.unknown_reasons["correctness"] == "UNPARSABLE_OUTPUT: no JSON"
    assert set(msv.unknown_reasons) == set(msv.unknown)


def test_a_failed_rating_keeps_the_affect_that_needed_no_model() -> None:
    msv = unrated_msv("no", kind=MSVKind.PROSPECTIVE, emotional={"intensity": 0.4})

    assert msv.emotional_response == 0.4
    assert set(msv.unknown_reasons) == {"correctness", "experience", "conflict", "importance"}


@given(st.lists(st.integers(0, 100), min_size=7, max_size=7))
@settings(deadline=None)
def test_every_rating_makes_a_state_whose_unknowns_all_have_reasons(numbers: list[int]) -> None:
    msv = rated_msv(read_rating({"r": numbers}), kind=MSVKind.PROSPECTIVE)

    assert msv.unknown == ("emotional_response", "experience")
    assert set(msv.unknown_reasons) == set(msv.unknown)
