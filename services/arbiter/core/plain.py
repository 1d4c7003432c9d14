"""Answers that are their own canonical form: they need no reading, and there are many of them.

A way round the reading of spellings that is meant to be no other rule: `tests/unit/arbiter/test_plain.py` compares the
two on many spellings.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from kernel.answers import AnswerType, canonical

_PLAIN: Mapping[AnswerType, re.Pattern[str]] = {
    AnswerType.BOOLEAN: re.compile(r"true|false"),
    AnswerType.CHOICE: re.compile(r"[A-Z]"),
    AnswerType.NUMBER: re.compile(r"0|-?[1-9][0-9]{0,14}"),
}


def is_plain(answer: str, answer_type: AnswerType) -> bool:
    """Whether `answer` is its own canonical form, and equal to no other.

    Example:
        >>> [is_plain(answer, AnswerType.NUMBER) for answer in ("12", "-7", "012", "12.0")]
        [True, True, False, False]
    """
    pattern = _PLAIN.get(answer_type)
    return pattern is not None and pattern.fullmatch(answer) is not None


def plain_forms(
    answers: Sequence[str], answer_type: AnswerType, options: Sequence[str] = ()
) -> dict[str, str | None] | None:
    r"""Canonical form of each distinct answer, None for an invalid one; None instead where equality takes more.

    Example:
        >>> plain_forms(["12", "12.0", "?"], AnswerType.NUMBER)
        {'12': '12', '12.0': '12', '?': None}
        >>> plain_forms(["2", r"\sqrt{4}"], AnswerType.NUMBER) is None
        True
    """
    if answer_type not in _PLAIN or options:
        return None
    forms = {answer: answer if is_plain(answer, answer_type) else _read(answer, answer_type) for answer in set(answers)}
    if all(form is None or is_plain(form, answer_type) for form in forms.values()):
        return dict(sorted(forms.items()))
    return None


def most_frequent_spellings(answers: Sequence[str], forms: Mapping[str, str | None]) -> dict[str, str]:
    """How each answer is most often written; of several ways the first in code point order."""
    best: dict[str, str] = {}
    for answer, _ in sorted(Counter(answers).items(), key=lambda spelling: (-spelling[1], spelling[0])):
        form = forms[answer]
        if form is not None:
            best.setdefault(form, answer)
    return best


@lru_cache(maxsize=65_536)
def _read(answer: str, answer_type: AnswerType) -> str | None:
    return canonical(answer, answer_type)
