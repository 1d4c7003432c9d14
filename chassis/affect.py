"""Emotional response of a text, without a model call."""

from functools import cache
from typing import Protocol

from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


class AffectAnalyser(Protocol):
    """Anything that measures the affect in a text."""

    def __call__(self, text: str) -> dict[str, float]:
        """Measurements by name [0..1]; `intensity` is the emotional response."""


# VADER's time grows with the square of the text; head and tail of this many characters take milliseconds.
LOOKED_AT = 1000


def vader(text: str) -> dict[str, float]:
    """Affect by VADER (MIT licence), of the first and the last thousand characters of a longer text.

    Source: SPEC 1.1: under VADER ER = |compound|.

    Example:
        >>> vader("Please list the files.")["intensity"] < vader("I am terrified and furious!!")["intensity"]
        True
    """
    seen = text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]} {text[-LOOKED_AT:]}"
    scores = _analyser().polarity_scores(seen)
    return {
        "intensity": round(abs(scores["compound"]), 4),
        "emotion.negative": scores["neg"],
        "emotion.positive": scores["pos"],
    }


@cache
def _analyser() -> SentimentIntensityAnalyzer:
    return SentimentIntensityAnalyzer()
