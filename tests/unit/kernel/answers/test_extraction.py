import pytest

from kernel.answers import AnswerType, extract, without_thinking

BOOLEAN, CHOICE, NUMBER, TEXT, CODE = AnswerType


@pytest.mark.parametrize(
    "line",
    [
        "Final Answer: 42",
        "final answer: 42.",
        "**Final Answer:** 42",
        "**Final Answer: 42**",
        "### Final Answer: **42**",
        "> *Final answer*: `42`",
        "Final Answer: $42$",
        "Final Answer: $$42$$",
        r"Final Answer: \(42\)",
        r"Final Answer: \boxed{42}",
        r"Final Answer: $\boxed{\text{42}}$.",
        r"Final Answer: the value is \boxed{42}, as shown",
        "The final answer is: 42",
        "Final Answer\uff1a42",
        "1. no\n- Final Answer: 42",
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_the_final_answer_line_is_found_whatever_stands_around_it(line: str, strict: bool) -> None:
    assert extract(f"6 x 7 = 40?\n{line}\n", NUMBER, strict=strict) == "42"


def test_the_last_final_answer_line_wins() -> None:
    assert extract("Final Answer: 3\nWait.\nFinal Answer: 4", NUMBER) == "4"


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\n$$\n", "\n---\n"])
def test_a_label_alone_on_its_line_takes_the_next_line_that_is_not_empty(gap: str) -> None:
    assert extract(f"**Final Answer:**{gap}42\n$$", NUMBER, strict=True) == "42"


def test_a_last_label_without_an_answer_is_invalid_even_where_a_fallback_would_find_one() -> None:
    assert extract(r"\boxed{3}. The answer is 3." + "\nFinal Answer: I cannot tell", NUMBER) is None


@pytest.mark.parametrize(
    ("text", "answer_type"),
    [
        ("Final Answer: letter", CHOICE),
        ("Final Answer: true or false", BOOLEAN),
        ("Final Answer: number", NUMBER),
        ("Final Answer: <answer>", TEXT),
        ("Final Answer: [your answer]", TEXT),
        ("Final Answer:", TEXT),
    ],
)
def test_the_instruction_repeated_is_no_answer(text: str, answer_type: AnswerType) -> None:
    assert extract(text, answer_type) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>Final Answer: 3</think>\n4", "\n4"),
        ("Final Answer: 3</think>4", "4"),
        ("4<think>Final Answer: 3", "4"),
        ("<THINKING>3</THINKING>4<think>5</think>6", "46"),
        ("<think><think>3</think>4</think>5", "5"),
        ("no tags", "no tags"),
    ],
)
def test_thinking_is_no_part_of_what_is_shown(text: str, shown: str) -> None:
    assert without_thinking(text) == shown


@pytest.mark.parametrize("answer_type", AnswerType)
def test_an_answer_that_was_only_thought_is_none(answer_type: AnswerType) -> None:
    assert extract("<think>Final Answer: 1\nyes\n```\nx = 1\n```", answer_type) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"So we get \boxed{\frac{3}{4}} in all.", r"\frac{3}{4}"),
        ("I add them up. The answer is $1,234.", "$1,234"),
        ("The answer is 12 because 3 * 4 = 12.", "12"),
        ("Answer: 12 apples", "12 apples"),
        ("42", "42"),
        ("The answer is 3. No: the answer is 4.", "4"),
        ("There are 3 cats and 4 dogs.", None),
        ("It is 42, I guess, or 43.", None),
        ("If the answer is 7, we are lost.", None),
        ("I do not think the answer is 7.", None),
        (r"\boxed{3", None),
        ("", None),
    ],
)
def test_a_number_without_its_line_is_found_only_where_nothing_is_guessed(text: str, found: str | None) -> None:
    assert extract(text, NUMBER) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("B", "B"),
        ("(b)", "(b)"),
        ("B. Paris", "B. Paris"),
        ("**B) Paris**", "B) Paris"),
        ("paris!", "paris!"),
        ("The correct answer is (C).", "(C)"),
        ("The answer is Rome, since it is older.", "Rome"),
        (r"\boxed{A}", "A"),
        ("B or C", None),
        ("(B) and (C)", None),
        ("B. Rome", None),  # the letter says Paris
        ("E", None),  # there are four
        ("A dog", None),
        ("Paris and Rome are both in Europe.", None),
    ],
)
def test_a_choice_is_a_letter_or_the_text_of_exactly_one_option(text: str, found: str | None) -> None:
    assert extract(text, CHOICE, options=["Oslo", "Paris", "Rome", "Bern"]) == found


