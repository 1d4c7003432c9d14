from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.answers import AnswerType, canonical, cluster, is_right, same_answer

BOOLEAN, CHOICE, NUMBER, TEXT, CODE = AnswerType

SHORT_TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["Paris", "the Paris", "1,000", "1000", "1/2", "0.5", "50%", "yes", "B", r"\frac{1}{2}", "(1,2)", "x+1", "C++"]
    ),
)


@given(a=SHORT_TEXTS, answer_type=st.sampled_from(AnswerType))
def test_every_answer_equals_itself_and_what_is_none_equals_nothing(a: str, answer_type: AnswerType) -> None:
    assert same_answer(a, a, answer_type) is (canonical(a, answer_type) is not None)


@settings(deadline=None)
@given(a=SHORT_TEXTS, b=SHORT_TEXTS, answer_type=st.sampled_from(AnswerType))
def test_equality_does_not_depend_on_the_order(a: str, b: str, answer_type: AnswerType) -> None:
    assert same_answer(a, b, answer_type) is same_answer(b, a, answer_type)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1,200", "$1200.00"),
        ("3/4", "0.75"),
        ("1 1/2", "1.5"),
        ("1e3", "1000"),
        ("50%", "50"),
        ("5 km", "5"),
        (r"\frac{\sqrt{3}}{2}", "sqrt(3)/2"),
        (r"\sqrt{4}", "2"),
        ("2^10", "1024"),
        (r"0.5\pi", r"\frac{\pi}{2}"),
        ("3+4", "7"),
        (r"\frac{20000}{\pi}", "20000/pi"),
        (r"\frac{1}{2} \log_2 9", r"\log_{2}(9)/2"),
        (r"\sin(\frac{\pi}{6})", "1/2"),
    ],
)
def test_equal_numbers_are_the_same_answer(a: str, b: str) -> None:
    assert same_answer(a, b, NUMBER)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("1/3", "0.333"),
        ("1/3", "0.3333333333333333"),
        ("50%", "0.5"),
        ("2", "2.0000001"),
        (r"\sqrt{2}", "1.41421356"),
        (r"\sqrt{2}", r"\sqrt{3}"),
        ("5", "-5"),
        (r"\pi", "e"),
        (r"\pi \cdot 10^{-30}", r"2\pi \cdot 10^{-30}"),
        (r"\log_2 9", r"\log_{29}"),
        ("10^15", "10^15 + 1"),
    ],
)
def test_numbers_are_compared_exactly(a: str, b: str) -> None:
    assert not same_answer(a, b, NUMBER)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"\left( 3, 4 \right]", "(3,4]"),
        (r"(-\infty, 2) \cup (3, \infty)", "(-inf,2) U (3,inf)"),
        (r"x \in [-2,7]", "[-2, 7]"),
        ("1, -2", "-2 and 1"),
        (r"\{1,2\}", "2,1"),
        ("x = 1 or x = -2", "1,-2"),
        (r"3 \pm 2\sqrt{2}", r"3+2\sqrt{2}, 3-2\sqrt{2}"),
        ("(15,-29)", "(15, -29)"),
        ("(0.5, 1)", r"(\frac{1}{2}, 1)"),
        ("(x+1)^2", "x^2+2x+1"),
        ("6r^2-4r-24", "2(3r^2-2r-12)"),
        ("y = -2x", "2x + y = 0"),
        ("3 < x", "x > 3"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("-2 + 7i", "7i - 2"),
        ("40_9", "40_{9}"),
        (r"\text{even}", "Even."),
        ("2ab", "2ba"),
    ],
)
def test_equal_mathematics_is_the_same_answer(a: str, b: str) -> None:
    assert same_answer(a, b, TEXT)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(1,2)", "[1,2]"),
        ("(1,2)", "1,2"),
        ("(1,2)", "(2,1)"),
        ("[1,2)", "(1,2]"),
        ("x = 3", "y = 3"),
        ("3R^2", "3r^2"),
        ("2ab", "2"),
        ("2ab", "2a"),
        ("40_9", "40"),
        ("40_9", "40_8"),
        ("2x + z = 1", "1"),
        ("x < 3", "x \\le 3"),
        ("x+1", "x-1"),
        ("1990-1995", "1995-2000"),
        ("3-2", "2-1"),
        ("no", "on"),
        ("even", "neev"),
        ("A-", "A"),
        ("A+", "A"),
        ("5 km", r"\sqrt{25}"),
        (r"\sqrt{x^2}", "x"),
        (r"\infty", r"-\infty"),
    ],
)
def test_what_only_looks_alike_is_not_the_same(a: str, b: str) -> None:
    assert not same_answer(a, b, TEXT)


