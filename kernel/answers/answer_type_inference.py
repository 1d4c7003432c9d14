"""The answer type of a question that states none is inferred, with the reason for it (papers.md 2.3)."""

import re
from collections.abc import Sequence
from string import ascii_uppercase

from kernel.answers.answer_types import AnswerType
from kernel.answers.canonical import canonical
from kernel.answers.extraction import extract
from kernel.answers.programs import code_blocks
from kernel.values import value

# Characters at the end of a question that are looked at, since its request stands last.
LONGEST_QUESTION = 20_000
_LONGEST_ASKING = 2_000

_OPTION = re.compile(r"(?:^|\s)(?:[(\[]?([A-Z])[)\]]\s*|([A-Z])[.:]\s+)(?=\S)")
_ASKS_FOR_CODE = re.compile(
    r"\b(?:write|implement|complete|fix|debug|refactor)\b[^.?!\n]{0,80}?"
    r"\b(?:function|program|script|method|class|code|algorithm|subroutine|query|regex|tests?)\b"
    r"|^[ \t]*(?:async )?def \w+\(",
    re.IGNORECASE | re.MULTILINE,
)
_ASKS_TRUTH = re.compile(
    r"\btrue or false\b|\byes or no\b|\byes/no\b|\btrue/false\b|\b(?:is|are) (?:this|the) (?:claim|statement)s? true\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"(?:is|are|was|were|am|do|does|did|can|could|will|would|should|has|have|had|may|might|must|isn't|aren't|wasn't|"
    r"weren't|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|shouldn't|hasn't|haven't)\s+(?!you\b|we\b|i\b)\S.*",
    re.IGNORECASE | re.DOTALL,
)
# What looks like a question of yes or no and is none: "red or blue", "had he won, who would".
_ALTERNATIVES = re.compile(r"\bor\b|,\s*(?:what|which|who|whom|whose|where|when|how)\b", re.IGNORECASE)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|old|far|tall)\b|^[ \t]*(?:calculate|compute|evaluate)\b"
    r"|\bwhat (?:is|was|are) (?:the |its |their )?(?:total |average |mean |exact )?(?:number|sum|product|difference|"
    r"quotient|percentage|probability|area|volume|perimeter|remainder|value|amount|cost|price|speed|distance|"
    r"population) of\b"
    r"|\bwhat (?:number|percentage|fraction|percent)\b|\bwhat is [-\d(][\d\s.,+*/^()%-]*\?",
    re.IGNORECASE | re.MULTILINE,
)
_ASKS_PROSE = re.compile(
    r"\b(?:why|explain|describe|discuss|compare|summari[sz]e|list|essay|justify|"
    r"how (?:do|does|did|can|could|should|would))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.?!\n])\s+")


@value
class InferredType:
    """This is an answer type that no request stated, with the reason for inferring it."""

    answer_type: AnswerType
    reason: str


def listed_options(question: str) -> tuple[str, ...]:
    r"""Return the texts of the options that `question` lists as A, B, …, each on a line or in a row.

    It is empty where it lists none.

    Of several lists the one with most labels at the starts of lines counts, then the longest, then the last. An option
    ends with its line, or where the next one begins.

    Example:
        >>> listed_options("Which is a fruit?\nA. apple\nB) table"), listed_options("Is it (A) red, (B) blue?")
        (('apple', 'table'), ('red', 'blue?'))
    """
    shown = question[-LONGEST_QUESTION:]
    run = max(_runs(shown), key=lambda labels: (sum(_opens_a_line(shown, one) for one in labels), len(labels)))
    ends = [*(label.start() for label in run[1:]), len(shown)][: len(run)]
    texts = [shown[label.end() : end].split("\n")[0].strip(" \t\r,;") for label, end in zip(run, ends, strict=True)]
    return tuple(texts) if len(texts) > 1 else ()


