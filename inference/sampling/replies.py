"""This module reads the samples in a backend's reply, and counts their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inference.accounting.counting import MeasuredSample, count_tokens
from inference.errors import UnparsableOutput
from inference.features import Features, usage_counts_all
from inference.json_fields import object_of, objects_of, parse_object, text_of, tokens_of
from inference.sampling.reasoning import SplitText, reasoning_field, split_text
from inference.values import Alternative, CompletionSample, TokenLogprob
from kernel.envelope import StageUsage
from kernel.values import value


@value
class RawSamples:
    """Raw samples hold the choices of one reply, their cost without HTTP calls, and the features it shows.

    The reply is there as received (`body`) and parsed (`document`); `choices` are those that were requested, with the
    `tokens` of each.
    """

    choices: Sequence[Mapping[str, object]]
    tokens: Sequence[int]
    usage: StageUsage
    model: str
    observed: Features
    body: bytes
    document: Mapping[str, object]

    @property
    def samples(self) -> tuple[CompletionSample, ...]:
        """Return the choices as samples."""
        return tuple(_sample(choice, tokens) for choice, tokens in zip(self.choices, self.tokens, strict=True))

    def first(self, count: int) -> "RawSamples":
        """Return the same reply with at most `count` choices."""
        if len(self.choices) <= count:
            return self
        return replace(self, choices=self.choices[:count], tokens=self.tokens[:count])


def read_samples(
    backend: str, body: bytes, *, requested_logprobs: bool, counts_all: bool | None, prompt_characters: int
) -> RawSamples:
    """Return the samples in `body`, a chat completion.

    Args:
        backend: Name for messages.
        body: The reply.
        requested_logprobs: Whether log-probabilities were requested.
        counts_all: Whether usage counts all samples; None if that is unknown.
        prompt_characters: Length of the prompt, for a backend that does not count it.

    Raises:
        UnparsableOutput: When there is no choice in it.
    """
    reply = parse_object(body)
    choices = objects_of(reply.get("choices"))
    if not choices:
        raise UnparsableOutput(f"backend {backend} answered without a choice", backend=backend)
    reported = object_of(reply.get("usage"))
    measured = [measured_choice(choice) for choice in choices]
    observed = _observed_features(measured, reported, requested_logprobs=requested_logprobs)
    known = counts_all if observed.usage_totals is None else observed.usage_totals
    cost = count_tokens(measured, reported, counts_all=known, prompt_characters=prompt_characters)
    return RawSamples(
        choices=choices,
        tokens=cost.tokens,
        usage=cost.usage,
        model=text_of(reply.get("model")),
        observed=observed,
        body=body,
        document=reply,
    )


def measured_choice(choice: Mapping[str, object]) -> MeasuredSample:
    """Return what is known of the length of `choice`."""
    message = object_of(choice.get("message"))
    calls = sum(
        len(text_of(object_of(call.get("function")).get("arguments"))) for call in objects_of(message.get("tool_calls"))
    )
    characters = len(text_of(message.get("content"))) + len(reasoning_field(message)) + calls
    content = object_of(choice.get("logprobs")).get("content")
    return MeasuredSample(characters=characters, logprobs=len(content) if isinstance(content, list) else None)


def token_logprobs(logprobs: object) -> tuple[TokenLogprob, ...] | None:
    """Return the log-probabilities in OpenAI's chat shape; None if there are none."""
    content = object_of(logprobs).get("content")
    return tuple(_token(entry) for entry in objects_of(content)) if isinstance(content, list) else None


def _observed_features(
    measured: Sequence[MeasuredSample], reported: Mapping[str, object], *, requested_logprobs: bool
) -> Features:
    lengths = [each.logprobs for each in measured if each.logprobs is not None]
    total = tokens_of(reported.get("completion_tokens"))
    complete = len(lengths) == len(measured) and total is not None
    return Features(
        logprobs=bool(lengths) if requested_logprobs else None,
        usage_totals=usage_counts_all(lengths, total or 0) if complete else None,
    )


def _sample(choice: Mapping[str, object], tokens: int) -> CompletionSample:
    message = object_of(choice.get("message"))
    content, reasoning = text_of(message.get("content")), reasoning_field(message)
    parts = SplitText(reasoning=reasoning, text=content.lstrip()) if reasoning else split_text(content)
    return CompletionSample(
        text=parts.text,
        reasoning=parts.reasoning,
        finish_reason=text_of(choice.get("finish_reason")) or "stop",
        tokens=tokens,
        logprobs=token_logprobs(choice.get("logprobs")),
        tool_calls=tuple(objects_of(message.get("tool_calls"))),
    )


def _token(entry: Mapping[str, object]) -> TokenLogprob:
    top = objects_of(entry.get("top_logprobs"))
    return TokenLogprob(
        token=text_of(entry.get("token")),
        logprob=_number(entry.get("logprob")),
        top=tuple(Alternative(token=text_of(each.get("token")), logprob=_number(each.get("logprob"))) for each in top),
    )


def _number(logprob: object) -> float:
    # JSON has no -inf; servers write null or a very low number for a token of no probability.
    return float(logprob) if isinstance(logprob, int | float) else float("-inf")
