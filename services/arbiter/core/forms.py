"""The form of answers whose question nobody tells."""

import re
from collections.abc import Sequence

from kernel.answers import AnswerType, InferredType, canonical

_LETTER = re.compile(r"\s*[(\[]?[A-Ja-j][)\].]?\s*")


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
