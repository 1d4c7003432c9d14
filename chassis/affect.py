"""Emotional response of a text, without a model call."""

from functools import cache
from typing import Protocol

from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer


class AffectAnalyser(Protocol):
    """Anything that measures the affect in a text."""

    def __call__(self, text: str) -> dict[str, float]:
        """Measurements by name [0..1]; `intensity` is the emotional response."""


def vader(text: str) -> dict[str, float]:
    """Affect by VADER (MIT licence).

    Source: SPEC 1.1: under VADER ER = |compound|.

    Example:
        >>> vader("Please list the files.")["intensity"] < vader("I am terrified and furious!!")["intensity"]
        True
    """
    scores = _analyser().polarity_scores(text)
    return {
        "intensity": round(abs(scores["compound"]), 4),
        "emotion.negative": scores["neg"],
        "emotion.positive": scores["pos"],
    }


@cache
def _analyser() -> SentimentIntensityAnalyzer:
    return SentimentIntensityAnalyzer()
