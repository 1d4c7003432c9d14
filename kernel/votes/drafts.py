"""A draft is a System 1 answer, whose prompt asked for no form; this module finds type and answer in it."""

from collections.abc import Sequence

from kernel.answers import AnswerType, InferredType, extract, inferred_type, listed_options, rules_of
from kernel.answers.untyped import untyped_answer
from kernel.votes.votes import is_comparable


def draft_answer(text: str, answer_type: AnswerType, *, options: Sequence[str] = ()) -> str | None:
    """Return the answer that a draft gives, as far as it shows; None where it gives none of this type.

    Args:
        text: The draft.
        answer_type: Type of the answer looked for.
        options: Texts of a choice's options, in order.

    Source:
        MC-MAS, appendix A.1 (papers.md 2.1) where the draft ends in a form; else its first words or its concluding
        sentence, which is ours.

    Example:
        >>> draft_answer("It is 4.", AnswerType.NUMBER), draft_answer("I do not know.", AnswerType.NUMBER)
        ('4', None)
    """
    found = extract(text, answer_type, options=options)
    if found is not None:
        return found
    seen = untyped_answer(text)
    return seen.canonical if seen is not None and seen.answer_type is answer_type else None


def draft_type(question: str, draft: str, *, options: Sequence[str] = ()) -> InferredType:
    """Return the type of the answer that a question asks for, where a draft of it is known.

    A draft that shows no short answer says nothing about the type: the question alone decides then.

    Example:
        >>> draft_type("What is 2 + 2?", "It is 4.").answer_type, draft_type("What is 2 + 2?", "A sum.").answer_type
        (<AnswerType.NUMBER: 'NUMBER'>, <AnswerType.TEXT: 'TEXT'>)
    """
    seen = untyped_answer(draft)
    if seen is None or (rules_of(seen.answer_type).is_free_text and not is_comparable(draft, seen.answer_type)):
        return inferred_type(question, options=options)
    shows_type = seen is not None and not rules_of(seen.answer_type).is_free_text
    sample = f"Final Answer: {seen.canonical}" if shows_type and seen is not None else draft
    return inferred_type(question, options=options, samples=[sample])


def needs_draft(question: str, answer_type: AnswerType | None = None) -> bool:
    """Return whether only a draft can show that answers to a question are short enough to be compared.

    Args:
        question: The question.
        answer_type: Type of the answer; None where it was not stated.

    Example:
        >>> needs_draft("What is the capital of France?"), needs_draft("What is 2 + 2?")
        (True, False)
    """
    found = answer_type or inferred_type(question, options=listed_options(question)).answer_type
    return rules_of(found).is_free_text


def can_vote(question: str, draft: str = "", *, answer_type: AnswerType | None = None, has_tests: bool = False) -> bool:
    """Return whether answers to a question can be compared, so that votes can agree.

    Args:
        question: The question.
        draft: A System 1 answer; empty where there is none. Without one, free answers are taken for long.
        answer_type: Type of the answer; None where it was not stated.
        has_tests: Whether there are tests, which compare programs.

    Example:
        >>> can_vote("What is 2 + 2?"), can_vote("What is the capital of France?", "Paris."), can_vote("Why is it so?")
        (True, True, False)
        >>> can_vote("Write double.", answer_type=AnswerType.CODE)
        False
    """
    options = listed_options(question)
    if answer_type is None:
        shown = draft_type(question, draft, options=options) if draft else inferred_type(question, options=options)
        answer_type = shown.answer_type
    rules = rules_of(answer_type)
    if rules.is_program:
        return has_tests
    if not rules.is_free_text:
        return True
    found = draft_answer(draft, answer_type) if draft else None
    return found is not None and is_comparable(found, answer_type)
