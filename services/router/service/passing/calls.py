"""The gateway reads the calls that it passes on, and writes their replies under its own names.

Every field is checked as in a chat: one that is not listed is rejected by name.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from inference import LIMIT_ALIASES, parse_event, parse_object
from kernel.conversation import MOST_MESSAGES, Turn, turns_of_chat
from kernel.envelope import Envelope
from kernel.errors import MalformedRequest
from kernel.policy import Strategy
from kernel.values import value
from services.router.core.media_sources import check_media_sources
from services.router.service.answering.values import PassedThrough
from services.router.service.gateway.chat_reply import without_server_fields
from services.router.service.gateway.chat_request import (
    MODEL,
    MODELS,
    bool_field,
    count_field,
    number_field,
    object_field,
    options_of,
    seed_field,
    stop_texts,
    unknown_model,
    whole_number_field,
)
from services.router.service.gateway.chat_stream import data
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.passing.endpoints import PassedEndpoint
from services.router.service.runs.values import CallKind, Run

# Tokens of a completion whose request states none, as OpenAI and vLLM have it [count].
COMPLETION_TOKENS = 16
MOST_SAMPLES = 128
OWN_NAMES = frozenset(name for name, strategy in MODELS.items() if strategy in ("", Strategy.SYSTEM_ONE))


@value
class PassedOptions:
    """The options are the `metacog` object that a passed call may carry."""

    envelope: Envelope | None = None


@value
class PassedRequest:
    """A passed request is a call that goes to a model server as it came.

    Attributes:
        endpoint: The endpoint.
        body: The request for the server: as it came, without our options.
        model: Model name as the client wrote it.
        target: The model that serves it; empty: the default one.
        to_encoder: Whether the sentence encoder serves it instead.
        turns: What the model reads, as far as it is text.
        samples: Texts that the model writes [count, >= 0].
        tokens: Tokens that each of them may have [count, >= 1].
        stream: Whether the client wants a stream.
        include_usage: Whether the stream is to end with usage.
        envelope: Hard limits that the caller sets.
        key_name: Name of the API key of the request.
    """

    endpoint: PassedEndpoint
    body: Mapping[str, Any]
    model: str
    target: str
    to_encoder: bool
    turns: Sequence[Turn]
    samples: int
    tokens: int
    stream: bool
    include_usage: bool
    envelope: Envelope | None
    key_name: str


def parsed_call(
    body: object,
    endpoint: PassedEndpoint,
    target: "NamedTarget",
    *,
    key_name: str = "",
    media_hosts: Sequence[str] = (),
    passed: PassedFields,
) -> PassedRequest:
    """Return the call in `body`.

    Args:
        body: The request as JSON has it.
        endpoint: Where it came in.
        target: The model that it names.
        key_name: Name of the API key of the request.
        media_hosts: Hosts from which the model server may fetch what messages name by URL.
        passed: The fields that the call may have.

    Raises:
        MalformedRequest: For a body that is no such call, or a field that does not pass; names the field.
        MediaSourceNotAllowed: For a message that names something that may not be fetched.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given: dict[str, Any] = {name: item for name, item in body.items() if item is not None}
    passed.check(given)
    for name in sorted(LIMIT_ALIASES & given.keys()):
        raise MalformedRequest(f"{name}: n and max_tokens say how much may be generated", field=name)
    options = options_of(given.pop("metacog", {}), PassedOptions)
    turns = _turns(given, endpoint, media_hosts)
    samples = 0
    if endpoint.generates:
        given |= _checked_sampling(given)
        samples = _count_prompts(given["prompt"]) * given.get("n", 1)
    stream = endpoint.generates and bool_field(given, "stream")
    sent = {name: item for name, item in given.items() if name not in ("model", "stream", "stream_options")}
    return PassedRequest(
        endpoint=endpoint,
        body=sent,
        model=target.asked,
        target=target.model,
        to_encoder=target.is_encoder,
        turns=turns,
        samples=samples,
        tokens=given.get("max_tokens", COMPLETION_TOKENS),
        stream=stream,
        include_usage=stream and bool_field(object_field(given, "stream_options"), "include_usage"),
        envelope=options.envelope,
        key_name=key_name,
    )


@value
class NamedTarget:
    """A named target is the model that a call names: by the name in the request, and as it is known here.

    Attributes:
        asked: The name in the request.
        model: The model; empty: the default one.
        is_encoder: Whether it is the sentence encoder.
    """

    asked: str
    model: str = ""
    is_encoder: bool = False


