import pytest

from kernel.answers import AnswerType, inferred_type

BOOLEAN, CHOICE, NUMBER, TEXT, CODE = AnswerType


@pytest.mark.parametrize(
    ("question", "answer_type"),
    [
        ("Which one flies?\nA. dog\nB. crow\nC. eel", CHOICE),
        ("Which one flies? (A) dog (B) crow", CHOICE),
        ("Vitamin A. What is it good for?", TEXT),
        ("Is water wet?", BOOLEAN),
        ("do away goals count in the europa league?", BOOLEAN),
        ("True or false: water is wet.", BOOLEAN),
        ("It rained. The street is wet. Did it rain?", BOOLEAN),
        ("Is it red or blue?", TEXT),
        ("Had he won, who would have lost?", TEXT),
        ("Can you tell me who wrote Emma?", TEXT),
        ("Is water wet", TEXT),
        ("How many eggs are left?", NUMBER),
        ("how much is 3 dollars and 4 dollars?", NUMBER),
        ("Calculate the area of a circle.", NUMBER),
        ("Compute: ((5 * 6) - 3)", NUMBER),
        ("What is 3 + 4?", NUMBER),
        ("What is the probability of two heads?", NUMBER),
        ("Explain how many eggs are left.", TEXT),
        ("How do birds fly?", TEXT),
        ("Write a Python function that adds two numbers.", CODE),
        ("Could you implement the algorithm?", CODE),
        ("def add(a, b):\n    '''Sum.'''", CODE),
        ("Who wrote Emma?", TEXT),
        ("", TEXT),
    ],
)
def test_the_form_of_a_question_shows_its_type_or_it_is_text(question: str, answer_type: AnswerType) -> None:
    inferred = inferred_type(question)

    assert inferred.answer_type is answer_type
    assert inferred.reason


def test_options_given_apart_make_a_choice() -> None:
    assert inferred_type("How many legs?", options=["four", "six"]).answer_type is CHOICE


def test_samples_that_all_answer_with_numbers_show_a_number() -> None:
    assert inferred_type("When did it end?", samples=["1648", "Final Answer: 1648"]).answer_type is NUMBER
    assert inferred_type("When did it end?", samples=["1648", "long ago"]).answer_type is TEXT


def test_samples_that_all_hold_code_show_code() -> None:
    assert inferred_type("Sort this.", samples=["```\nsorted(x)\n```", "So:\n```\nx.sort()\n```"]).answer_type is CODE


def test_samples_overrule_a_type_that_they_do_not_have() -> None:
    samples = ["It depends on the season.", "Nobody has counted them."]

    assert inferred_type("How many birds are there?", samples=samples).answer_type is TEXT
    assert inferred_type("How many birds are there?", samples=[*samples, "20", "30"]).answer_type is NUMBER


@pytest.mark.parametrize("piece", ["\n", " ", "write ", "A. ", "is ", "how many ", "? ", ": ", "def "])
@pytest.mark.timeout(20)
def test_a_hostile_question_is_read_quickly(piece: str) -> None:
    inferred_type(piece * (10**6 // len(piece)))
