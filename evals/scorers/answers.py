"""Is a model's answer to an item the known one? An answer that cannot be read is wrong, and is counted apart."""

from collections.abc import Sequence

from kernel.answers.answer_types import AnswerType
from kernel.answers.equality import is_right
from kernel.answers.extraction import extract
from kernel.values import value
from sandbox.client_mathematics import client_mathematics


@value
class Known:
    """The known answer.

    Attributes:
        answer: As `answer_type` writes it.
        answer_type: Its form.
        aliases: Further accepted answers.
        choices: The options of a choice, in order.
    """

    answer: str
    answer_type: AnswerType
    aliases: Sequence[str] = ()
    choices: Sequence[str] = ()


@value
class ScoredAnswer:
    """The score of a text.

    Attributes:
        answer: The answer that was read off it; None when there is none of the form wanted.
        right: Whether it is the known one.
        decided: Whether a rule could judge it; a long free text counts as wrong unless it is the known one word for
            word.
    """

    answer: str | None
    right: bool
    decided: bool = True


def scored(text: str, known: Known) -> ScoredAnswer:
    r"""Return whether the answer in `text` is the known one.

    Example:
        >>> scored("6 x 7 = 42.\nFinal Answer: 42", Known(answer="42", answer_type=AnswerType.NUMBER))
        ScoredAnswer(answer='42', right=True, decided=True)
    """
    answer = extract(text, known.answer_type, options=known.choices)
    if answer is None:
        return ScoredAnswer(answer=None, right=False)
    options, aliases, mathematics = known.choices, known.aliases, client_mathematics()
    right = is_right(answer, known.answer, known.answer_type, options=options, aliases=aliases, mathematics=mathematics)
    return ScoredAnswer(answer=answer, right=right is True, decided=right is not None)
