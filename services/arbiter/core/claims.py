"""What a text claims: its sentences, and the numbers and arithmetic in them.

Source: SPEC 2.2: claims are sentences. The line with the final answer states no claim: it is the answer.
"""

import re

from kernel.answers.numbers import rational, spelled
from kernel.values import value

MOST_CLAIMS = 64
MOST_CHARACTERS = 1_000

_FINAL = re.compile(r"^[\s>#*_`~-]*(?:the\s+|my\s+)?final\s+answer[\s*_`]*(?:is\s*)?[:\uff1a].*$", re.IGNORECASE)
_MARKER = re.compile(r"^\s*(?:[-*+>#]+\s+|\(?\d{1,2}[.)]\s+|step\s+\d{1,2}\s*[:.]\s*)+", re.IGNORECASE)
_ENDS = re.compile(r"(?<=[.!?])[\"'\u201d\u2019)]*\s+(?=[\"'\u201c(]*[A-Z0-9\\$])")
# With its sign where no term stands before it; a unit may be attached (12.5kg), an ordinal is no number (3rd).
_NUMBER = re.compile(
    r"(?:(?<![^\s(])(?<!\d\s)-)?(?<![\w.])\d[\d,]*(?:\.\d+)?(?:/\d+)?(?!\d|[.,]\d|(?:st|nd|rd|th)\b)", re.ASCII
)
_OPERATOR = r"\s*(?:[-+*/^=]|\\times|\\cdot|\\div)\s*"
_ARITHMETIC = re.compile(rf"(?<![\w.])\(*\d[\d,]*(?:\.\d+)?\)*(?:{_OPERATOR}\(*\d[\d,]*(?:\.\d+)?\)*)+")
_SIGNS = str.maketrans({"\u00d7": "*", "·": "*", "⋅": "*", "÷": "/", "\u2212": "-", "\u2013": "-"})
_LATEX = (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"))


@value
class Claim:
    """A sentence.

    Attributes:
        text: The sentence.
        numbers: Its numbers in canonical form.
        expressions: Its arithmetic, without spaces and equality signs.
    """

    text: str
    numbers: frozenset[str]
    expressions: frozenset[str]


def claims(text: str) -> tuple[Claim, ...]:
    r"""Claims of `text`, at most `MOST_CLAIMS`.

    Example:
        >>> [claim.text for claim in claims("1. Six boxes hold 7 each. So 6 x 7 = 42.\n\nFinal Answer: 42")]
        ['Six boxes hold 7 each.', 'So 6 x 7 = 42.']
    """
    found: list[Claim] = []
    for line in text.splitlines():
        if _FINAL.match(line[:200]):
            continue
        for sentence in _ENDS.split(_MARKER.sub("", line)):
            bare = sentence.strip()[:MOST_CHARACTERS]
            if sum(map(str.isalnum, bare)) > 1 and len(found) < MOST_CLAIMS:
                found.append(_claim(bare))
    return tuple(found)


def _claim(text: str) -> Claim:
    plain = text.translate(_SIGNS)
    plain = re.sub(r"(?<=\d)\s*[xX]\s*(?=\d)", "*", plain)
    numbers = map(_canonical, _NUMBER.findall(plain))
    return Claim(
        text=text,
        numbers=frozenset(number for number in numbers if number is not None),
        expressions=frozenset(side for found in _ARITHMETIC.findall(plain) for side in _sides(found)),
    )


def _canonical(token: str) -> str | None:
    """Canonical form of a numeral; plain digits need no reading, and most are."""
    if token.isascii() and token.isdigit():
        return token.lstrip("0") or "0"
    number = rational(token.rstrip(","))
    return None if number is None else spelled(number)


def _sides(arithmetic: str) -> list[str]:
    """Sides of an equation that calculate something, without spaces and separators."""
    for command, sign in _LATEX:
        arithmetic = arithmetic.replace(command, sign)
    sides = re.sub(r"[\s,]", "", arithmetic).split("=")
    return [_bare(side) for side in sides if re.search(r"\d\)*[-+*/^]\(*\d", side)]


def _bare(side: str) -> str:
    """`side` without brackets that close nowhere."""
    while side.count("(") > side.count(")") and "(" in side:
        side = side.replace("(", "", 1)
    while side.count(")") > side.count("("):
        side = side[: side.rindex(")")] + side[side.rindex(")") + 1 :]
    return side
