"""How many tokens a reply cost, where usage may be missing or count one sample only.

A sample's own length is exact where its log-probabilities are there, or where it is the only sample of a request whose
usage is reported. Else it is estimated from its characters.
"""

import math
from collections.abc import Mapping, Sequence

import orjson

from chassis.inference.fields import count, mapping
from kernel.envelope import StageUsage
from kernel.values import value

# English text and code run at about four characters a token.
CHARACTERS_PER_TOKEN = 4.0
# What a chat template may add of its own: a default system prompt, how tools are called [tokens].
TEMPLATE_TOKENS = 256
# What an image, a sound or a film comes to at most where its model has no limit of its own [tokens].
MEDIA_TOKENS = 16_384


@value
class Measured:
    """What is known of one sample's length.

    Attributes:
        characters: Of text, reasoning and tool calls [count].
        logprobs: Tokens that have a log-probability [count]; None if there are none.
    """

    characters: int
    logprobs: int | None = None


@value
class Counted:
    """Tokens of each sample [count], and the usage of the request without its HTTP calls."""

    tokens: tuple[int, ...]
    usage: StageUsage


def counted(
    samples: Sequence[Measured], reported: Mapping[str, object], *, counts_all: bool | None, prompt_characters: int
) -> Counted:
    """Tokens of `samples`, the choices of one reply.

    Args:
        samples: What is known of each.
        reported: The reply's `usage`; may be empty.
        counts_all: Whether this backend's usage counts all samples; None if that is unknown.
        prompt_characters: Length of the prompt, for a backend that does not count it.
    """
    total = count(reported.get("completion_tokens"))
    if len(samples) == 1 and total is not None:
        counts_all = True
    tokens, exact = _each(samples, total if counts_all else None)
    prompt = count(reported.get("prompt_tokens"))
    usage = StageUsage(
        generations=len(samples),
        prompt_tokens=estimated_tokens(prompt_characters) if prompt is None else prompt,
        completion_tokens=total if counts_all and total is not None else max(sum(tokens), total or 0),
        estimated=prompt is None or not exact,
    )
    return Counted(tokens=tokens, usage=usage)


def _each(samples: Sequence[Measured], total: int | None) -> tuple[tuple[int, ...], bool]:
    """Tokens of each sample, and whether their sum is exact."""
    if len(samples) == 1 and total is not None:
        return (total,), True
    lengths = [sample.logprobs for sample in samples if sample.logprobs is not None]
    if len(lengths) == len(samples):
        return tuple(lengths), True
    if total is not None:
        return apportioned(total, [sample.characters for sample in samples]), True
    return tuple(estimated_tokens(sample.characters) for sample in samples), False


def apportioned(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """`total` in whole parts that are as near to `weights` as they can be.

    Example:
        >>> apportioned(10, [1, 1, 2])
        (3, 2, 5)
    """
    if not sum(weights):
        weights = [1] * len(weights)
    ends = [math.ceil(total * sum(weights[: place + 1]) / sum(weights)) for place in range(len(weights))]
    return tuple(end - start for start, end in zip([0, *ends], ends, strict=False))


def estimated_tokens(characters: int) -> int:
    """Tokens that a text of `characters` has, about [count, >= 0]."""
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def prompt_characters(messages: object) -> int:
    """Characters in the contents of `messages`."""
    if not isinstance(messages, list | tuple):
        return 0
    return sum(_characters(mapping(message).get("content")) for message in messages)


def most_prompt_tokens(body: Mapping[str, object], context: int | None) -> int:
    """Tokens that the prompt of a request has at most [count].

    No token of a text is shorter than a byte, and every part of a request's text counts, fields and quotes included;
    what is no text counts as much as it may. A prompt never has more than the model's context.

    Args:
        body: The request, or the parts of it that can end up in a prompt.
        context: The model's context [tokens]; None where it is unknown.
    """
    messages = body.get("messages")
    parts = [part for message in messages for part in _parts(message)] if isinstance(messages, list | tuple) else []
    media = [part for part in parts if mapping(part).get("type", "text") != "text"]
    text = len(orjson.dumps(body, default=dict)) - sum(len(orjson.dumps(part)) for part in media)
    most = text + TEMPLATE_TOKENS + len(media) * MEDIA_TOKENS
    return most if context is None else min(most, context)


def _parts(message: object) -> Sequence[object]:
    content = mapping(message).get("content")
    return content if isinstance(content, list) else ()


def _characters(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(_characters(mapping(part).get("text")) for part in content)
    return 0
