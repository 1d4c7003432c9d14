"""This module reads short answers whose type is unknown: a letter, a number, a yes or no, or words.

Each answer is read for what it is, by the rules of `kernel.answers` for that type, but under narrower conditions: where
the type is unknown, "I." may be a pronoun, "1990-1995" is no difference, and "No. 5" is no denial. So the functions of
the types give the canonical forms, and this module decides between the types.

Source: ours (papers.md 2.3); which signs count is ours.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from kernel.answers.answer_types import AnswerType
from kernel.answers.numbers import rational, spelled
from kernel.answers.truths import opening_truth, truth
from kernel.answers.units import CountedNumber, homes, quantity
from kernel.answers.words import SHORT_CHARACTERS, normalised
from kernel.answers.wrapping import boxed, unwrapped, without_thinking
from kernel.values import value

# Characters at the end of a text in which a marked answer is looked for.
_MARK_REACH = 4_000
# Wider than the label of `kernel.answers.extraction`: it may stand inside a line, and without a colon.
_MARKED = re.compile(r"final answer\W{0,4}\s*(?:is\b)?[:\s*]*(\S[^\n]*)", re.IGNORECASE)
# Words that people put before an answer: "so I think the answer is", "it's", "there are".
_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore|well|ok|okay|sure|probably|certainly|definitely)\b,?\s+"
    r"|i(?:'d| would)?\s+(?:think|believe|guess|say)(?:\s+that)?\s+"
    r"|(?:(?:the|my)\s+)?(?:(?:final|correct|right|best)\s+){0,2}(?:answer|result|total|solution|option|choice)"
    r"(?:\s+(?:is|are|was|would be|should be)\b|\s*[:=])\s*"
    r"|(?:it|that|this)(?:'s|\u2019s|\s+(?:is|was|would be|will be|must be))\s+"
    r"|there\s+(?:is|are|was|were|will be)\s+|option\s+(?=\W?[a-z]\b)|letter\s+(?=\W?[a-z]\b)"
    r"|(?:=|equals)\s*)",
    re.IGNORECASE,
)
_LEAD_INS = 4
_OPTION = re.compile(r"\(?([A-Z])(?:\)(?=\s|$)|[.:]?$)")
# "B. Paris" is an option, or an initial: other answers decide.
_OPTION_OR_INITIAL = re.compile(r"([A-Z])[.:]\s+\S")
_NUMBER = re.compile(r"(?<![\w.,-])-?[$\u20ac\u00a3]?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?(?![\w/])")


@value
class UntypedAnswer:
    """This value is an answer in the form in which it is compared.

    Attributes:
        answer_type: Type that it is read as.
        canonical: Canonical form of that type; of a number without its unit.
        unit: Unit of a number; empty without one.
        group: The answer that it is the same as among others, where that is another form (`untyped_answers`).
        alternative: Another reading, which counts where another answer is that for certain: "B. Paris" where another
            is "B".
    """

    answer_type: AnswerType
    canonical: str
    unit: str = ""
    group: str = ""
    alternative: "UntypedAnswer | None" = None

    @property
    def identity(self) -> tuple[AnswerType, str]:
        """Return the type and form, which two answers of `untyped_answers` share if and only if they are the same."""
        return self.answer_type, self.group or self.form

    @property
    def form(self) -> str:
        """Return the canonical form with its unit."""
        return f"{self.canonical} {self.unit}".rstrip()


def untyped_answer(text: str) -> UntypedAnswer | None:
    """Return the answer that a short text gives; None when it gives none.

    Example:
        >>> texts = ("The answer is B.", "(B) gaggle", "$1,250.00", "Yes, it is.", "The Nile")
        >>> [untyped_answer(text).canonical for text in texts]
        ['B', 'B', '1250', 'true', 'nile']
    """
    shown = without_thinking(text)
    bare = _without_lead_in(_marked(shown) or _first_line(shown))
    option = _OPTION.match(bare)
    if option:
        return UntypedAnswer(answer_type=AnswerType.CHOICE, canonical=option[1])
    number = rational(bare.rstrip("."))
    if number is not None:
        unit = quantity(bare.rstrip("."))
        return UntypedAnswer(
            answer_type=AnswerType.NUMBER, canonical=spelled(number), unit=unit.unit if unit is not None else ""
        )
    opening = opening_truth(bare)
    known = truth(opening) if opening else None
    if known is not None:
        return UntypedAnswer(answer_type=AnswerType.BOOLEAN, canonical=known)
    words = normalised(bare)
    if words is None:
        return None
    return UntypedAnswer(answer_type=AnswerType.TEXT, canonical=words, alternative=_alternative(bare))


def untyped_answers(texts: Iterable[str]) -> list[UntypedAnswer | None]:
    """Return the answer that each of these texts gives to one question; an unclear one is read by the others.

    Example:
        >>> [answer.canonical for answer in untyped_answers(["B", "B. Paris", "He has 12 left"])]
        ['B', 'B', 'he has 12 left']
        >>> [answer.canonical for answer in untyped_answers(["J. Verne", "J. S. Bach"])]
        ['j verne', 'j s bach']
        >>> [answer.identity[1] for answer in untyped_answers(["10 km", "10", "10 miles", "10,000 m"])]
        ['10 km', '10 km', '10 mi', '10 km']
    """
    answers = [untyped_answer(text) for text in texts]
    clear = {answer.identity for answer in answers if answer is not None}
    return _with_units([_settled(answer, clear) if answer is not None else None for answer in answers])


def concluding_text(text: str) -> str | None:
    r"""Return the part of a text that is its answer, as it is written there; None where no part is.

    That is what the text marks as its final answer, the whole of a short line, or the truth that opens it.

    Example:
        >>> concluding_text("So it is \\boxed{7}."), concluding_text("No, because it is cold." + " Very cold." * 20)
        ('7', 'No')
    """
    marked = _marked(text) or boxed(text)
    if marked:
        return marked
    bare = text.strip()
    if len(bare) <= SHORT_CHARACTERS and "\n" not in bare:
        return bare if untyped_answer(bare) is not None else None
    return opening_truth(bare)


def _settled(answer: UntypedAnswer, clear: set[tuple[AnswerType, str]]) -> UntypedAnswer:
    other = answer.alternative
    return other if other is not None and other.identity in clear else answer


def _with_units(answers: list[UntypedAnswer | None]) -> list[UntypedAnswer | None]:
    """Return the answers, of which numbers name the first that is equal by its unit."""
    numbers = [(at, one) for at, one in enumerate(answers) if one and one.answer_type is AnswerType.NUMBER]
    found = homes([CountedNumber(number=one.canonical, form=one.form) for _, one in numbers])
    named = dict[int, str]()
    for (_, one), home in zip(numbers, found, strict=True):
        if one.unit:
            named.setdefault(home, one.form)
    groups = {at: named[home] for (at, _), home in zip(numbers, found, strict=True) if home in named}
    return [replace(one, group=groups[at]) if one and at in groups else one for at, one in enumerate(answers)]


def _alternative(bare: str) -> UntypedAnswer | None:
    """Return the other reading of an answer in words: an option with its text, or the one number in it."""
    option = _OPTION_OR_INITIAL.match(bare)
    if option:
        return UntypedAnswer(answer_type=AnswerType.CHOICE, canonical=option[1])
    numbers = [rational(found) for found in _NUMBER.findall(bare)]
    only = numbers[0] if len(numbers) == 1 else None
    return None if only is None else UntypedAnswer(answer_type=AnswerType.NUMBER, canonical=spelled(only))


def _without_lead_in(text: str) -> str:
    bare = unwrapped(text)
    for _ in range(_LEAD_INS):
        found = _LEAD_IN.match(bare)
        if found is None or not bare[found.end() :].strip():
            break
        bare = unwrapped(bare[found.end() :])
    return bare


def _marked(text: str) -> str | None:
    found = _MARKED.findall(text[-_MARK_REACH:])
    return found[-1].strip() if found else None


def _first_line(text: str) -> str:
    return next((line for line in text.strip().splitlines() if line.strip()), "")
