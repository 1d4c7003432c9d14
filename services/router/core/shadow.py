"""This module chooses the runs that get a shadow, and compares the answers of both."""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256

from kernel.answers import AnswerType, canonical, listed_options, rules_of
from kernel.answers.equality import is_expression, same_number
from kernel.values import value
from kernel.votes.drafts import draft_answer, draft_type
from kernel.votes.votes import is_comparable

# Values of the first eight bytes of a digest.
_VALUES = 2**64


def has_shadow(run_id: str, share: float) -> bool:
    """Return whether a run is among the share that gets a shadow: the same at every replica, and for every repetition.

    Args:
        run_id: The served run.
        share: Share of the runs [0..1].

    Example:
        >>> has_shadow("any", 1.0), has_shadow("any", 0.0)
        (True, False)
    """
    return int.from_bytes(sha256(run_id.encode()).digest()[:8]) < share * _VALUES


class UnknownAgreement(StrEnum):
    """The reason why it is unknown whether two answers are the same."""

    NO_ANSWER = "NO_ANSWER"
    DIFFERENT_TYPES = "DIFFERENT_TYPES"
    NO_SHORT_ANSWER = "NO_SHORT_ANSWER"
    LONG_ANSWER = "LONG_ANSWER"
    WORDING = "WORDING"
    PROGRAM = "PROGRAM"
    MATHEMATICS = "MATHEMATICS"


@value
class AnswerAgreement:
    """An agreement says whether two answers are the same; None with the reason why it is unknown."""

    agrees: bool | None = None
    not_compared: UnknownAgreement | None = None


def agreement(question: str, one: str, other: str, answer_type: AnswerType | None = None) -> AnswerAgreement:
    """Return whether two texts give the same answer to a question, by the equality of its type, as votes do.

    Numbers are compared with their units. Expressions that are not spelled alike are left open: to compare them may
    take long, and this is no place to wait.

    Args:
        question: The question.
        one: A text that answers it.
        other: Another.
        answer_type: Type of the answer; None where the request does not state it.

    Source:
        Ours (papers.md 4.5), equality as in papers.md 2.3: what cannot be compared is unknown, never different.

    Example:
        >>> agreement("What is 2 + 2?", "It is 4.", "Final Answer: 4.0").agrees
        True
        >>> agreement("Why is it so?", "Since it rained.", "").not_compared
        <UnknownAgreement.NO_ANSWER: 'NO_ANSWER'>
    """
    if not one.strip() or not other.strip():
        return _unknown(UnknownAgreement.NO_ANSWER)
    if one.strip() == other.strip():
        return AnswerAgreement(agrees=True)
    options = listed_options(question)
    types = {answer_type or draft_type(question, text, options=options).answer_type for text in (one, other)}
    if len(types) > 1:
        return _unknown(UnknownAgreement.DIFFERENT_TYPES)
    [common] = types
    if rules_of(common).is_program:
        return _unknown(UnknownAgreement.PROGRAM)
    first, second = (draft_answer(text, common, options=options) for text in (one, other))
    return _compared(first, second, common, options)


def _compared(one: str | None, other: str | None, answer_type: AnswerType, options: Sequence[str]) -> AnswerAgreement:
    """Return whether two answers of a type are the same; None is no answer of this type."""
    forms = [None if answer is None else canonical(answer, answer_type, options=options) for answer in (one, other)]
    first, second = forms
    if one is None or other is None or first is None or second is None:
        return _unknown(UnknownAgreement.NO_SHORT_ANSWER)
    if first == second:
        return AnswerAgreement(agrees=True)
    rules = rules_of(answer_type)
    if not (is_comparable(one, answer_type) and is_comparable(other, answer_type)):
        return _unknown(UnknownAgreement.LONG_ANSWER)
    if rules.is_free_text and _contains(first, second):
        return _unknown(UnknownAgreement.WORDING)
    if rules.is_mathematical and (is_expression(first) or is_expression(second)):
        return _unknown(UnknownAgreement.MATHEMATICS)
    # Equal answers of other types have one canonical form.
    return AnswerAgreement(agrees=rules.is_numeric and same_number(first, second))


def _contains(one: str, other: str) -> bool:
    """Return whether all words of one text stand together in the other, so that it may say the same at more length."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


def _unknown(reason: UnknownAgreement) -> AnswerAgreement:
    return AnswerAgreement(not_compared=reason)
