"""This module draws the samples of a call with requests that every backend understands."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from inference.accounting.accounts import CallAccount
from inference.config import BackendConfig
from inference.errors import InvalidCall, RequestRejected
from inference.features import Features, LearnedFeatures, denied_features, samples_limit
from inference.http.backend_connection import BackendConnection
from inference.json_fields import count_of, object_of
from inference.sampling.replies import RawSamples, read_samples
from inference.spend import Spend
from inference.values import (
    GREEDY_BELOW,
    LIMIT_ALIASES,
    MAX_SAMPLES,
    Call,
    Completion,
    CompletionSample,
    WorkKind,
    check_count,
    check_role,
    check_sampling,
)
from kernel.errors import MetacogError
from kernel.seeds import derived_seed
from kernel.values import value


@value
class Portion:
    """A portion is the part of a call's samples that one request draws.

    Attributes:
        offset: Samples of the call before this part [count, >= 0].
        samples: Samples of this part [count, >= 1].
        tokens: Tokens that each may have [count, >= 1].
    """

    offset: int
    samples: int
    tokens: int


def requests_logprobs(call: Call, portion: Portion, known: Features) -> bool:
    """Return whether to request log-probabilities: for the caller, or to count the tokens of several samples."""
    counting = portion.samples > 1 and not known.usage_totals
    return (call.logprobs or counting) and known.logprobs is not False


def portion_seed(seed: int, offset: int) -> int:
    """Return the seed of the samples from `offset` on.

    A backend numbers the samples of one request from its seed, so two portions with one seed would draw the same.
    """
    return seed if offset == 0 else derived_seed(seed, "portion", str(offset))


def body_of(
    call: Call, portion: Portion, config: BackendConfig, known: Features, *, stream: bool = False
) -> dict[str, object]:
    """Return the request that draws `portion` of `call`."""
    body: dict[str, object] = {
        "model": config.model,
        "messages": _messages(call, known),
        "max_tokens": portion.tokens,
        "temperature": call.temperature,
        **_sampling(call, portion),
    }
    if call.schema is not None and known.schema is not False:
        schema = {"name": "answer", "schema": dict(call.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if requests_logprobs(call, portion, known):
        # llama.cpp reports no log-probability at all for `top_logprobs: 0`.
        body |= {"logprobs": True, "top_logprobs": max(1, call.top_logprobs)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if call.work in config.priorities:
        body["priority"] = config.priorities[call.work]
    return _with(body, _thinking(call, config), call.extra)


def _sampling(call: Call, portion: Portion) -> dict[str, object]:
    """Return the fields that are sent only where they are set."""
    fields = {
        "n": portion.samples if portion.samples > 1 else None,
        "top_p": call.top_p,
        "seed": None if call.seed is None else portion_seed(call.seed, portion.offset),
        "stop": list(call.stop) or None,
    }
    return {name: field for name, field in fields.items() if field is not None}


def _thinking(call: Call, config: BackendConfig) -> Mapping[str, object]:
    if call.thinking is None:
        return {}
    return config.thinking_on if call.thinking else config.thinking_off


def _with(body: dict[str, object], *more: Mapping[str, object]) -> dict[str, object]:
    """Return `body` and the fields of `more`; objects that stand in both are merged."""
    for fields in more:
        for name, field in fields.items():
            before = body.get(name)
            both = isinstance(before, Mapping) and isinstance(field, Mapping)
            body[name] = {**before, **field} if both else field  # type: ignore[dict-item]
    return body


def _messages(call: Call, known: Features) -> list[dict[str, object]]:
    """Return the chat; where the backend follows no schema, the last message states it in words."""
    messages = [dict(message) for message in call.messages]
    if call.schema is not None and known.schema is False and isinstance(content := messages[-1].get("content"), str):
        schema = orjson.dumps(dict(call.schema)).decode()
        messages[-1]["content"] = f"{content}\n\nAnswer with one JSON object only, which follows this schema:\n{schema}"
    return messages


# What a chat template may add of its own: a default system prompt, how tools are called [tokens].
TEMPLATE_TOKENS = 256


# What an image, a sound or a film comes to at most where its model has no limit of its own [tokens].
MEDIA_TOKENS = 16_384


def prompt_characters(messages: object) -> int:
    """Return the characters in the contents of `messages`."""
    if not isinstance(messages, list | tuple):
        return 0
    return sum(_characters(message.get("content")) for message in messages if isinstance(message, Mapping))


def max_prompt_tokens(body: Mapping[str, object], context: int | None) -> int:
    """Return the tokens that the prompt of a request has at most [count].

    No token of a text is shorter than a byte, and every part of a request's text counts, fields and quotes included;
    what is not text counts as much as it may. A prompt never has more than the model's context.

    Args:
        body: The request, or the parts of it that can end up in a prompt.
        context: The model's context [tokens]; None where it is unknown.
    """
    messages = body.get("messages")
    parts = [part for message in messages for part in _parts(message)] if isinstance(messages, list | tuple) else []
    media = [part for part in parts if isinstance(part, Mapping) and part.get("type", "text") != "text"]
    text = len(orjson.dumps(body, default=dict)) - sum(len(orjson.dumps(part)) for part in media)
    most = text + TEMPLATE_TOKENS + len(media) * MEDIA_TOKENS
    return most if context is None else min(most, context)


def _parts(message: object) -> Sequence[object]:
    content = message.get("content") if isinstance(message, Mapping) else None
    return content if isinstance(content, list) else ()


def _characters(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(_characters(part.get("text")) for part in content if isinstance(part, Mapping))
    return 0


def checked_body(body: Mapping[str, object]) -> None:
    """Raise `InvalidCall` for the first sampling field of a forwarded request that is outside its range."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidCall("messages", "there must be at least one")
    for place, message in enumerate(messages):
        check_role(place, message.get("role") if isinstance(message, Mapping) else None)
    check_sampling(body.get("temperature"), body.get("top_p"))
    if taken := sorted(LIMIT_ALIASES & body.keys()):
        raise InvalidCall(taken[0], "n and max_tokens say how much may be generated")
    for name, most in (("n", MAX_SAMPLES), ("max_tokens", None), ("max_completion_tokens", None)):
        count = body.get(name)
        if count is not None:
            check_count(name, count, 1, most)


