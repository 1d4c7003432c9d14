"""The request that a call becomes: only fields that every backend understands, or that the caller asked for."""

from collections.abc import Mapping

import orjson

from chassis.inference.config import BackendConfig
from chassis.inference.features import Features
from chassis.inference.values import Call
from kernel.seeds import derived_seed
from kernel.values import value


@value
class Portion:
    """The part of a call's samples that one request draws.

    Attributes:
        offset: Samples of the call before this part [count, >= 0].
        samples: Samples of this part [count, >= 1].
        tokens: Tokens that each may have [count, >= 1].
    """

    offset: int
    samples: int
    tokens: int


def asks_logprobs(call: Call, portion: Portion, known: Features) -> bool:
    """Whether to ask for log-probabilities: for the caller, or to count the tokens of several samples by them."""
    counting = portion.samples > 1 and not known.usage_totals
    return (call.logprobs or counting) and known.logprobs is not False


def portion_seed(seed: int, offset: int) -> int:
    """Seed of the samples from `offset` on.

    A backend numbers the samples of one request from its seed, so two portions with one seed would draw the same.
    """
    return seed if offset == 0 else derived_seed(seed, "portion", str(offset))


def body_of(
    call: Call, portion: Portion, config: BackendConfig, known: Features, *, stream: bool = False
) -> dict[str, object]:
    """The request that draws `portion` of `call`."""
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
    if asks_logprobs(call, portion, known):
        # llama.cpp reports no log-probability at all for `top_logprobs: 0`.
        body |= {"logprobs": True, "top_logprobs": max(1, call.top_logprobs)}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if call.work in config.priorities:
        body["priority"] = config.priorities[call.work]
    return _with(body, _thinking(call, config), call.extra)


def _sampling(call: Call, portion: Portion) -> dict[str, object]:
    """The fields that are sent only where they say something."""
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
    """`body` and the fields of `more`; objects that stand in both are merged."""
    for fields in more:
        for name, field in fields.items():
            before = body.get(name)
            both = isinstance(before, Mapping) and isinstance(field, Mapping)
            body[name] = {**before, **field} if both else field  # type: ignore[dict-item]
    return body


def _messages(call: Call, known: Features) -> list[dict[str, object]]:
    """The chat; where the backend follows no schema, the last message asks for it in words."""
    messages = [dict(message) for message in call.messages]
    if call.schema is not None and known.schema is False and isinstance(content := messages[-1].get("content"), str):
        schema = orjson.dumps(dict(call.schema)).decode()
        messages[-1]["content"] = f"{content}\n\nAnswer with one JSON object only, which follows this schema:\n{schema}"
    return messages
