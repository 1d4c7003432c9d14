"""Short answers of unknown type are read for what they are."""

import pytest

from kernel.answers.untyped import untyped_answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12", "Final Answer: 12"),
        ("12", "**12.00**"),
        ("$1,250", "1250 dollars"),
        ("B", "(B)"),
        ("B.", "The answer is B."),
        ("B", "It is B."),
        ("B", "Option B"),
        ("12", "The answer is 12."),
        ("12", "It is 12"),
        ("12", "Answer: 12"),
        ("12", "I think there are 12."),
        ("yes", "I think yes"),
        ("yes", "The answer is yes."),
        ("no", "No. It never was."),
        ("Oslo", "It's Oslo."),
        ("Oslo", "The correct answer is: Oslo"),
        ("yes", "Yes, it is."),
        ("true", "Yes."),
        ("the Nile", "Nile"),
        ("<think>hm, 7?</think>12", "12"),
    ],
)
def test_answers_of_the_same_meaning_have_the_same_form(one: str, other: str) -> None:
    assert untyped_answer(one) == untyped_answer(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12", "-12"),
        ("12", "13"),
        ("A", "B"),
        ("yes", "no"),
        ("Paris", "not Paris"),
        ("A", "a cat"),
        ("No", "Norway"),
        ("J. S. Bach", "J. Verne"),
        ("J. R. R. Tolkien", "J. K. Rowling"),
        ("True Grit", "True Detective"),
        ("no", "No. 5"),
        ("no", "No one knows"),
        ("yes", "True Grit"),
        ("It is not Oslo", "Oslo"),
    ],
)
def test_answers_that_differ_have_different_forms(one: str, other: str) -> None:
    assert untyped_answer(one) != untyped_answer(other)


def test_an_answer_that_is_marked_inside_the_thinking_is_not_the_answer() -> None:
    assert untyped_answer("<think>Final Answer: 3</think>4") == untyped_answer("4")
    assert untyped_answer("<think>Final Answer: 3") is None


def test_the_alternative_reading_names_the_option_or_the_one_number() -> None:
    initial, counted = untyped_answer("B. Paris"), untyped_answer("He has 12 left")

    assert initial is not None
    assert initial.alternative == untyped_answer("B")
    assert counted is not None
    assert counted.alternative == untyped_answer("12")