@value
class ForwardedRequest:
    """A forwarded request holds what a caller's body requests.

    Attributes:
        body: The request as the caller wrote it.
        samples: Its `n` [count, >= 1].
        greedy: Whether all samples would be equal.
        tokens: Tokens for each sample [count, >= 1]; None where it is not stated.
        usage: Whether the caller wants the usage of a stream.
    """

    body: Mapping[str, object]
    samples: int
    greedy: bool
    tokens: int | None
    usage: bool

    @property
    def drawn(self) -> int:
        """Return samples that a backend has to draw for a whole reply [count, >= 1]: one where all would be equal."""
        return 1 if self.greedy else self.samples

    def tokens_each(self, default: int, context: int | None) -> int:
        """Return the tokens for each sample; without a limit `default`, or half of the `context` if that is less."""
        half = (context or 2 * default) // 2
        return self.tokens or max(1, min(default, half))


@value
class ForwardedSource:
    """A forwarded source is a forwarded request with its reservation."""

    request: ForwardedRequest
    account: CallAccount
    config: BackendConfig
    work: WorkKind

    def body(self, portion: Portion, known: Features) -> dict[str, object]:
        """Return the request as it is sent: for our model, and within the envelope; all other fields as received.

        A part of the samples has an `n` and a seed of its own.
        """
        body = self.request.body
        limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
        own = {"stream", "stream_options", "max_tokens", "max_completion_tokens"}
        sent = {name: field for name, field in body.items() if name not in own}
        if self.work in self.config.priorities:
            sent["priority"] = self.config.priorities[self.work]
        sent |= {"model": self.config.model, limit: portion.tokens}
        return sent if portion.samples == self.request.samples else _partial_request(sent, portion)

    def streamed(self, known: Features) -> dict[str, object]:
        """Return the request for all samples, streamed and with usage, which our own accounting needs."""
        portion = Portion(offset=0, samples=self.request.samples, tokens=self.account.tokens_each)
        options = {**object_of(self.request.body.get("stream_options")), "include_usage": True}
        return {**self.body(portion, known), "stream": True, "stream_options": options}

    def requests_logprobs(self, portion: Portion, known: Features) -> bool:
        """Return False: what is requested is for the caller."""
        return False

    def denied_features(self, message: str) -> Features | None:
        """Return only how many samples may be requested: other fields are the caller's."""
        limit = samples_limit(message)
        return None if limit is None else Features(samples_per_call=limit)


