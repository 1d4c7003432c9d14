"""Signals measure an answer from short samples, token probabilities and a one-word check. Pure.

Source: MSV, state vector (papers.md 1.1) names what correctness and conflict measure; how it is read off a model's
behaviour is ours.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from math import exp, inf

from kernel.errors import Code, MetacogError
from kernel.values import value
from kernel.weighted_mean import weighted_mean

_MARK = re.compile(r"final answer\W{0,4}:\s*", re.IGNORECASE)

YES = frozenset({"yes", "true", "right", "correct"})
NO = frozenset({"no", "false", "wrong", "incorrect"})


def yes_probability(alternatives: Iterable[tuple[str, float]]) -> float | None:
    """Return the probability of a yes among the first tokens of a one-word reply [0..1].

    Args:
        alternatives: Likely first tokens with their log-probabilities [nats, <= 0].

    Returns:
        The share of yes in the mass of yes and no, whatever their case and spacing; None when neither is among them.

    Example:
        >>> from math import log
        >>> round(yes_probability([("Yes", log(0.6)), (" no", log(0.2)), ("Maybe", log(0.2))]), 12)
        0.75
    """
    masses = {True: 0.0, False: 0.0}
    for token, logprob in alternatives:
        word = token.strip().strip(".,!*\"'").lower()
        if word in YES or word in NO:
            masses[word in YES] += exp(logprob)
    total = masses[True] + masses[False]
    return masses[True] / total if total > 0 else None


def likelihood(logprobs: Sequence[float]) -> float | None:
    """Return the geometric mean of token probabilities [0..1]; None without tokens.

    Args:
        logprobs: Natural logarithm of the probability of each token [<= 0].

    Example:
        >>> from math import log
        >>> round(likelihood([log(0.5), log(0.125)]), 12)
        0.25
    """
    return min(1.0, exp(sum(logprobs) / len(logprobs))) if logprobs else None


def conclusion_likelihood(tokens: Sequence[tuple[str, float]]) -> float | None:
    r"""Return how probable the conclusion of a text was when it was written [0..1]; None without tokens.

    Args:
        tokens: The text token by token, with log-probabilities [nats, <= 0].

    Returns:
        The joint probability of the answer that the text marks (`Final Answer: ...`, to the end of its line); of a text
        that marks none, the probability of its least certain token. Obvious steps on the way do not count.

    Example:
        >>> from math import log
        >>> tokens = [("6", log(0.1)), ("\n", log(0.9)), ("Final Answer", log(0.9)), (": ", log(0.9)), ("12", log(0.5))]
        >>> round(conclusion_likelihood(tokens), 12)
        0.5
    """
    if not tokens:
        return None
    text = "".join(token for token, _ in tokens)
    marks = [found.end() for found in _MARK.finditer(text)]
    if not marks:
        return exp(min(logprob for _, logprob in tokens))
    start = marks[-1]
    stop = text.find("\n", start)
    placed = accumulate((len(token) for token, _ in tokens), initial=0)
    inside = [
        logprob
        for begin, (token, logprob) in zip(placed, tokens, strict=False)
        if begin + len(token) > start and (stop < 0 or begin < stop)
    ]
    return min(1.0, exp(sum(inside))) if inside else None


def disagreement(groups: Sequence[int]) -> float | None:
    """Return the share of pairs of samples that differ [0..1]; None for fewer than two samples.

    Args:
        groups: How many samples agree with one another, group by group [count, >= 1].

    Returns:
        0 when all agree, 1 when no two do.

    Example:
        >>> disagreement([3, 1]), disagreement([4]), disagreement([1, 1, 1]), disagreement([1])
        (0.5, 0.0, 1.0, None)
    """
    count = sum(groups)
    if count < 2:
        return None
    agreeing = sum(size * (size - 1) for size in groups)
    return round(1 - agreeing / (count * (count - 1)), 12)


class InvalidPartWeights(MetacogError):
    """A weight of a part is negative or not a number."""

    code = Code.FAILED_PRECONDITION
    reason = "INVALID_WEIGHTS"


@value
class PartWeights:
    """These weights are those of parts inside their component, relative to one another [>= 0]; 1 where none is named.

    Raises:
        InvalidPartWeights: On construction, for a negative weight or one that is no number.
    """

    by_part: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part, weight in self.by_part.items():
            if not 0 <= weight < inf:
                raise InvalidPartWeights(f"the weight of {part} is {weight}; it must be 0 or more", part=part)

    def of(self, part: str) -> float:
        """Return the weight of `part` [>= 0]."""
        return self.by_part.get(part, 1.0)


EQUAL = PartWeights()


def mean_of(parts: Mapping[str, float | None], weights: PartWeights = EQUAL) -> float | None:
    """Return the weighted mean of the known parts [0..1], weights rescaled to sum to 1.

    It is None when none with a weight is known.

    Args:
        parts: Levels by part [0..1]; None where one is unknown.
        weights: What each part counts.

    Source: MSV, state vector (papers.md 1.1): components inside a dimension have weights that sum to 1; equal ones are
    ours.

    Example:
        >>> mean_of({"check": 0.9, "draft_likelihood": None, "draft_support": 0.6})
        0.75
        >>> mean_of({"check": 0.9, "draft_support": 0.6}, PartWeights(by_part={"check": 3}))
        0.825
    """
    return weighted_mean(list(parts.values()), [weights.of(part) for part in parts])