def test_a_text_that_two_options_share_names_neither() -> None:
    assert extract("Paris", CHOICE, options=["Paris", "Rome", "paris."]) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Yes", True),
        ("no.", True),
        ("TRUE", True),
        ("Yes, because it rained.", True),
        ("No, that is not true.", True),
        ("No - it is closed", True),
        ("The answer is no.", True),
        ("**Yes**", True),
        ("No idea", False),
        ("No-one knows", False),
        ("Nobody knows", False),
        ("Yes or no?", False),
        ("Yes and no.", False),
        ("Yes. No, wait, it is not.", False),
        ("True/False", False),
        ("It depends.", False),
        ("yesterday", False),
    ],
)
def test_a_boolean_is_a_text_that_opens_with_one_truth(text: str, found: bool) -> None:
    assert (extract(text, BOOLEAN) is not None) is found


def test_code_is_the_last_closed_block() -> None:
    text = "First:\n```python\nx = 1\n```\nBetter:\n~~~\nx = 2\n~~~\n```\ncut off"

    assert extract(text, CODE) == extract(text, CODE, strict=True) == "x = 2"


def test_a_program_without_a_block_counts_only_leniently() -> None:
    program = "def f(x):\n    return x + 1\n"

    assert extract(program, CODE) == program.strip()
    assert extract(program, CODE, strict=True) is None
    assert extract("Final Answer: `print(1)`", CODE, strict=True) == "print(1)"


@pytest.mark.parametrize("text", ["Paris", "I would use a loop.", "x + 1", "42", "def f(:"])
def test_prose_is_no_program(text: str) -> None:
    assert extract(text, CODE) is None


def test_a_text_answer_is_the_whole_text_only_when_it_is_short() -> None:
    assert extract("The Beatles.", TEXT) == "The Beatles"
    assert extract("The answer is Paris.", TEXT) == "Paris"
    assert extract("The Beatles came from Liverpool and they were four young men at first.", TEXT) is None
    assert extract("One\nTwo", TEXT) is None


@pytest.mark.parametrize("text", ["42", r"\boxed{42}", "The answer is 42."])
def test_strict_reading_knows_no_fallback(text: str) -> None:
    assert extract(text, NUMBER, strict=True) is None


HUGE = 1_000_000
HOSTILE = {
    "thinking never closed": "<think>" * (HUGE // 7),
    "thinking never opened": "</think>" * (HUGE // 8),
    "labels": "Final Answer: \n" * (HUGE // 15),
    "one label, then spaces": "Final Answer:" + " " * HUGE,
    "the answer is": "the answer is " * (HUGE // 14),
    "answer and spaces": "answer" + " " * HUGE,
    "answer is, spaces": "answer is x" + " " * HUGE + "y",
    "boxes": "\\boxed{" * (HUGE // 7),
    "fences": "```\n" * (HUGE // 4),
    "brackets": "(" * HUGE,
    "stars": "*" * HUGE,
    "digits": "9" * HUGE,
    "commas": "1," * (HUGE // 2),
    "dots": "1." * (HUGE // 2) + "a",
    "lines": "\n" * HUGE,
    "words": "yes " * (HUGE // 4),
    "signs": "-" * HUGE,
    "combining": "a" + "\u0301" * HUGE,
}


@pytest.mark.parametrize("answer_type", AnswerType)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(20)
def test_a_hostile_text_of_a_megabyte_is_read_quickly(text: str, answer_type: AnswerType) -> None:
    extract(text, answer_type, options=["one", "two"])
    extract(f"Final Answer: {text[:100_000]}", answer_type)
