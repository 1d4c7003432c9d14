"""Which short answers agree."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.answers.untyped import untyped_answers
from services.router.core.agreement import conclusion, grouped, merged, support

SAMPLES = st.sampled_from(["12", "12.0", "Twelve boats", "B", "(B)", "yes", "No.", "", "Paris", "the Paris"])


def test_groups_come_largest_first() -> None:
    groups = grouped(["A", "B", "B", "Final Answer: B", "C"])

    assert groups.sizes == [3, 1, 1]
    assert groups.representatives[0] == "B"
    assert groups.share == 0.6


def test_samples_without_an_answer_agree_with_none() -> None:
    groups = grouped(["", " ", "12"])

    assert groups.sizes == [1, 1, 1]


@given(st.lists(SAMPLES, min_size=1, max_size=6))
def test_every_sample_is_in_one_group(samples: list[str]) -> None:
    places = [place for group in grouped(samples).members for place in group]

    assert sorted(places) == list(range(len(samples)))


def test_the_order_of_samples_changes_no_sizes() -> None:
    sizes = {tuple(grouped(order).sizes) for order in permutations(["12", "12", "13", "yes"])}

    assert sizes == {(2, 1, 1)}


@pytest.mark.parametrize(
    ("samples", "sizes"),
    [
        (["B", "B. Paris", "B. Paris", "C"], [3, 1]),
        (["B. Paris", "B. Paris"], [2]),
        (["A. Einstein", "A. Darwin", "A. Einstein"], [2, 1]),
        (["12", "He has 12 left", "12 are left"], [3]),
        (["12", "10 of 12"], [1, 1]),
    ],
)
def test_an_unclear_answer_is_read_by_the_others(samples: list[str], sizes: list[int]) -> None:
    assert grouped(samples).sizes == sizes


def test_words_that_mean_the_same_are_put_together() -> None:
    samples = ["the sea", "the ocean", "the sea", "a hill"]
    groups = grouped(samples)

    together = merged(groups, [[1.0, 0.85, 0.1], [0.85, 1.0, 0.2], [0.1, 0.2, 1.0]], samples)

    assert together.sizes == [3, 1]
    assert together.representatives == ["the sea", "a hill"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Henry VII", "Henry VIII"),
        ("Charles I", "Charles II"),
        ("Apollo eleven", "Apollo twelve"),
        ("It works", "It does not work"),
    ],
)
def test_answers_that_differ_in_a_name_a_number_or_a_negation_stay_apart_however_near(one: str, other: str) -> None:
    samples = [one, other]

    assert merged(grouped(samples), [[1.0, 0.99], [0.99, 1.0]], samples).sizes == [1, 1]


def test_only_words_may_mean_the_same_in_other_words() -> None:
    samples = ["12", "the sea", "the ocean", "", "yes"]
    groups = grouped(samples)

    assert groups.words == [1, 2]
    assert merged(groups, [[1.0, 0.9], [0.9, 1.0]], samples).sizes == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("draft", "concluded"),
    [
        ("It is 3, no, wait.\nFinal Answer: 4", "4"),
        ("Final Answer: 3\nI was wrong.\n**Final Answer:** 4", "4"),
        (r"Hence \boxed{7}.", "7"),
        ("Paris", "paris"),
        ("Yes, because " + "it has always been so. " * 20, "true"),
    ],
)
def test_a_text_concludes_what_it_marks(draft: str, concluded: str) -> None:
    answer = conclusion(draft)

    assert answer is not None
    assert answer.canonical == concluded


@pytest.mark.parametrize(
    ("draft", "samples", "level"),
    [
        ("The answer is B.", ["B"] * 5, 1.0),
        ("The capital is Oslo.", ["Oslo", "It is Oslo.", "Bergen", "not Oslo"], 0.5),
        ("Oslo", ["Oslo, Norway", "Oslo"], 1.0),
        ("Many of them flew. " * 10 + "So the right word is B) gaggle of geese.", ["B", "B. gaggle", "(C)"], 2 / 3),
        ("Many of them flew. " * 10 + "Therefore the statement is false.", ["no", "No.", "yes"], 2 / 3),
        ("Many of them flew. " * 10 + "Therefore the statement is not true.", ["no", "yes"], 0.5),
        ("There is no doubt of it. " * 10, ["no"], 0.0),
        ("Final Answer: 4", ["", "4"], 1.0),
    ],
)
def test_a_draft_is_supported_by_the_samples_that_give_its_answer(draft: str, samples: list[str], level: float) -> None:
    assert support(draft, samples) == pytest.approx(level)


def test_a_long_text_that_marks_nothing_is_searched() -> None:
    essay = "Many rivers are long. " * 30 + "The longest of them all is the Nile."

    assert conclusion(essay) is None
    assert support(essay, ["the Nile", "Amazon", "Nile"]) == pytest.approx(2 / 3)


def test_a_number_is_not_found_inside_another() -> None:
    essay = "There were many of them, as everybody knows. " * 10 + "In the end 15 were left."

    assert support(essay, ["5", "15"]) == 0.5


def test_without_samples_nothing_supports_a_draft() -> None:
    assert support("Final Answer: 4", []) is None
    assert support("Final Answer: 4", ["", "<think>hm"]) is None


@given(st.text(max_size=300), st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_whatever_a_model_writes_support_stays_in_its_range(draft: str, samples: list[str]) -> None:
    level = support(draft, samples)

    assert (level is None) == all(answer is None for answer in untyped_answers(samples))
    assert level is None or 0 <= level <= 1
