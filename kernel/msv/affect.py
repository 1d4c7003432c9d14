"""Affect analysis measures the emotional response of a text without a model call: by VADER, or by the NRC lexicon."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, Protocol, get_args

from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

AffectName = Literal["vader", "nrc"]
AFFECT_NAMES: tuple[AffectName, ...] = get_args(AffectName)


class AffectAnalyser(Protocol):
    """An affect analyser measures the affect in a text."""

    def __call__(self, text: str) -> dict[str, float]:
        """Return measurements by name [0..1]; `intensity` is the emotional response."""


# VADER's time grows with the square of the text, emojis spelled out; head and tail of so many characters take
# milliseconds.
LOOKED_AT = 1000


# The eight emotions of the NRC lexicon, and its two sentiments, which alone make no word emotional.
EMOTIONS = frozenset({"anger", "anticipation", "disgust", "fear", "joy", "sadness", "surprise", "trust"})


SENTIMENTS = frozenset({"negative", "positive"})


# Share of emotion-bearing words from which a text counts as wholly emotional. Ours: of 31 sentences written for it, the
# neutral ones have 0 to .20 (median 0), the moved ones 0 to .19 (.14), the outcries .23 to .55 (.38).
FULL_SHARE = 0.4


# A shorter text counts as one of so many words, or a single `Thanks!` would be the strongest of emotions.
FEWEST_WORDS = 5


# The lexicon lists few inflected forms: what is to be tried in their place. No stem is shorter than three letters.
ENDINGS = (("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"), ("ing", ""), ("ing", "e"))


# Emotions by word, for those of the given words that bear any.
Lexicon = Callable[[Sequence[str]], Mapping[str, Iterable[str]]]


def vader(text: str) -> dict[str, float]:
    """Return the affect by VADER (MIT licence), of the first and the last thousand characters of a longer text.

    Returns:
        `intensity`, and VADER's shares by name [0..1].

    Source: ours (papers.md 1.1): under VADER ER = |compound|.

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


def lexical(text: str, *, lexicon: Lexicon) -> dict[str, float]:
    """Return the affect by a lexicon of emotions, of the first and the last thousand characters of a longer text.

    Negation is not looked at: `not afraid` bears fear as `afraid` does.

    Returns:
        `intensity`, and the level of each emotion by name [0..1].

    Source: MSV, state vector (papers.md 1.1): under NRC ER = share of emotion-bearing words, scaled so that both ends
    are reachable. The scale is ours: the share over `FULL_SHARE`, at most 1. The same holds for each emotion alone.
    """
    words = re.findall(r"[^\W\d_]+", _ends(text).casefold())
    bears = lexicon([form for word in words for form in _forms(word)])
    felt = [set(next((bears[form] for form in _forms(word) if form in bears), ())) for word in words]
    shares = {name: sum(name in emotions for emotions in felt) for name in sorted(EMOTIONS | SENTIMENTS)}
    counted = max(len(words), FEWEST_WORDS)
    return {
        "intensity": _scaled(sum(bool(emotions & EMOTIONS) for emotions in felt), counted),
        **{f"emotion.{name}": _scaled(count, counted) for name, count in shares.items()},
    }


def _scaled(count: int, words: int) -> float:
    return round(min(1.0, count / words / FULL_SHARE), 4)


def _forms(word: str) -> list[str]:
    """Return the word, and what it may be an inflection of."""
    stems = [(word.removesuffix(ending) + instead, ending) for ending, instead in ENDINGS if word.endswith(ending)]
    return [word, *(stem for stem, ending in stems if len(word) - len(ending) >= 3)]


def _ends(text: str) -> str:
    return text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]} {text[-LOOKED_AT:]}"


@cache
def _analyser() -> SentimentIntensityAnalyzer:
    return SentimentIntensityAnalyzer()
