import pytest

from evals.scorers.answers import Known, scored
from kernel.answers import AnswerType

FOUR = Known(answer="4", answer_type=AnswerType.NUMBER)
OPTIONS = ("Aarau", "Bern")
BERN = Known(answer="B", answer_type=AnswerType.CHOICE, choices=OPTIONS)
EVE = Known(answer="Adam's rib", answer_type=AnswerType.TEXT, aliases=("a rib of Adam",))


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("2 + 2 = 4.\n**Final Answer:** 4.0", FOUR),
        ("Final Answer: B. Bern", BERN),
        ("Final Answer: false", Known(answer="no", answer_type=AnswerType.BOOLEAN)),
        ("Final Answer: A rib of Adam", EVE),
        ("So the answer is 4.", FOUR),
    ],
)
def test_the_known_answer_is_right_however_it_is_written(said: str, known: Known) -> None:
    assert scored(said, known).right


@pytest.mark.parametrize(("said", "known"), [("Final Answer: 5", FOUR), ("Final Answer: A", BERN)])
def test_another_answer_is_wrong(said: str, known: Known) -> None:
    label = scored(said, known)

    assert (label.right, label.answer is None, label.decided) == (False, False, True)


@pytest.mark.parametrize("said", ["", "It may be 3 or it may be 4, who knows.", "Final Answer: many"])
def test_an_answer_that_cannot_be_read_is_wrong_and_none(said: str) -> None:
    label = scored(said, FOUR)

    assert (label.right, label.answer) == (False, None)


def test_a_long_text_is_wrong_but_not_decided() -> None:
    long = "It was made of one of the ribs of the man who was called Adam, as the old book has it."

    label = scored(f"Final Answer: {long}", EVE)

    assert (label.right, label.decided) == (False, False)