def test_aliases_are_one_answer_and_nothing_else_is() -> None:
    aliases = ["New York City", "NYC", "The Big Apple"]

    assert same_answer("nyc", "big apple", TEXT, aliases=aliases)
    assert not same_answer("nyc", "Boston", TEXT, aliases=aliases)
    assert not same_answer("Boston", "Chicago", TEXT, aliases=aliases)


def test_a_choice_by_its_text_equals_its_letter() -> None:
    assert same_answer("Paris", "(b)", CHOICE, options=["Oslo", "Paris"])
    assert not same_answer("A", "B", CHOICE)


def test_long_texts_are_the_same_only_word_for_word() -> None:
    text = "The treaty ended the war between both of the kingdoms for good."

    assert same_answer(text, text.upper(), TEXT)
    assert not same_answer(text, "The war between both of the kingdoms was ended by the treaty for good.", TEXT)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("42.0", "42"),
        ("0.333", "1/3"),
        ("-0.667", "-2/3"),
        ("33.3", "100/3"),
        ("1/3", "0.333"),
        ("1.41", r"\sqrt{2}"),
        ("3.1416", r"\pi"),
        ("50%", "50"),
        ("50%", "0.5"),
        ("0.5", "50%"),
        ("33.3%", "100/3"),
    ],
)
def test_a_number_is_right_exactly_or_rounded_or_as_a_percentage(answer: str, reference: str) -> None:
    assert is_right(answer, reference, NUMBER) is True


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("0.33", "1/3"),
        ("0.334", "1/3"),
        ("0.3", "1/3"),
        ("0.51", "0.5"),
        ("0.501", "0.5"),
        ("1.42", r"\sqrt{2}"),
        ("50", "0.5"),
        ("50%", "5"),
        ("0.5%", "50%"),
        ("none", "5"),
        ("3.14", "3.14159"),
        ("333", "1000/3"),
    ],
)
def test_a_number_that_is_only_near_is_wrong(answer: str, reference: str) -> None:
    assert is_right(answer, reference, NUMBER) is False


def test_any_alias_is_right() -> None:
    assert is_right("the anglican", "Anglican church", TEXT, aliases=["The Church of England", "Anglican"]) is True
    assert is_right("Baptist", "Anglican church", TEXT, aliases=["Anglican"]) is False


@pytest.mark.parametrize(
    ("answer", "reference", "answer_type"),
    [
        ("def f(x): return 2 * x", "def f(x): return x + x", CODE),
        ("It was the treaty that brought an end to the war of the kingdoms.", "the treaty", TEXT),
    ],
)
def test_what_equality_cannot_decide_is_neither_right_nor_wrong(
    answer: str, reference: str, answer_type: AnswerType
) -> None:
    assert is_right(answer, reference, answer_type) is None


def test_an_invalid_answer_is_wrong_whatever_its_type() -> None:
    assert [is_right("", "yes", answer_type) for answer_type in AnswerType] == [False] * 5