def forwarded_request(body: Mapping[str, object]) -> ForwardedRequest:
    """Return what `body` requests.

    Raises:
        InvalidCall: When one of its sampling fields is outside its range.
    """
    checked_body(body)
    return ForwardedRequest(
        body=body,
        samples=count_of(body.get("n")) or 1,
        greedy=is_greedy(body.get("temperature")),
        tokens=count_of(body.get("max_completion_tokens")) or count_of(body.get("max_tokens")),
        usage=object_of(body.get("stream_options")).get("include_usage") is True,
    )


def is_greedy(temperature: object) -> bool:
    """Return whether samples at `temperature` are all equal; None leaves it to the backend."""
    return isinstance(temperature, int | float) and temperature < GREEDY_BELOW


def _partial_request(sent: Mapping[str, object], portion: Portion) -> dict[str, object]:
    """Return `sent` for one part of its samples; a single one is requested without `n`, which some backends reject."""
    part = {name: field for name, field in sent.items() if name != "n"}
    if portion.samples > 1:
        part["n"] = portion.samples
    seed = count_of(sent.get("seed"))
    if seed is not None:
        part["seed"] = portion_seed(seed, portion.offset)
    return part


class SampleSource(Protocol):
    """A sample source builds the requests that draw its samples."""

    @property
    def work(self) -> WorkKind:
        """Return the kind of work."""

    def body(self, portion: Portion, known: Features) -> Mapping[str, object]:
        """Return the request that draws `portion` from a backend whose `known` features are these."""

    def requests_logprobs(self, portion: Portion, known: Features) -> bool:
        """Return whether that request has log-probabilities that the client itself needs."""

    def denied_features(self, message: str) -> Features | None:
        """Return the features that an error about that request denies, if any."""


@value
class CallSource:
    """A call source draws the samples of a call."""

    call: Call
    config: BackendConfig

    @property
    def work(self) -> WorkKind:
        """Do as `SampleSource` says."""
        return self.call.work

    def body(self, portion: Portion, known: Features) -> Mapping[str, object]:
        """Do as `SampleSource` says."""
        return body_of(self.call, portion, self.config, known)

    def requests_logprobs(self, portion: Portion, known: Features) -> bool:
        """Do as `SampleSource` says."""
        return requests_logprobs(self.call, portion, known)

    def denied_features(self, message: str) -> Features | None:
        """Do as `SampleSource` says."""
        return denied_features(message)


@value
class SampleBatch:
    """A sample batch holds the replies to some portions in order, and the first failure among them."""

    replies: tuple[RawSamples, ...] = ()
    failure: MetacogError | None = None

    @property
    def count(self) -> int:
        """Return how many samples there are [count]."""
        return sum(len(reply.choices) for reply in self.replies)

    @property
    def samples(self) -> tuple[CompletionSample, ...]:
        """Return all samples."""
        return tuple(sample for reply in self.replies for sample in reply.samples)

    def plus(self, other: "SampleBatch") -> "SampleBatch":
        """Return both batches, one after the other."""
        return SampleBatch(replies=self.replies + other.replies, failure=self.failure or other.failure)