def named_target(
    asked: str, named: str, models: Sequence[str], *, call: CallKind, encoder: str | None = None
) -> NamedTarget:
    """Return the model that serves a call.

    Args:
        asked: The name in the request; empty: none.
        named: The same, after aliases.
        models: Names of models that answer.
        call: The kind of call.
        encoder: Name of the sentence encoder; None where it is unknown.

    Raises:
        MalformedRequest: For a strategy, which answers chats only.
        UnknownModel: For a model that the gateway does not offer.
    """
    if call is CallKind.EMBEDDING and named in ("", MODEL, encoder):
        return NamedTarget(asked=asked or MODEL, is_encoder=True)
    if not named or named in OWN_NAMES:
        return NamedTarget(asked=asked or MODEL)
    if named in MODELS:
        message = f"model: {asked} answers chats; name a model of /v1/models here, or {MODEL} for the default one"
        raise MalformedRequest(message, field="model")
    if named not in models:
        raise unknown_model(asked, models)
    return NamedTarget(asked=asked, model=named)


def _checked_sampling(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole numbers of `body`; its other numbers are in their ranges."""
    number_field(body, "temperature", 0, 2)
    number_field(body, "top_p", 0, 1)
    stop_texts(body)
    numbers = {
        "max_tokens": count_field(body, "max_tokens"),
        "n": whole_number_field(body, "n", 1, MOST_SAMPLES),
        "seed": seed_field(body),
    }
    return {name: number for name, number in numbers.items() if number is not None}


def _count_prompts(prompt: object) -> int:
    """Return how many prompts there are: one text, one list of tokens, or a list of either."""
    is_list = isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], str | list)
    return len(prompt) if isinstance(prompt, list) and is_list else 1


def _turns(body: Mapping[str, Any], endpoint: PassedEndpoint, media_hosts: Sequence[str]) -> Sequence[Turn]:
    """Return what the model reads as turns of text; tokens are none."""
    turns: list[Turn] = []
    for group in endpoint.inputs:
        name = next((name for name in group if name in body), "")
        if not name:
            raise MalformedRequest(f"{group[0]}: give {' or '.join(group)}", field=group[0])
        if name == "messages":
            turns += turns_of_chat(body[name])
            check_media_sources(body[name], media_hosts)
        else:
            turns += [Turn(role="user", content=text) for text in _texts(name, body[name])]
    return turns


def _texts(name: str, given: object) -> Sequence[str]:
    """Return the texts of an input; lists of tokens are left out.

    Raises:
        MalformedRequest: For anything but texts and tokens, an empty list, or too many.
    """
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list) or not given:
        raise MalformedRequest(f"{name}: it must be a text, or a list of texts or tokens, not {given!r}", field=name)
    if _are_tokens(given):
        return []
    if len(given) > MOST_MESSAGES:
        raise MalformedRequest(f"{name}: at most {MOST_MESSAGES}, not {len(given)}", field=name)
    for place, item in enumerate(given):
        if not isinstance(item, str) and not (isinstance(item, list) and item and _are_tokens(item)):
            raise MalformedRequest(f"{name}.{place}: it must be a text or a list of tokens", field=f"{name}.{place}")
    return [item for item in given if isinstance(item, str)]


def _are_tokens(items: Sequence[object]) -> bool:
    return all(isinstance(item, int) and not isinstance(item, bool) for item in items)


def passed_reply(document: Mapping[str, Any], run_id: str, request: PassedRequest) -> dict[str, Any]:
    """Return the reply, or a chunk of it, under the names of its run and of the model that was asked for."""
    prefix = "cmpl" if request.endpoint.call is CallKind.COMPLETION else request.endpoint.call.lower()
    own = {"id": f"{prefix}-{run_id}", "model": request.model}
    given = without_server_fields(document)
    return {**given, **{name: text for name, text in own.items() if name in given}}


def whole_passed_reply(document: Mapping[str, Any] | None, run: Run, request: PassedRequest) -> Mapping[str, Any]:
    """Return the reply of a run that has ended."""
    return passed_reply(document or {}, run.run_id, request)


async def passed_chunks(
    run_id: str, events: AsyncGenerator[Any, None], request: PassedRequest
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a stream as the model server sent them, under our names."""
    async with aclosing(events) as source:
        async for event in source:
            if not isinstance(event, PassedThrough):
                continue
            content = parse_event(event.raw).data
            yield event.raw if content is None else data(passed_reply(parse_object(content), run_id, request))
