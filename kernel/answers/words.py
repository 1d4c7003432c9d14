"""This module brings short answers in words into the form in which two of them are compared."""

import re
import unicodedata

from kernel.answers.wrapping import LONGEST_ANSWER, unwrapped

# The longest free text that is decided by its words alone; longer ones are a matter of meaning (papers.md 2.3).
SHORT_WORDS = 10
SHORT_CHARACTERS = 120

_SUPERSCRIPTS = {ord(raised): f"^{plain}" for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)}
_NUMBER = r"(?:(?<!\w)-)?(?:\d+(?:[.:/]\d+){0,5}|\.\d+)%?(?!\w)"
# A grade or a blood group: A- is not A.
_GRADE = r"(?<!\w)[^\W\d_]{1,2}[-+](?!\S)"
_TOKEN = re.compile(rf"{_NUMBER}|{_GRADE}|[^\W_]+[#+]*|[^\w\s]")
# U.S. = US and O'Brien = OBrien: a period or apostrophe after a letter belongs to its word.
_INSIDE_A_WORD = re.compile(r"(?<=[^\W\d_])[.'\u2019](?=[^\W\d_]|\s|$)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ZEROS = re.compile(r"(?<![\w.:/])(\d+)(?:\.0+|(\.\d*[1-9])0+)(?![\w.:/])")
_DASHES = {ord(dash): "-" for dash in "\u2010\u2011\u2012\u2013—\u2212"}
_PLACEHOLDER = re.compile(r"[<\[{(]\s*(?:your |the |final )*(?:answer|text|letter|number)\s*[>\]})]", re.IGNORECASE)


def normalised(text: str) -> str | None:
    """Return the words of `text` without case, articles, punctuation and spacing.

    It is None when there are none, or it is too long.

    Numbers keep their sign, decimals and percent sign, and words their # and +: C, C# and C++ are three answers.
    "a" and "an" count as articles only at the start: vitamin A is not vitamin. Accents stay.

    Example:
        >>> normalised("The  U.S. Senate!"), normalised("vitamin A"), normalised("-1,250.50 m")
        ('us senate', 'vitamin a', '-1250.5 m')
    """
    bare = unwrapped(text) if len(text) <= LONGEST_ANSWER else ""
    if _PLACEHOLDER.fullmatch(bare):
        return None
    tokens = [token for token in _TOKEN.findall(_plain(bare)) if _distinguishes(token)]
    return " ".join(_without_articles(tokens)) or None


def is_short(text: str) -> bool:
    """Return whether the words of `text` alone decide its meaning.

    Example:
        >>> is_short("Paris"), is_short("It is the capital of France, " * 5)
        (True, False)
    """
    return len(text) <= SHORT_CHARACTERS and len(text.split()) <= SHORT_WORDS


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", text.translate(_SUPERSCRIPTS)).translate(_DASHES).casefold()
    text = _THOUSANDS.sub("", _INSIDE_A_WORD.sub("", text))
    return _ZEROS.sub(lambda number: number[1] + (number[2] or ""), text)


def _distinguishes(token: str) -> bool:
    if len(token) > 1 or token.isalnum() or token == "^":
        return True
    # Symbols and marks distinguish answers (5 < 6, vowel signs); punctuation and backticks do not.
    kind = unicodedata.category(token)
    return kind[0] in "MS" and kind != "Sk"


def _without_articles(tokens: list[str]) -> list[str]:
    start = 1 if len(tokens) > 1 and tokens[0] in ("a", "an") else 0
    return [token for token in tokens[start:] if token != "the"] or tokens
