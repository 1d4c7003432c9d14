"""The canonical form of an answer is what is left of it when its spelling is taken away (papers.md 2.3)."""

import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import assert_never

from kernel.answers.answer_types import AnswerType
from kernel.answers.mathematics.expressions import constant, expression
from kernel.answers.numbers import LONGEST_NUMBER, number_in, rational, spelled
from kernel.answers.programs import LONGEST_PROGRAM, code_blocks, normalised_program
from kernel.answers.truths import truth
from kernel.answers.units import Quantity, unit_name
from kernel.answers.words import normalised
from kernel.answers.wrapping import unwrapped

_LETTER = re.compile(r"(?:(?:option|choice|answer)\s+)?[(\[]?([A-Za-z])[)\]]?", re.IGNORECASE)
_LABELLED = re.compile(
    r"(?:(?:option|choice)\s+)?(?:[(\[]([A-Za-z])[)\]]|([A-Za-z])[.):])\s*(.+)", re.IGNORECASE | re.DOTALL
)
_FURTHER = re.compile(r"[(\[][A-Z][)\]]|\b(?:or|and)\s+[(\[]?[A-Z]\b[)\]]?")

_BARE_NUMBER = re.compile(r"-?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)?(?:\.\d+)?")


def canonical(text: str, answer_type: AnswerType, *, options: Sequence[str] = ()) -> str | None:
    r"""Return the form of an answer in which equal answers are equal texts; None when `text` is no answer of this type.

    Args:
        text: The answer alone, as `extract` finds it.
        answer_type: Its type.
        options: Texts of a choice's options in their order; empty when they are not known.

    Returns:
        BOOLEAN: `true` or `false`. CHOICE: an upper-case letter, of an option that exists. NUMBER: an exact rational
        (see `kernel.answers.numbers`) with its unit, where it has one, else the normalised LaTeX of a constant. TEXT:
        its words, its number where it is nothing else, or its normalised LaTeX. CODE: its Python without layout, or its
        words.

    Source:
        Ours (papers.md 2.3).

    Example:
        >>> canonical("Yes.", AnswerType.BOOLEAN), canonical("(b) Paris", AnswerType.CHOICE)
        ('true', 'B')
        >>> canonical("$1,200.50", AnswerType.NUMBER), canonical("The  Beatles!", AnswerType.TEXT)
        ('1200.5 USD', 'beatles')
    """
    match answer_type:
        case AnswerType.BOOLEAN:
            return truth(text)
        case AnswerType.CHOICE:
            return _choice(text, options)
        case AnswerType.NUMBER:
            return _number(text)
        case AnswerType.TEXT:
            return _text(text)
        case AnswerType.CODE:
            return _code(text)
        case _:
            assert_never(answer_type)


def _choice(text: str, options: Sequence[str]) -> str | None:
    bare = unwrapped(text)
    letter = _LETTER.fullmatch(bare)
    if letter:
        return _existing(letter[1], options)
    labelled = _LABELLED.fullmatch(bare)
    named = _existing(labelled[1] or labelled[2], options) if labelled else None
    if labelled is None or named is None:
        return _option(bare, options)
    meant = _option(labelled[3], options)
    doubtful = meant is None and _FURTHER.search(labelled[3]) is not None
    return named if meant in (named, None) and not doubtful else None


def _existing(letter: str, options: Sequence[str]) -> str | None:
    letter = letter.upper()
    return letter if not options or letter in ascii_uppercase[: len(options)] else None


def _option(text: str, options: Sequence[str]) -> str | None:
    """Return the letter of the only option with this text."""
    words = normalised(text)
    if words is None:
        return None
    letters = [letter for letter, option in zip(ascii_uppercase, options, strict=False) if normalised(option) == words]
    return letters[0] if len(letters) == 1 else None


def _number(text: str) -> str | None:
    found = number_in(text)
    if found is None:
        return constant(text)
    unit = unit_name(found.currency, found.beside)
    return Quantity(number=found.number, unit=unit).form if unit else spelled(found.number)


def _text(text: str) -> str | None:
    bare = unwrapped(text) if len(text) <= LONGEST_NUMBER else ""
    # What may be more than a number (a date, 007, 5 km) keeps its words.
    number = rational(bare) if bare and _BARE_NUMBER.fullmatch(bare) else None
    return spelled(number) if number is not None else expression(text) or normalised(text)


def _code(text: str) -> str | None:
    if len(text) > LONGEST_PROGRAM:
        return None
    blocks = code_blocks(text)
    return normalised_program(blocks[-1] if blocks else text)
