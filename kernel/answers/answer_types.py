"""This module holds the types of answers, and the rules that follow from each type.

A new type needs a member of `AnswerType`, its rules here, and its canonical form in `kernel.answers.canonical`; mypy
names both places, because each is an exhaustive `match`.
"""

import re
from enum import StrEnum
from typing import assert_never

from kernel.values import value


class AnswerType(StrEnum):
    """An answer type is the form of an answer; extraction and equality depend on it (papers.md 2.3)."""

    BOOLEAN = "BOOLEAN"
    CHOICE = "CHOICE"
    NUMBER = "NUMBER"
    TEXT = "TEXT"
    CODE = "CODE"


@value
class AnswerTypeRules:
    """These rules are what one answer type brings to extraction, equality and clusters.

    Attributes:
        label: Name of the type for a reader.
        is_mathematical: Whether two different canonical forms may be equal as mathematics.
        is_numeric: Whether rounding and percentages count when an answer meets a reference, and a calculation may
            follow the answer in its sentence.
        is_free_text: Whether meaning decides between two long answers, and a short text is an answer as a whole.
        has_options: Whether the question lists the answers to choose from.
        is_program: Whether an answer is a block of code instead of a line, and tests decide between two of them.
        simple_form: Pattern of the answers that are their own canonical form and equal to no other; None for none.
    """

    label: str
    is_mathematical: bool = False
    is_numeric: bool = False
    is_free_text: bool = False
    has_options: bool = False
    is_program: bool = False
    simple_form: re.Pattern[str] | None = None


_BOOLEAN = AnswerTypeRules(label="yes or no", simple_form=re.compile(r"true|false"))
_CHOICE = AnswerTypeRules(label="choice", has_options=True, simple_form=re.compile(r"[A-Z]"))
_NUMBER = AnswerTypeRules(
    label="number", is_mathematical=True, is_numeric=True, simple_form=re.compile(r"0|-?[1-9][0-9]{0,14}")
)
_TEXT = AnswerTypeRules(label="text", is_mathematical=True, is_free_text=True)
_CODE = AnswerTypeRules(label="code", is_program=True)


def rules_of(answer_type: AnswerType) -> AnswerTypeRules:
    """Return the rules of a type.

    Example:
        >>> rules_of(AnswerType.NUMBER).is_mathematical, rules_of(AnswerType.CODE).label
        (True, 'code')
    """
    match answer_type:
        case AnswerType.BOOLEAN:
            return _BOOLEAN
        case AnswerType.CHOICE:
            return _CHOICE
        case AnswerType.NUMBER:
            return _NUMBER
        case AnswerType.TEXT:
            return _TEXT
        case AnswerType.CODE:
            return _CODE
        case _:
            assert_never(answer_type)
