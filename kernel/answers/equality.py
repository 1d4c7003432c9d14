"""This module decides when two answers are the same, and when an answer is right (papers.md 2.3).

Equality is exact, so that it never depends on which answer is seen first: 0.333 is not 1/3. Tolerance has its place
where an answer meets a reference, and only in `is_right`.
"""

from collections.abc import Sequence
from fractions import Fraction

from kernel.answers.answer_types import AnswerType, rules_of
from kernel.answers.canonical import canonical
from kernel.answers.mathematics.expressions import IN_THIS_PROCESS, Mathematics, constant, expression
from kernel.answers.numbers import decimal_places, has_finite_decimal, is_percentage, rational, spelled
from kernel.answers.words import is_short


def same_answer(
    a: str,
    b: str,
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    aliases: Sequence[str] = (),
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> bool:
    r"""Return whether two answers are one answer in two spellings.

    Args:
        a: An answer alone, as `extract` finds it.
        b: Another.
        answer_type: Type of both.
        options: Texts of a choice's options in their order.
        aliases: Further spellings of one and the same answer; two answers found among them are the same.
        mathematics: Who compares expressions.

    Returns:
        Whether their canonical forms are equal, or mathematics finds them equal (NUMBER, TEXT). Long free text is the
        same only word for word: its meaning is not decided here. What is no answer of the type equals nothing, not
        even itself.

    Source:
        Ours (papers.md 2.3).

    Example:
        >>> same_answer("1,200", "$1200.00", AnswerType.NUMBER), same_answer("1/3", "0.333", AnswerType.NUMBER)
        (True, False)
        >>> same_answer("NYC", "New York", AnswerType.TEXT, aliases=["New York", "NYC", "The Big Apple"])
        True
    """
    first, second = canonical(a, answer_type, options=options), canonical(b, answer_type, options=options)
    if first is None or second is None:
        return False
    if same_canonical(first, second, answer_type, mathematics):
        return True
    known = {canonical(alias, answer_type, options=options) for alias in aliases}
    return first in known and second in known


def same_canonical(a: str, b: str, answer_type: AnswerType, mathematics: Mathematics = IN_THIS_PROCESS) -> bool:
    r"""Return whether two canonical forms are equal, as texts or as mathematics.

    Example:
        >>> same_canonical(r"\sqrt{4}", "2", AnswerType.NUMBER), same_canonical("b", "c", AnswerType.TEXT)
        (True, False)
    """
    if a == b or not rules_of(answer_type).is_mathematical:
        return a == b
    # Two numbers are compared by their canonical forms alone, and so are words.
    numbers = [form for form in (a, b) if _is_number(form)]
    expressions = [form for form in (a, b) if is_expression(form)]
    return len(expressions) > 0 and len(numbers) + len(expressions) == 2 and mathematics.same(a, b)


def is_expression(form: str) -> bool:
    r"""Return whether a canonical form is mathematics, and no plain number.

    Example:
        >>> is_expression(r"\sqrt{2}"), is_expression("2"), is_expression("paris")
        (True, False, False)
    """
    return not _is_number(form) and expression(form) == form


def is_right(
    answer: str,
    reference: str,
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    aliases: Sequence[str] = (),
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> bool | None:
    r"""Return whether `answer` is the same as `reference`; None where equality cannot decide.

    Args:
        answer: An answer alone, as `extract` finds it.
        reference: The right answer.
        answer_type: Type of both.
        options: Texts of a choice's options in their order.
        aliases: Further right answers, or spellings of the one.
        mathematics: Who compares expressions.

    Returns:
        True for the same answer as the reference or an alias. For numbers also where one side is a decimal of three
        or more significant digits that rounds the other, which has no finite decimal (0.333 for 1/3, 1.41 for the
        root of 2, but not 0.51 for 0.5), and where one side alone is a percentage, in either reading (50% for 50 and
        for 0.5). None for code that differs in text (tests decide), where either of two texts is long (meaning
        decides), and where mathematics gave up a comparison for lack of time. False otherwise, and for what is no
        answer of the type.

    Source:
        MetaCogAgent III-D, exact match (papers.md 2.3); the tolerance is ours.

    Example:
        >>> is_right("0.333", "1/3", AnswerType.NUMBER), is_right("0.34", "1/3", AnswerType.NUMBER)
        (True, False)
        >>> is_right("50%", "0.5", AnswerType.NUMBER), is_right("x = 1", "y = 1", AnswerType.CODE)
        (True, None)
    """
    if canonical(answer, answer_type, options=options) is None:
        return False
    references, undecided = (reference, *aliases), mathematics.undecided
    if any(same_answer(answer, right, answer_type, options=options, mathematics=mathematics) for right in references):
        return True
    if rules_of(answer_type).is_numeric:
        is_near = any(_rounds(answer, right, mathematics) or _is_percent_of(answer, right) for right in references)
        return is_near or (None if mathematics.undecided > undecided else False)
    if mathematics.undecided > undecided:
        return None
    return None if _is_undecided(answer, references, answer_type) else False


def _is_undecided(answer: str, references: Sequence[str], answer_type: AnswerType) -> bool:
    rules = rules_of(answer_type)
    if rules.is_free_text:
        return not all(map(is_short, (answer, *references)))
    return rules.is_program


def _is_number(form: str) -> bool:
    number = rational(form)
    return number is not None and spelled(number) == form


def _rounds(a: str, b: str, mathematics: Mathematics) -> bool:
    return _is_rounding_of(a, b, mathematics) or _is_rounding_of(b, a, mathematics)


def _is_rounding_of(decimal: str, exact: str, mathematics: Mathematics) -> bool:
    places, shown = decimal_places(decimal), rational(decimal)
    value = None if places is None or shown is None else _value(exact, mathematics)
    if places is None or shown is None or value is None:
        return False
    return abs(shown - value) <= Fraction(1, 2 * 10**places)


def _value(text: str, mathematics: Mathematics) -> Fraction | None:
    """Return the value of what has no finite decimal; None for what has one, or no value at all."""
    number = rational(text)
    if number is not None:
        return None if has_finite_decimal(number) else number
    plain = constant(text)
    return mathematics.value(plain) if plain is not None else None


def _is_percent_of(a: str, b: str) -> bool:
    first, second = rational(a), rational(b)
    if first is None or second is None or is_percentage(a) == is_percentage(b):
        return False
    return first / 100 == second if is_percentage(a) else second / 100 == first