class Sampler:
    """A sampler draws samples from one backend.

    Args:
        source: Builds the requests.
        account: Books their cost.
        spend: Whose deadline holds.
        connection: The way to the backend.
        learned: What is known of the backend; each reply adds to it.
    """

    def __init__(
        self,
        source: SampleSource,
        account: CallAccount,
        spend: Spend,
        connection: BackendConnection,
        learned: LearnedFeatures,
    ) -> None:
        self._source = source
        self._account = account
        self._spend = spend
        self._connection = connection
        self._learned = learned

    async def samples(self, offset: int, count: int) -> SampleBatch:
        """Draw `count` samples, the first of which is number `offset` of all; failures are in the batch."""
        portions = portions_of(offset, count, self._learned.now.samples_per_call, self._account.tokens_each)
        if len(portions) == 1:
            return await self._portion(portions[0])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._portion(portion)) for portion in portions]
        batch = SampleBatch()
        for task in tasks:
            batch = batch.plus(task.result())
        return batch

    async def _portion(self, portion: Portion) -> SampleBatch:
        known = self._learned.now
        try:
            raw = await self._request(portion, known)
        except (RequestRejected, InvalidCall) as rejected:
            if self._changes_request(portion, known, rejected):
                return await self.samples(portion.offset, portion.samples)
            return SampleBatch(failure=rejected)
        except MetacogError as failure:
            return SampleBatch(failure=failure)
        self._learned.learn(raw.observed)
        batch = SampleBatch(replies=(raw.first(portion.samples),))
        received = batch.count
        if received < portion.samples:
            self._learned.learn(Features(samples_per_call=received))
            batch = batch.plus(await self.samples(portion.offset + received, portion.samples - received))
        return batch

    async def _request(self, portion: Portion, known: Features) -> RawSamples:
        body = self._source.body(portion, known)
        with self._account.exchange(portion.samples) as exchange:
            reply = await self._connection.post(self._source.work, orjson.dumps(body), exchange, self._spend)
            raw = read_samples(
                self._connection.backend,
                reply.body,
                requested_logprobs=self._source.requests_logprobs(portion, known),
                counts_all=known.usage_totals,
                prompt_characters=prompt_characters(body["messages"]),
            )
            exchange.record_usage(raw.usage)
        return raw

    def _changes_request(self, portion: Portion, known: Features, rejected: MetacogError) -> bool:
        """Learn from `rejected`, and return whether the same portion now makes another request."""
        denied = self._source.denied_features(rejected.message)
        if denied is not None:
            self._learned.learn(denied)
        now = self._learned.now
        if now.samples_per_call is not None and now.samples_per_call < portion.samples:
            return True
        return self._source.body(portion, now) != self._source.body(portion, known)


def portions_of(offset: int, count: int, at_most: int | None, tokens: int) -> Sequence[Portion]:
    """Return `count` samples from number `offset` on, in parts of at most `at_most`.

    Example:
        >>> [(part.offset, part.samples) for part in portions_of(0, 10, 4, 64)]
        [(0, 4), (4, 4), (8, 2)]
    """
    size = at_most or count
    starts = range(0, count, size)
    return [Portion(offset=offset + start, samples=min(size, count - start), tokens=tokens) for start in starts]


def completion_of(call: Call, batch: SampleBatch, account: CallAccount) -> Completion:
    """Return the completion of `call`; equal samples are drawn once and repeated as often as requested.

    Raises:
        MetacogError: The failure of the batch, when there is no sample.
    """
    if batch.failure is not None and not batch.count:
        raise batch.failure
    top_logprobs = call.top_logprobs if call.logprobs else None
    samples = tuple(without_unrequested(sample, top_logprobs) for sample in batch.samples)
    return Completion(
        samples=samples * (call.samples // call.drawn),
        usage=account.spent,
        model=next((reply.model for reply in batch.replies if reply.model), ""),
        cut=account.cut,
        shortfall=batch.failure,
    )


def without_unrequested(sample: CompletionSample, top_logprobs: int | None) -> CompletionSample:
    """Return `sample` without the log-probabilities and alternatives that only the client itself requested.

    Args:
        sample: The sample as it was read.
        top_logprobs: Alternatives that the caller requested for each token; None: no log-probabilities at all.
    """
    if sample.logprobs is None:
        return sample
    if top_logprobs is None:
        return replace(sample, logprobs=None)
    return replace(sample, logprobs=tuple(replace(each, top=each.top[:top_logprobs]) for each in sample.logprobs))
