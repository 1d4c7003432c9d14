"""OpenAI's chat completions as requests of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson

from chassis.inference.checks import checked_body
from chassis.wire import Count, MalformedRequest, RequestId, Seed, from_plain
from kernel.answers import AnswerType
from kernel.envelope import Envelope
from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.values import value
from services.router.core.strategies import Strategy
from services.router.service import chat_fields as fields
from services.router.service.answer import Origin
from services.router.service.values import AnswerRequest, ArbitrationOptions, AssignmentKind, Turn

MODEL = "metacog"
# Fields that System 2 has no use for, refused all the same where no model could take them: name, least, most.
RANGES = (("presence_penalty", -2.0, 2.0), ("frequency_penalty", -2.0, 2.0))
MODELS: Mapping[str, str] = {MODEL: "", **{f"{MODEL}/{strategy}": strategy for strategy in Strategy}}


class UnknownModel(MetacogError):
    """The request names a model that the gateway does not offer."""

    code = Code.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


def unknown(model: str) -> UnknownModel:
    """The refusal of a model that the gateway does not offer."""
    return UnknownModel(
        f"the model {model!r} does not exist; there are {', '.join(MODELS)}", field="model", model=model
    )


@value
class ChatOptions:
    """The `metacog` object that a chat request may carry.

    Attributes:
        envelope: Hard limits over the whole fan-out.
        msv: A ready state; then the conversation is not assessed.
        fallback: Whether another strategy may stand in when the chosen one fails.
        request_id: Repeating it repeats the answer.
        stage_events: Whether a stream also tells of stages, in chunks with an empty delta.
        note: Whether the generalist's note is appended to the answer.
        answer_type: Form of the answer.
        assignment_kind: How the dialectic gives its roles.
        assignment_seed: Seed of a random assignment.
        fixed_assignment: Agent by role, for a fixed assignment.
        stage_max_tokens: Tokens of each stage's text [count].
        assessor: Name of the assessor; empty for the configured one.
        arbitration: How the arbiter settles the question.
    """

    envelope: Envelope | None = None
    msv: MSV | None = None
    fallback: bool = True
    request_id: RequestId = ""
    stage_events: bool = False
    note: bool = False
    answer_type: AnswerType | None = None
    assignment_kind: AssignmentKind | None = None
    assignment_seed: Seed | None = None
    fixed_assignment: Mapping[str, str] = field(default_factory=dict)
    stage_max_tokens: Count | None = None
    assessor: str = ""
    arbitration: ArbitrationOptions | None = None


NO_OPTIONS = ChatOptions()


@value
class Chat:
    """A chat request, understood.

    Attributes:
        body: The request for the backend: as it came, without what is ours.
        options: What is ours.
        ask: The same as a request of ours.
        origin: What is known of it beyond that.
        model: Model name as the client wrote it.
        stream: Whether the client wants a stream.
        include_usage: Whether the stream is to end with usage.
    """

    body: Mapping[str, Any]
    options: ChatOptions
    ask: AnswerRequest
    origin: Origin
    model: str
    stream: bool
    include_usage: bool


def understood(body: object, aliases: Mapping[str, str], *, key_name: str = "") -> Chat:
    """The chat request in `body`.

    Args:
        body: The request as JSON has it.
        aliases: Model names that stand for ours.
        key_name: Name of the API key it came in with.

    Raises:
        MalformedRequest: For a body that is no chat request; names the field.
        InvalidCall: For a field of the call that no backend takes; names it.
        UnknownModel: For a model that the gateway does not offer.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given: dict[str, Any] = {name: item for name, item in body.items() if item is not None}
    options = _options(given.pop("metacog", {}))
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise MalformedRequest("model: give a model name; /v1/models lists them", field="model")
    named = aliases.get(model, model)
    if named not in MODELS:
        raise UnknownModel(
            f"the model {model!r} does not exist; there are {', '.join(MODELS)}", field="model", model=model
        )
    turns = fields.turns(given.get("messages"))
    stream = fields.flag(given, "stream")
    given |= fields.whole(given)
    strategy, because = _strategy(given, MODELS[named])
    if strategy != Strategy.SYSTEM_ONE:  # whose call is checked as it is made
        checked_body(given)
        for name, least, most in RANGES:
            fields.number(given, name, least, most)
    asked_usage = fields.flag(fields.mapped(given, "stream_options"), "include_usage")
    return Chat(
        body=given,
        options=options,
        ask=_ask(given, options, turns, strategy),
        origin=_origin(body, options, because, key_name),
        model=model,
        stream=stream,
        include_usage=stream and asked_usage,
    )


