"""This module counts the tokens of a reply, whose usage may be missing or count one sample only.

A sample's own length is exact where its log-probabilities are there, or where it is the only sample of a request whose
usage is reported. Else it is estimated from its characters.
"""

import math
from collections.abc import Mapping, Sequence

from inference.json_fields import tokens_of
from kernel.envelope import StageUsage
from kernel.values import value

# English text and code run at about four characters a token.
CHARACTERS_PER_TOKEN = 4.0


@value
class MeasuredSample:
    """A measured sample holds what is known of the length of one sample.

    Attributes:
        characters: Of text, reasoning and tool calls [count].
        logprobs: Tokens that have a log-probability [count]; None if there are none.
    """

    characters: int
    logprobs: int | None = None


@value
class TokenCount:
    """A token count holds the tokens of each sample [count] and the usage of the request without its HTTP calls."""

    tokens: tuple[int, ...]
    usage: StageUsage


def count_tokens(
    samples: Sequence[MeasuredSample],
    reported: Mapping[str, object],
    *,
    counts_all: bool | None,
    prompt_characters: int,
) -> TokenCount:
    """Return the tokens of `samples`, the choices of one reply.

    Args:
        samples: Their measured lengths.
        reported: The reply's `usage`; may be empty.
        counts_all: Whether this backend's usage counts all samples; None if that is unknown.
        prompt_characters: Length of the prompt, for a backend that does not count it.
    """
    total = tokens_of(reported.get("completion_tokens"))
    if len(samples) == 1 and total is not None:
        counts_all = True
    tokens, exact = _tokens_of_each(samples, total if counts_all else None)
    prompt = tokens_of(reported.get("prompt_tokens"))
    usage = StageUsage(
        generations=len(samples),
        prompt_tokens=estimated_tokens(prompt_characters) if prompt is None else prompt,
        completion_tokens=total if counts_all and total is not None else max(sum(tokens), total or 0),
        estimated=prompt is None or not exact,
    )
    return TokenCount(tokens=tokens, usage=usage)


def _tokens_of_each(samples: Sequence[MeasuredSample], total: int | None) -> tuple[tuple[int, ...], bool]:
    """Return the tokens of each sample, and whether their sum is exact."""
    if len(samples) == 1 and total is not None:
        return (total,), True
    lengths = [sample.logprobs for sample in samples if sample.logprobs is not None]
    if len(lengths) == len(samples):
        return tuple(lengths), True
    if total is not None:
        return apportion(total, [sample.characters for sample in samples]), True
    return tuple(estimated_tokens(sample.characters) for sample in samples), False


def apportion(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Return `total` in whole parts that are as near to `weights` as they can be.

    Example:
        >>> apportion(10, [1, 1, 2])
        (3, 2, 5)
    """
    if not sum(weights):
        weights = [1] * len(weights)
    ends = [math.ceil(total * sum(weights[: place + 1]) / sum(weights)) for place in range(len(weights))]
    return tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


def estimated_tokens(characters: int) -> int:
    """Return about how many tokens a text of `characters` has [count, >= 0]."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)
