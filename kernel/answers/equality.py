"""This module decides when two answers are the same, and when an answer is right (papers.md 2.3).

Equality is exact, so that it never depends on which answer is seen first: 0.333 is not 1/3. Tolerance has its place
where an answer meets a reference, and only in `compared`.
"""

from collections.abc import Sequence
from fractions import Fraction

from kernel.answers.answer_types import AnswerType, rules_of
from kernel.answers.canonical import canonical
from kernel.answers.mathematics.expressions import IN_THIS_PROCESS, Mathematics, constant, expression
from kernel.answers.numbers import decimal_places, has_finite_decimal, is_percentage, rational, spelled
from kernel.answers.units import assumed_unit, quantity, rounds_quantity, same_quantity
from kernel.answers.words import is_short
from kernel.values import value


@value
class AnswerComparison:
    """A comparison tells whether an answer is right, and what was assumed for that.

    Attributes:
        right: Whether it is; None where equality cannot decide.
        unit_assumed: Unit that only one of the two states, and that the other is taken to mean; empty without any.
    """

    right: bool | None
    unit_assumed: str = ""


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
        Whether their canonical forms are equal, or mathematics finds them equal (NUMBER, TEXT), or quantities are equal
        after conversion; a number without a unit equals that number of any unit (NUMBER). Long free text is the
        same only word for word: its meaning is not decided here. What is no answer of the type equals nothing, not
        even itself.

    Source:
        Ours (papers.md 2.3).

    Example:
        >>> same_answer("1,200", "$1200.00", AnswerType.NUMBER), same_answer("1/3", "0.333", AnswerType.NUMBER)
        (True, False)
        >>> same_answer("10 km", "10,000 m", AnswerType.NUMBER), same_answer("10 km", "10 miles", AnswerType.NUMBER)
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
    rules = rules_of(answer_type)
    if a == b or not rules.is_mathematical:
        return a == b
    if rules.is_numeric and (" " in a or " " in b):
        if same_number(a, b):
            return True
        a, b = number_form(a), number_form(b)
    # Two numbers are compared by their canonical forms alone, and so are words.
    numbers = [form for form in (a, b) if _is_number(form)]
    expressions = [form for form in (a, b) if is_expression(form)]
    return len(expressions) > 0 and len(numbers) + len(expressions) == 2 and mathematics.same(a, b)


def same_number(a: str, b: str) -> bool:
    """Return whether two canonical forms are equal as numbers with their units; expressions are not computed.

    Example:
        >>> same_number("10 km", "10000 m"), same_number("10 km", "10"), same_number("10 km", "10 mi")
        (True, True, False)
    """
    first, second = quantity(a), quantity(b)
    if first is not None and second is not None:
        return same_quantity(first, second)
    return number_form(a) == number_form(b)


def number_form(form: str) -> str:
    """Return the canonical form of a number without its unit; any other form as it is.

    Example:
        >>> number_form("10000 m"), number_form("12"), number_form("true")
        ('10000', '12', 'true')
    """
    found = quantity(form) if " " in form else None
    return form if found is None else spelled(found.number)


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
    r"""Return whether `answer` is the same as `reference`, as `compared` has it; None where equality cannot decide.

    Example:
        >>> is_right("0.333", "1/3", AnswerType.NUMBER), is_right("0.34", "1/3", AnswerType.NUMBER)
        (True, False)
        >>> is_right("50%", "0.5", AnswerType.NUMBER), is_right("x = 1", "y = 1", AnswerType.CODE)
        (True, None)
    """
    return compared(answer, reference, answer_type, options=options, aliases=aliases, mathematics=mathematics).right


def compared(
    answer: str,
    reference: str,
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    aliases: Sequence[str] = (),
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> AnswerComparison:
    r"""Return whether `answer` is the same as `reference`, and what was assumed.

    Args:
        answer: An answer alone, as `extract` finds it.
        reference: The right answer.
        answer_type: Type of both.
        options: Texts of a choice's options in their order.
        aliases: Further right answers, or spellings of the one.
        mathematics: Who compares expressions.

    Returns:
        Right for the same answer as the reference or an alias. For numbers also where one side is a decimal of three
        or more significant digits that rounds the other, which has no finite decimal (0.333 for 1/3, 1.41 for the
        root of 2, but not 0.51 for 0.5) or another unit (16.1 km for 10 miles), and where one side alone is a
        percentage, in either reading (50% for 50 and for 0.5). None for code that differs in text (tests decide), where
        either of two texts is long (meaning decides), and where mathematics gave up a comparison for lack of time.
        False otherwise, and for what is no answer of the type.

    Source:
        MetaCogAgent III-D, exact match (papers.md 2.3); the tolerance, and units, are ours.

    Example:
        >>> compared("10", "10 km", AnswerType.NUMBER)
        AnswerComparison(right=True, unit_assumed='km')
    """
    if canonical(answer, answer_type, options=options) is None:
        return AnswerComparison(right=False)
    references, undecided = (reference, *aliases), mathematics.undecided
    rules = rules_of(answer_type)
    same = [
        one for one in references if same_answer(answer, one, answer_type, options=options, mathematics=mathematics)
    ]
    if not same and rules.is_numeric:
        same = [one for one in references if _is_near(answer, one, mathematics)]
    if same:
        assumed = [assumed_unit(answer, one) for one in same] if rules.is_numeric else [""]
        return AnswerComparison(right=True, unit_assumed=min(assumed, key=bool))
    if mathematics.undecided > undecided:
        return AnswerComparison(right=None)
    return AnswerComparison(right=None if _is_undecided(answer, references, answer_type) else False)


def _is_near(answer: str, reference: str, mathematics: Mathematics) -> bool:
    if _rounds(answer, reference, mathematics) or _is_percent_of(answer, reference):
        return True
    return rounds_quantity(answer, reference) or rounds_quantity(reference, answer)


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