@pytest.mark.parametrize(
    "expression",
    [
        "9^{9^{9}}",
        "9^{9^{9^{9}}}",
        "(((2^{99})^{99})^{99})^{99}",
        "e^{e^{e^{99}}}",
        "2^{99999999}",
        "e^{99999999999}",
        "x^{x^{x}}",
        "(x+y+z+w)^{150}",
        r"\sqrt{" * 60 + "2" + "}" * 60,
        "(" * 100 + "x" + ")" * 100,
        "x!" * 20,
        r"\binom{1000000}{500000}",
        r"\sum_{n=1}^{99999999} n",
        r"\int_0^1 x^x dx",
        "x^{50}+x+1=0",
        "x^5+y^5+z^5+x*y*z=1",
        r"\sqrt{x+\sqrt{x+1}}=3",
        "10^{-400}+x",
        "9" * 190 + "x",
        "xy" * 90,
        "1," * 99 + "2",
        r"\tan(\frac{\pi}{2})",
        r"\frac{1}{x-x}",
        "|" * 50 + "x",
    ],
)
@pytest.mark.timeout(30)
def test_hostile_mathematics_is_decided_quickly(expression: str) -> None:
    for other in (f"{expression}+1", f"0+{expression}", "7"):
        same_answer(expression, other, TEXT)
        is_right(expression, other, NUMBER)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"(\sqrt{2}+\sqrt{3}+\sqrt{5})^{150}", r"((\sqrt{2}+\sqrt{3}+\sqrt{5})^2)^{75}"),
        (r"(x+1)^{100}(x-1)^{100}", r"(x^2-1)^{100}"),
        (r"(x^2+2x+1)^{100}", r"(x+1)^{200}"),
        (r"(x+y+z+w)^{50}", r"(x+y+z+w)^{49}(x+y+z+w)"),
        (r"(2^{99999999},3^{99999999})", "(1,2)"),
        (r"((((2^{99})^{99})^{99})^{99},1)", "(1,2)"),
    ],
)
@pytest.mark.timeout(60)
def test_what_would_take_long_to_multiply_out_is_not_compared(a: str, b: str) -> None:
    assert not same_answer(a, b, NUMBER)
    assert not same_answer(a, b, TEXT)


class Sworn:
    """Says that everything is the same, and worth 1."""

    undecided = 0

    def same(self, a: str, b: str) -> bool:
        """Yes."""
        return True

    def value(self, plain: str) -> Fraction:
        """One."""
        return Fraction(1)


class Tired(Sworn):
    """Gives up every comparison."""

    def same(self, a: str, b: str) -> bool:
        """Nothing that is known."""
        self.undecided += 1
        return False


def test_what_was_not_compared_for_lack_of_time_is_neither_right_nor_wrong() -> None:
    assert is_right(r"\sqrt{2}", r"\frac{2}{\sqrt{2}}", TEXT, mathematics=Tired()) is None
    assert is_right("1.00", r"\sqrt{2}", NUMBER, mathematics=Tired()) is True  # as its value says
    assert is_right("2", "3", NUMBER, mathematics=Tired()) is False  # plain numbers need no comparison


def test_the_given_mathematics_compares_expressions_and_nothing_else() -> None:
    assert same_answer(r"\sqrt{2}", r"\sqrt{3}", NUMBER, mathematics=Sworn())
    assert not same_answer("2", "3", NUMBER, mathematics=Sworn())
    assert is_right("1.00", r"\sqrt{2}", NUMBER, mathematics=Sworn()) is True
    assert len(cluster([r"\sqrt{2}", r"\sqrt{3}", "2", "3"], NUMBER, mathematics=Sworn())) == 1
    assert len(cluster(["2", "3"], NUMBER, mathematics=Sworn())) == 2


def test_mathematics_is_compared_outside_the_main_thread_too() -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        same = pool.map(
            lambda b: same_answer(r"\frac{\sqrt{7}}{2}", b, NUMBER), ["sqrt(7)/2", r"\sqrt{7/4}", "sqrt(7)/3"]
        )

        assert list(same) == [True, True, False]
