"""Emotional response of a text, without a model call."""

from functools import cache
from typing import Protocol

from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


class AffectAnalyser(Protocol):
    """Anything that measures the affect in a text."""

    def __call__(self, text: str) -> dict[str, float]:
        """Measurements by name [0..1]; `intensity` is the emotional response."""


# VADER's time grows with the square of the text, emojis spelled out; head and tail of so many characters take
# milliseconds.
LOOKED_AT = 1000


def vader(text: str) -> dict[str, float]:
    """Affect by VADER (MIT licence), of the first and the last thousand characters of a longer text.

    Source: SPEC 1.1: under VADER ER = |compound|.

    Example:
        >>> vader("Please list the files.")["intensity"] < vader("I am terrified and furious!!")["intensity"]
        True
    """
    analyser = _analyser()
    spelled = "".join(f" {analyser.emojis[c]} " if c in analyser.emojis else c for c in _ends(text))
    scores = analyser.polarity_scores(_ends(spelled))
    return {
        "intensity": round(abs(scores["compound"]), 4),
        "emotion.negative": scores["neg"],
        "emotion.positive": scores["pos"],
    }


def _ends(text: str) -> str:
    return text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]} {text[-LOOKED_AT:]}"


@cache
def _analyser() -> SentimentIntensityAnalyzer:
    return SentimentIntensityAnalyzer()
