"""Replies of the scripted server, in OpenAI's shape, with the differences of real servers (as measured).

A token is a word with the blanks before it.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any

Body = dict[str, Any]
NOTHING: Mapping[str, float] = MappingProxyType({})

KINDS = {"object", "array", "string", "number", "integer", "boolean", "null"}


@dataclass(frozen=True)
class Shape:
    """How a server differs from others.

    Attributes:
        name: Its name.
        max_n: Samples that it accepts in one request; None: any number.
        serves_n: Whether it returns `n` choices; else it returns one, whatever `n`.
        serves_logprobs: Whether it returns log-probabilities.
        zero_logprobs: Whether it returns them for `top_logprobs: 0`.
        follows_schema: Whether a JSON schema is followed.
        heeds_bounds: Whether the bounds of its numbers are, too.
        checks: Whether model, sampling, tools and `max_tokens` are checked.
        reports_usage: Whether there is usage.
        usage_counts_all: Whether it counts all choices; else the first one.
        first_content: Content of a stream's first delta.
        lists_models: Whether it lists its models.
        context: Tokens of prompt and answer.
    """

    name: str
    max_n: int | None = None
    serves_n: bool = True
    serves_logprobs: bool = True
    zero_logprobs: bool = True
    follows_schema: bool = True
    heeds_bounds: bool = True
    checks: bool = True
    reports_usage: bool = True
    usage_counts_all: bool = True
    first_content: str | None = ""
    lists_models: bool = True
    context: int = 2048


VLLM = Shape("vllm")
LLAMACPP = Shape(
    "llamacpp",
    max_n=4,
    zero_logprobs=False,
    heeds_bounds=False,
    checks=False,
    usage_counts_all=False,
    first_content=None,
)
MINIMAL = Shape(
    "minimal",
    serves_n=False,
    serves_logprobs=False,
    follows_schema=False,
    checks=False,
    reports_usage=False,
    lists_models=False,
)


@dataclass(frozen=True)
class ScriptedChoice:
    """A choice with more to it than text; `instead` are the likely tokens in place of each of its own.

    `finish` is the reason for which it ended, where that is another than its text or calls give.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: Sequence[Body] = ()
    instead: Mapping[str, float] = field(default_factory=dict)
    finish: str = ""

    @property
    def tokens(self) -> list[str]:
        """Its tokens, those of the reasoning first."""
        return words(self.reasoning) + words(self.text)

    def shortened(self, body: Body) -> "ScriptedChoice":
        """Return the choice, cut where `body` ends it."""
        stops = body.get("stop") or ()
        texts = [stops] if isinstance(stops, str) else stops
        ends = [place for stop in texts if (place := self.text.find(stop)) >= 0]
        text = self.text[: min(ends)] if ends else self.text
        return ScriptedChoice(
            "".join(words(text)[: body.get("max_tokens")]), self.reasoning, self.tool_calls, self.instead, self.finish
        )

    def finish_reason(self, body: Body) -> str:
        """The reason for which the choice ended."""
        if self.finish or self.tool_calls:
            return self.finish or "tool_calls"
        limit = body.get("max_tokens")
        return "length" if limit is not None and len(words(self.text)) >= limit else "stop"


def request_error(shape: Shape, model: str, body: Body) -> tuple[int, str] | None:
    """Status and message of the error that `shape` has for `body`; None if it has none."""
    n, prompt = body.get("n", 1), prompt_tokens(body)
    if shape.follows_schema and schema_of(body).get("type", "object") not in KINDS:
        return 400, f"JSON schema error at #: unrecognized type {schema_of(body)['type']}"
    if shape.max_n is not None and n > shape.max_n:
        return 400, f"Field 'n': Value must be between 1 <= value <= {shape.max_n}, but got {n}"
    if not shape.checks:
        too_long = f"request ({prompt} tokens) exceeds the available context size ({shape.context} tokens)"
        return (400, too_long + ", try increasing it") if prompt > shape.context else None
    if prompt + (body.get("max_tokens") or 0) > shape.context:
        return 400, (
            f"This model's maximum context length is {shape.context} tokens. However, you requested "
            f"{body.get('max_tokens')} output tokens and your prompt contains at least {prompt} input tokens."
        )
    return _fault_found(model, body, n)


def _fault_found(model: str, body: Body, n: int) -> tuple[int, str] | None:
    if body.get("model") != model:
        return 404, f"The model `{body.get('model')}` does not exist."
    if body.get("temperature", 1.0) < 0.0:
        return 400, f"temperature must be non-negative, got {body['temperature']}."
    if n > 1 and body.get("temperature") == 0:
        return 400, f"n must be 1 when using greedy sampling, got {n}."
    if body.get("tools"):
        return 400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    return None


def unscripted(shape: Shape, body: Body, index: int) -> str:
    """The text of a choice that is not scripted: its seed, or a document that follows the schema."""
    schema = schema_of(body)
    if schema and shape.follows_schema:
        return json.dumps(instance(schema, heeds_bounds=shape.heeds_bounds))
    return f"sample {body.get('seed', 0) + index}"


def schema_of(body: Body) -> Body:
    """The JSON schema that `body` asks for; empty if it asks for none."""
    schema: Body = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return schema


