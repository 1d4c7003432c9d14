from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.answers import AnswerType, canonical
from kernel.answers.mathematics.expressions import expression
from kernel.answers.numbers import LARGEST_POWER, MOST_DIGITS, rational, spelled

BOOLEAN, CHOICE, NUMBER, TEXT, CODE = AnswerType


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("+42", "42"),
        ("042", "42"),
        ("-5", "-5"),
        ("\u22125", "-5"),
        ("- 5", "-5"),
        ("5.", "5"),
        ("1.50", "1.5"),
        (".5", "0.5"),
        ("0.0", "0"),
        ("-0.25", "-0.25"),
        ("1,234", "1234"),
        ("1,234,567.5", "1234567.5"),
        ("1 234 567", "1234567"),
        ("1{,}234", "1234"),
        ("1,00,000", "100000"),
        ("$5", "5 USD"),
        ("-$5.00", "-5 USD"),
        ("$-5", "-5 USD"),
        (r"\$5", "5 USD"),
        ("5 \u20ac", "5 EUR"),
        ("5 USD", "5 USD"),
        ("5 dollars", "5 USD"),
        ("5 km", "5 km"),
        ("5km", "5 km"),
        ("5 km/h", "5 km/h"),
        ("5 m\u00b2", "5 m^2"),
        (r"5\text{ cm}^2", "5 cm^2"),
        ("20\u00b0C", "20 \u00b0C"),
        (r"90^\circ", "90 degree"),
        ("12 apples", "12"),
        ("3 million", "3000000"),
        ("2.5 million dollars", "2500000 USD"),
        ("2 dozen eggs", "24"),
        ("$50K", "50000 USD"),
        ("$2.5M", "2500000 USD"),
        ("\u20ac3bn", "3000000000 EUR"),
        ("$5 million", "5000000 USD"),
        ("50K dollars", "50000 USD"),
        ("30 seconds", "30 s"),
        ("3/4", "0.75"),
        (r"\frac{3}{4}", "0.75"),
        (r"\dfrac34", "0.75"),
        (r"-\frac{1}{3}", "-1/3"),
        ("6/8", "0.75"),
        ("4/2", "2"),
        ("1 3/4", "1.75"),
        ("-1 3/4", "-1.75"),
        (r"1\frac{3}{4}", "1.75"),
        ("\u00bd", "0.5"),
        ("1\u00bd", "1.5"),
        ("50%", "50"),
        (r"50\%", "50"),
        ("50 percent", "50"),
        ("12.5%", "12.5"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("1.5 \u00d7 10^3", "1500"),
        (r"1.5 \times 10^{-2}", "0.015"),
        ("10^6", "1000000"),
        ("10\u2076", "1000000"),
        ("x = 5", "5"),
        ("12 * 5 = 60", "60"),
        ("about 5", "5"),
        ("\u2248 5", "5"),
        ("twelve", "12"),
        ("Seven", "7"),
        ("**42**", "42"),
        ("$42$", "42"),
        ("\u0663", "3"),
    ],
)
def test_a_number_has_one_spelling(text: str, number: str) -> None:
    assert canonical(text, NUMBER) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "I do not know",
        "5 or 6",
        "between 5 and 6",
        "more than 5",
        "5 more than 6",
        "3 cats and 4 dogs",
        "1,2",
        "3, 4",
        "1,23",
        "12:30",
        "3/4/2020",
        "5 May 2020",
        "1/0",
        "2x",
        "2ab",
        "3n",
        "x = 3, y = 5",
        "x = 3 or x = 5",
        "x >= 5",
        "x + 1",
        "42 is the answer",
        "0x1F",
        "1.2.3",
        "\u00b2",
        "nan",
        "1/2/3",
        "3 4",
        "4 hundred thousand",
        "5 thousandths",
        "2 thirds",
        "3 quarters",
        "3 halves",
        "3 squared",
        "2 cubed",
        "3 factorial",
        "50 degrees below zero",
    ],
)
def test_what_is_no_single_number_has_no_canonical_number(text: str) -> None:
    assert canonical(text, NUMBER) is None


def test_a_percentage_is_its_number_and_not_a_hundredth_of_it() -> None:
    assert canonical("50%", NUMBER) == canonical("50", NUMBER)
    assert canonical("50%", NUMBER) != canonical("0.5", NUMBER)


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        (r"\frac{\sqrt{3}}{2}", r"\frac{\sqrt{3}}{2}"),
        ("sqrt(3)/2", r"\sqrt{3}/2"),
        ("2\u03c0", r"2\pi"),
        ("2 pi", r"2\pi"),
        ("3+4", "(3+4)"),
    ],
)
def test_a_number_that_is_not_rational_is_its_latex(text: str, latex: str) -> None:
    assert canonical(text, NUMBER) == latex


@pytest.mark.parametrize(
    "text",
    [
        "9" * (MOST_DIGITS + 1),
        f"1e{LARGEST_POWER + 1}",
        "1e-999999999",
        "1e" + "9" * 900,
        "10^" + "9" * 900,
        "9**9**9",
        "9^9^9^9",
        "1/" + "9" * 500,
        "(" * 300 + "1" + ")" * 300,
        "1" + "+1" * 5000,
    ],
)
def test_a_number_beyond_the_bounds_is_never_computed(text: str) -> None:
    assert rational(text) is None


@given(number=st.fractions(max_denominator=10**6))
def test_every_fraction_is_read_back_from_its_spelling(number: Fraction) -> None:
    assert rational(spelled(number)) == number
    assert rational(str(number)) == number


