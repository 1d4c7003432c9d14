"""The form of answers that nobody stated, and the options that a question lists."""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from kernel.answers import AnswerType, InferredType, canonical

_OPTION = re.compile(r"^\s*[(\[]?([A-Z])[)\].:]\s+(\S.*?)\s*$")
_LETTER = re.compile(r"\s*[(\[]?[A-Ja-j][)\].]?\s*")


def listed_options(question: str) -> tuple[str, ...]:
    r"""Texts of the options that `question` lists line by line as A, B, …; empty where it lists none so.

    Example:
        >>> listed_options("Which is a fruit?\nA. apple\nB) table")
        ('apple', 'table')
    """
    found: list[str] = []
    for line in question.splitlines():
        option = _OPTION.match(line[:2_000])
        if option and option[1] == "A":
            found = [option[2]]
        elif option and found and len(found) < len(ascii_uppercase) and option[1] == ascii_uppercase[len(found)]:
            found.append(option[2])
    return tuple(found) if len(found) > 1 else ()


def form_of_answers(answers: Sequence[str]) -> InferredType:
    """Type of answers whose question nobody tells: the first of choice, boolean and number that most of them are.

    Example:
        >>> form_of_answers(["12", "12.0", "none"]).answer_type, form_of_answers(["yes", "no"]).answer_type
        (<AnswerType.NUMBER: 'NUMBER'>, <AnswerType.BOOLEAN: 'BOOLEAN'>)
    """
    given = [answer for answer in answers if answer.strip()]
    letters = sum(_LETTER.fullmatch(answer) is not None for answer in given)
    if given and letters == len(given):
        return InferredType(answer_type=AnswerType.CHOICE, reason="every answer is a letter")
    for kind in (AnswerType.BOOLEAN, AnswerType.NUMBER):
        if 2 * sum(canonical(answer, kind) is not None for answer in given) > len(given):
            return InferredType(answer_type=kind, reason=f"most answers are of the type {kind.lower()}")
    return InferredType(answer_type=AnswerType.TEXT, reason="nothing shows another type")