def completion(shape: Shape, model: str, body: Body, said: Sequence[ScriptedChoice]) -> Body:
    """The reply to `body`."""
    reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model}
    reply["choices"] = [_choice(shape, body, index, each) for index, each in enumerate(said)]
    if shape.reports_usage:
        reply["usage"] = usage(shape, body, said)
    return reply


def _choice(shape: Shape, body: Body, index: int, said: ScriptedChoice) -> Body:
    message: Body = {"role": "assistant", "content": said.text}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.tool_calls:
        message["tool_calls"] = list(said.tool_calls)
    choice = {"index": index, "message": message, "finish_reason": said.finish_reason(body), "logprobs": None}
    if gives_logprobs(shape, body):
        choice["logprobs"] = {"content": [logprob(token, body, said.instead) for token in said.tokens]}
    return choice


def embeddings(model: str, texts: Sequence[str]) -> Body:
    """Vectors of length 1 that follow from the texts alone: equal texts have equal ones, others hardly any likeness."""
    vectors = [[byte - 127.5 for byte in sha256(text.encode()).digest()] for text in texts]
    data = [
        {"index": index, "object": "embedding", "embedding": [part / math.hypot(*vector) for part in vector]}
        for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "model": model, "data": data, "usage": {"prompt_tokens": 0, "total_tokens": 0}}


def chunks(shape: Shape, model: str, body: Body, said: Sequence[ScriptedChoice]) -> Iterator[Body]:
    """The chunks of a stream, the choices interleaved, usage where it is asked for."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model}
    for choice in _deltas(shape, body, said):
        yield {**head, "choices": [{"finish_reason": None, **choice}]}
    wants_usage = shape.reports_usage and body.get("stream_options", {}).get("include_usage")
    for index, each in enumerate(said):
        end = {"index": index, "delta": {}, "finish_reason": each.finish_reason(body)}
        yield {**head, "choices": [end]}
        if wants_usage and not shape.usage_counts_all:
            yield {**head, "choices": [], "usage": usage(shape, body, [each])}
    if wants_usage and shape.usage_counts_all:
        yield {**head, "choices": [], "usage": usage(shape, body, said)}


def _deltas(shape: Shape, body: Body, said: Sequence[ScriptedChoice]) -> Iterator[Body]:
    for index in range(len(said)):
        yield {"index": index, "delta": {"role": "assistant", "content": shape.first_content}}
    for place in range(max(len(each.tokens) for each in said)):
        for index, each in enumerate(said):
            thought = len(words(each.reasoning))
            for token in each.tokens[place : place + 1]:
                delta = {"reasoning_content" if place < thought else "content": token}
                more = {"logprobs": {"content": [logprob(token, body)]}} if gives_logprobs(shape, body) else {}
                yield {"index": index, "delta": delta, **more}
    for index, each in enumerate(said):
        for place, call in enumerate(each.tool_calls):
            yield from ({"index": index, "delta": {"tool_calls": [part]}} for part in _call_parts(place, call))


def _call_parts(place: int, call: Body) -> Iterator[Body]:
    """A tool call as it is streamed: first who is called, then with what, a word at a time."""
    function = call["function"]
    yield {**call, "index": place, "function": {**function, "arguments": ""}}
    for token in words(function["arguments"]):
        yield {"index": place, "function": {"arguments": token}}


def gives_logprobs(shape: Shape, body: Body) -> bool:
    """Whether the reply to `body` has log-probabilities."""
    wanted = bool(body.get("logprobs")) and (body.get("top_logprobs", 0) > 0 or shape.zero_logprobs)
    return wanted and shape.serves_logprobs


def logprob(token: str, body: Body, instead: Mapping[str, float] = NOTHING) -> Body:
    """A token's entry: its log-probability is -0.5, those of the alternatives are -1, -2, ... where none are given."""
    wanted = body.get("top_logprobs", 0)
    top = [{"token": f"{token}{rank}", "logprob": -1.0 - rank} for rank in range(wanted)]
    top = [{"token": other, "logprob": level} for other, level in instead.items()][:wanted] or top
    return {"token": token, "logprob": -0.5, "bytes": list(token.encode()), "top_logprobs": top}


def usage(shape: Shape, body: Body, said: Sequence[ScriptedChoice]) -> Body:
    """What the reply cost, as this shape counts."""
    lengths = [len(each.tokens) for each in said]
    prompt, answers = prompt_tokens(body), sum(lengths) if shape.usage_counts_all else lengths[0]
    return {"prompt_tokens": prompt, "completion_tokens": answers, "total_tokens": prompt + answers}


def prompt_tokens(body: Body) -> int:
    """Tokens of the messages."""
    return sum(len(words(str(message.get("content", "")))) for message in body.get("messages", ()))


def words(text: str) -> list[str]:
    """The tokens of `text`."""
    return re.findall(r"\s*\S+|\s+$", text)


def instance(schema: Body, *, heeds_bounds: bool) -> Any:  # noqa: ANN401
    """A document that follows `schema`; a number is its maximum, or 87 where bounds are not heeded."""
    match schema.get("type"):
        case "object":
            return {name: instance(each, heeds_bounds=heeds_bounds) for name, each in schema["properties"].items()}
        case "array":
            return [instance(schema["items"], heeds_bounds=heeds_bounds)]
        case "number" | "integer":
            return schema.get("maximum", 1) if heeds_bounds else 87
        case "boolean":
            return True
    return schema.get("enum", ["word"])[0]
