r"""This module finds the answer in a text that a model wrote.

The rule is one line `Final Answer: …`, the last of them; markdown, LaTeX and case around it do not matter. Where a
model forgot it, a fallback per type takes over that would rather find nothing than guess. A text without an answer
is an invalid sample: dropped, and counted (papers.md 2.1).
"""

import re
from collections.abc import Iterator, Sequence

from kernel.answers.answer_types import AnswerType, rules_of
from kernel.answers.canonical import canonical
from kernel.answers.programs import code_blocks, is_program
from kernel.answers.words import is_short
from kernel.answers.wrapping import LONGEST_TEXT, boxed, unwrapped, without_thinking

_LABEL = re.compile(
    r"[\s>#*_`~-]*(?:the\s+|my\s+)?final\s+answer[\s*_`]*(?:is\s*)?[:\uff1a][*`\s]*",
    re.IGNORECASE,
)
# Characters at the start of a line in which its label is looked for.
LONGEST_LABEL = 200
_ONLY_MARKS = re.compile(r"[\s$*_`\\\[\]()>#-]*")
_ANSWER_IS = re.compile(r"\banswer\s*(?:\bis\b\s*[:\uff1a]?|[:\uff1a=])[*`\s]*(?=([^\n]{1,1000}))", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^\s.])[.;](?=\s|$)|,?\s+(?:because|since|as)\s")
_SENTENCE_START = re.compile(r"[.!?\n]")
_DOUBT = re.compile(r"\b(?:not|never|nor|if|whether|unless|wrong|incorrect|why|say)\b|n['\u2019]t\b", re.IGNORECASE)
# Characters before "the answer is" in which a doubt about it is looked for, and mentions of it that are read.
_DOUBT_REACH = 300
_MOST_MENTIONS = 50


def extract(text: str, answer_type: AnswerType, *, options: Sequence[str] = (), strict: bool = False) -> str | None:
    r"""Return the answer that `text` gives, as it is written there; None when it gives none (an invalid sample).

    Args:
        text: What a model wrote; its thinking is never part of an answer.
        answer_type: Type of the answer looked for.
        options: Texts of a choice's options in their order; empty when they are not known.
        strict: Whether only the rule counts, without the fallbacks.

    Returns:
        The last `Final Answer: …` where it holds an answer of this type; where that line is empty, the next line
        that is not. A last line that holds something else is no answer, with or without fallbacks. Code is the last
        fenced block after the label, or of the whole text, since code does not fit on one line.
        Fallbacks: `\boxed{}`, "the answer is …", or a text that is an answer as a whole; for text only a short one;
        for code a text that is a Python program.

    Source:
        MC-MAS, appendix A.1 (papers.md 2.1); the fallbacks are ours.

    Example:
        >>> extract("6 x 7 = 42.\n**Final Answer:** $42$.", AnswerType.NUMBER)
        '42'
        >>> extract("So the answer is (B).", AnswerType.CHOICE), extract("Either 3 or 4.", AnswerType.NUMBER)
        ('(B)', None)
        >>> extract("So the answer is (B).", AnswerType.CHOICE, strict=True) is None
        True
    """
    shown = without_thinking(text)[-LONGEST_TEXT:]
    if rules_of(answer_type).is_program:
        found = _code(shown, strict=strict)
        return found if found is not None and canonical(found, answer_type) else None
    label = _last_label(shown)
    if label is None and strict:
        return None
    candidates = _readings(label) if label is not None else _fallbacks(shown, answer_type)
    valid = (found for found in candidates if canonical(found, answer_type, options=options) is not None)
    return next(valid, None)


def _last_label(text: str) -> str | None:
    """Return the text after the last label: on its line, or on the next line that is not empty."""
    lines = text.splitlines()
    for index in range(len(lines) - 1, -1, -1):
        label = _LABEL.match(lines[index][:LONGEST_LABEL])
        if label:
            rest = lines[index][label.end() :]
            return rest if not _ONLY_MARKS.fullmatch(rest) else _next_text(lines[index + 1 :])
    return None


def _next_text(lines: Sequence[str]) -> str:
    return next((line for line in lines if not _ONLY_MARKS.fullmatch(line)), "")


def _readings(rest: str) -> Iterator[str]:
    box = boxed(rest)
    if box is not None:
        yield unwrapped(box)
    yield unwrapped(rest)


def _fallbacks(text: str, answer_type: AnswerType) -> Iterator[str]:
    box = boxed(text)
    if box is not None:
        yield unwrapped(box)
    whole = text.strip()
    rules = rules_of(answer_type)
    if not rules.is_free_text:
        readings = list(_named_answers(text))
        # A number is often followed by its calculation, whose own result must not be taken for it.
        yield from reversed(readings) if rules.is_numeric else readings
        yield unwrapped(whole)
    elif is_short(whole) and "\n" not in whole:
        yield from _named_answers(whole)
        yield unwrapped(whole)


def _named_answers(text: str) -> Iterator[str]:
    """Yield what the last undoubted "the answer is …" names: the rest of its line, then of its sentence."""
    mentions = list(_ANSWER_IS.finditer(text))[-_MOST_MENTIONS:]
    for mention in reversed(mentions):
        before = text[max(0, mention.start() - _DOUBT_REACH) : mention.start()]
        if not _DOUBT.search(_SENTENCE_START.split(before)[-1]):
            yield unwrapped(mention[1])
            yield unwrapped(_SENTENCE_END.split(mention[1], maxsplit=1)[0])
            return


def _code(text: str, *, strict: bool) -> str | None:
    blocks = code_blocks(text)
    if blocks:
        return blocks[-1]
    label = _last_label(text)
    if label is not None:
        return label.strip().strip("`").strip()
    return text.strip() if not strict and is_program(text) else None