@given(number=st.integers(min_value=-(10**30), max_value=10**30))
def test_thousands_separators_change_nothing(number: int) -> None:
    assert rational(f"{number:,}") == number


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Beatles", "beatles"),
        ("the  beatles!", "beatles"),
        ("A dog", "dog"),
        ("U.S.", "us"),
        ("Adam\u2019s rib", "adams rib"),
        ("ADAM'S RIB", "adams rib"),
        ("Spider-Man", "spider man"),
        ("vitamin A", "vitamin a"),
        ("The The", "the the"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("\uff21\uff22\uff23", "abc"),
        ("\ufb01ve", "five"),
        ('"Oslo"', "oslo"),
        (r"\text{even}", "even"),
        ("1,000 km", "1000 km"),
        ("1.50 m", "1.5 m"),
        ("-5 degrees", "-5 degrees"),
        ("007", "007"),
        ("12:30", "12:30"),
        ("1990-1995", "1990 1995"),
        ("3-2", "3 2"),
        ("\u6771\u4eac", "\u6771\u4eac"),
    ],
)
def test_a_text_is_its_words(text: str, words: str) -> None:
    assert canonical(text, TEXT) == words


@pytest.mark.parametrize("text", ["", "   ", "...", "?!", "<answer>", "(final answer)", "word " * 5000])
def test_a_text_without_words_or_without_end_is_no_answer(text: str) -> None:
    assert canonical(text, TEXT) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("C", "C++"),
        ("C#", "C"),
        ("-5", "5"),
        ("1.5", "15"),
        ("5%", "5"),
        ("vitamin A", "vitamin"),
        ("5 < 6", "5 > 6"),
        ("007", "7"),
        ("1990-1995", "1995-2000"),
        ("no", "on"),
        ("listen", "silent"),
        ("resume", "r\u00e9sum\u00e9"),
        ("x^2", "x2"),
        ("\u0915\u093e", "\u0915\u0940"),
    ],
)
def test_texts_that_differ_in_more_than_spelling_stay_apart(a: str, b: str) -> None:
    assert canonical(a, TEXT) != canonical(b, TEXT)


@pytest.mark.parametrize(
    "text", ["b", "(B)", "B.", "B)", "[b]", "option B", "Choice (b)", "B: Paris", "(B) Paris", "paris", "**B**"]
)
def test_a_choice_is_its_letter(text: str) -> None:
    assert canonical(text, CHOICE, options=["Oslo", "Paris"]) == "B"


@pytest.mark.parametrize("text", ["", "C", "AB", "A or B", "A dog", "Berlin", "B. Oslo", "1"])
def test_what_is_no_option_is_no_choice(text: str) -> None:
    assert canonical(text, CHOICE, options=["Oslo", "Paris"]) is None


def test_an_option_that_looks_labelled_is_still_an_option() -> None:
    options = ["both A and B", "U.S. dollars"]

    assert canonical("(A) both A and B", CHOICE, options=options) == "A"
    assert canonical("U.S. dollars", CHOICE, options=options) == "B"


@pytest.mark.parametrize(("text", "label"), [("Yes", "true"), ("T", "true"), ("no.", "false"), ("`False`", "false")])
def test_a_boolean_is_true_or_false(text: str, label: str) -> None:
    assert canonical(text, BOOLEAN) == label


def test_a_program_is_its_syntax() -> None:
    one = 'def f( a,b ):\n  """Sum."""\n  # add\n  return (a+b)\n'
    other = "```python\ndef f(a, b):\n\n    return a + b\n```"

    assert canonical(one, CODE) == canonical(other, CODE) == "def f(a, b):\n    return a + b"


def test_a_function_of_nothing_but_a_docstring_keeps_a_body() -> None:
    assert canonical('def f():\n    "Nothing."', CODE) == "def f():\n    pass"


def test_other_languages_are_compared_by_their_words_and_case() -> None:
    assert canonical("int f() {\n  return 1;\n}", CODE) == "int f() { return 1; }"
    assert canonical("int F() {}", CODE) != canonical("int f() {}", CODE)


DEEP = {
    "brackets": "(" * 20_000 + "1" + ")" * 20_000,
    "signs": "x = (" + "-\n" * 20_000 + "1)",
    "sums": "x = (" + "1+\n" * 15_000 + "1)",
    "attributes": "x = (a" + "\n.b" * 15_000 + ")",
    "branches": "if x:\n pass\n" + "elif x:\n pass\n" * 3_000,
    "lambdas": "x = (" + "lambda:\n" * 6_000 + "1)",
    "comparisons": "x = (1" + "\n<1" * 12_000 + ")",
    "null": "x = '\0'",
    "tower": "x = 9**9**9**9**9",
    "digits": "x = " + "9" * 40_000,
}


@pytest.mark.parametrize("program", DEEP.values(), ids=DEEP)
@pytest.mark.timeout(20)
def test_a_program_too_deep_to_parse_is_compared_by_its_words(program: str) -> None:
    assert canonical(program, CODE)


MATHEMATICS = st.lists(
    st.sampled_from(
        [
            *"0123456789xyni+-*/^_=<>(){}[],. ",
            "\\frac",
            "\\sqrt",
            "\\pi",
            "\\log",
            "\\cup",
            "\\left",
            "\\,",
            " and ",
            "pi",
            "sqrt",
            "**",
        ]
    ),
    max_size=14,
).map("".join)


@given(text=MATHEMATICS)
def test_a_normalised_expression_is_its_own_normalised_form(text: str) -> None:
    form = expression(text)

    assert form is None or expression(form) == form


@given(text=st.text(max_size=200), answer_type=st.sampled_from(AnswerType))
def test_any_text_has_a_canonical_form_or_none(text: str, answer_type: AnswerType) -> None:
    form = canonical(text, answer_type)

    assert form is None or form == form.strip() != ""