def _options(given: object) -> ChatOptions:
    if given == {}:
        return NO_OPTIONS
    try:
        return from_plain(given, ChatOptions)
    except MalformedRequest as wrong:
        place = next(iter(wrong.metadata), "body")
        field_name = "metacog" if place == "body" else f"metacog.{place}"
        raise MalformedRequest(f"metacog: {wrong.message}", field=field_name) from wrong


def _origin(body: Mapping[str, Any], options: ChatOptions, because: str, key_name: str) -> Origin:
    """What is known of the request beyond what we make of it.

    Raises:
        MalformedRequest: For a request that cannot be repeated from its record.
    """
    samples = fields.count(body, "n") or 1
    more_than_text = [name for name in ("tools", "functions", "logprobs", "audio") if body.get(name)]
    if options.request_id and (more_than_text or samples > 1):
        said = f"metacog.request_id: only one text can be repeated; leave request_id or {(*more_than_text, 'n')[0]} out"
        raise MalformedRequest(said, field="metacog.request_id")
    lasting = {name: given for name, given in body.items() if name not in ("stream", "stream_options")}
    return Origin(
        key_name=key_name,
        because=because,
        samples=samples,
        request=orjson.dumps(lasting, option=orjson.OPT_SORT_KEYS) if options.request_id else b"",
        chat=body["messages"],
        streamed=body.get("stream") is True,
    )


def _strategy(body: Mapping[str, Any], named: str) -> tuple[str, str]:
    """The strategy asked for, and why; what only a plain call can do takes System 1 where the router may decide.

    Raises:
        MalformedRequest: For something that the named strategy cannot do.
    """
    if body.get("tools") or body.get("functions"):
        return Strategy.SYSTEM_ONE, "requested" if named == Strategy.SYSTEM_ONE else "tools"
    plain_only = _plain_only(body)
    if not plain_only or named == Strategy.SYSTEM_ONE:
        return named, "requested"
    if not named:
        return Strategy.SYSTEM_ONE, "format"
    said = f"{plain_only}: {MODEL}/{named} reads text and gives one plain text; use {MODEL}/system1 for more"
    raise MalformedRequest(said, field=plain_only)


def _plain_only(body: Mapping[str, Any]) -> str:
    """The first field that asks for what only a plain call can do: see an image, or give more than one plain text."""
    needs = (
        ("n", (body.get("n") or 1) != 1),
        ("logprobs", fields.flag(body, "logprobs")),
        ("response_format", fields.mapped(body, "response_format").get("type", "text") != "text"),
        ("audio", bool(body.get("audio"))),
    )
    return next((name for name, needed in needs if needed), "") or fields.more_than_text(body["messages"])


def _ask(body: Mapping[str, Any], options: ChatOptions, turns: Sequence[Turn], strategy: str) -> AnswerRequest:
    return AnswerRequest(
        messages=turns,
        strategy=strategy,
        msv=options.msv,
        answer_type=options.answer_type,
        envelope=options.envelope,
        seed=fields.seed(body),
        temperature=fields.number(body, "temperature", 0, 2),
        max_tokens=fields.count(body, "max_completion_tokens") or fields.count(body, "max_tokens"),
        fallback=options.fallback,
        request_id=options.request_id,
        assignment_kind=options.assignment_kind,
        assignment_seed=options.assignment_seed,
        fixed_assignment=options.fixed_assignment,
        stage_max_tokens=options.stage_max_tokens,
        assessor=options.assessor,
        stop=fields.stops(body),
        arbitration=options.arbitration,
    )