def _runs(shown: str) -> list[list[re.Match[str]]]:
    """Return the labels A, B, … that follow one another, of every list; the last list first."""
    runs: list[list[re.Match[str]]] = [[]]
    for label in _OPTION.finditer(shown):
        letter, run = label[1] or label[2], runs[-1]
        if letter == "A":
            runs.append([label])
        elif run and len(run) < len(ascii_uppercase) and letter == ascii_uppercase[len(run)]:
            run.append(label)
    return runs[::-1]


def _opens_a_line(shown: str, label: re.Match[str]) -> bool:
    before = label.start() + shown[label.start()].isspace()
    return not shown[:before].rpartition("\n")[2].strip()


def inferred_type(question: str, *, options: Sequence[str] = (), samples: Sequence[str] = ()) -> InferredType:
    """Return the type of the answer that `question` asks for, as far as it shows; TEXT when unsure.

    Args:
        question: The question.
        options: Texts of its options, where they are given apart.
        samples: What models wrote in reply, where something was written; a type that is read from the question alone
            needs an answer of that type in at least half of them.

    Source:
        Ours (papers.md 2.3): the type is inferred and reported; the signs are ours.

    Example:
        >>> inferred_type("How many eggs are left?").answer_type
        <AnswerType.NUMBER: 'NUMBER'>
        >>> inferred_type("Is water wet?").answer_type, inferred_type("Is water wet or dry?").answer_type
        (<AnswerType.BOOLEAN: 'BOOLEAN'>, <AnswerType.TEXT: 'TEXT'>)
    """
    shown = question[-LONGEST_QUESTION:]
    if options or listed_options(shown):
        return InferredType(answer_type=AnswerType.CHOICE, reason="options are listed")
    guess = _from_question(shown)
    if guess is not None and _fits(guess.answer_type, samples):
        return guess
    return _from_samples(samples) or InferredType(answer_type=AnswerType.TEXT, reason="nothing shows another type")


def _from_question(question: str) -> InferredType | None:
    asking = _last_question(question)
    if _ASKS_FOR_CODE.search(question):
        return InferredType(answer_type=AnswerType.CODE, reason="the question asks for code")
    if _ASKS_PROSE.search(asking):
        return None
    if _ASKS_TRUTH.search(question) or _is_yes_no(asking):
        return InferredType(answer_type=AnswerType.BOOLEAN, reason="the question is one of yes or no")
    if _ASKS_NUMBER.search(asking):
        return InferredType(answer_type=AnswerType.NUMBER, reason="the question asks for a number")
    return None


def _last_question(question: str) -> str:
    """Return the last sentence that asks; the last one where none ends in a question mark."""
    sentences = [sentence.strip() for sentence in _SENTENCE_END.split(question.strip()) if sentence.strip()]
    asking = [sentence for sentence in sentences if sentence.endswith("?")]
    return (asking or sentences or [""])[-1][-_LONGEST_ASKING:]


def _is_yes_no(asking: str) -> bool:
    return asking.endswith("?") and _YES_NO.fullmatch(asking) is not None and not _ALTERNATIVES.search(asking)


def _fits(answer_type: AnswerType, samples: Sequence[str]) -> bool:
    found = sum(extract(sample, answer_type) is not None for sample in samples)
    return 2 * found >= len(samples)


def _from_samples(samples: Sequence[str]) -> InferredType | None:
    if samples and all(extract(sample, AnswerType.NUMBER) is not None for sample in samples):
        return InferredType(answer_type=AnswerType.NUMBER, reason="every sample answers with a number")
    if samples and all(code_blocks(sample) for sample in samples):
        return InferredType(answer_type=AnswerType.CODE, reason="every sample holds a code block")
    return None


_LETTER = re.compile(r"\s*[(\[]?[A-Ja-j][)\].]?\s*")


def type_of_answers(answers: Sequence[str]) -> InferredType:
    """Return the type of most of the answers, CHOICE, BOOLEAN or NUMBER, where their question is unknown; else TEXT.

    Example:
        >>> type_of_answers(["12", "12.0", "none"]).answer_type, type_of_answers(["yes", "no"]).answer_type
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
