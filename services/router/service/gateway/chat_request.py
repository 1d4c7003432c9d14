"""Chat requests of the OpenAI API are read.

Every field is checked: an invalid one is rejected by name, whatever a backend would do with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import Field

from chassis.serving.wire import MAX_COUNT, MAX_SEED, Count, RequestId, Seed, from_plain
from inference import (
    checked_body,
    object_of,
)
from kernel.answers import AnswerType
from kernel.conversation import Turn, non_text_field, turns_of_chat
from kernel.envelope import Envelope
from kernel.errors import MalformedRequest
from kernel.msv import MSV
from kernel.policy import VOTING, Strategy
from kernel.values import value
from kernel.votes.votes import VoteMode
from services.router.core.media_sources import check_media_sources
from services.router.errors import UnknownModel
from services.router.service.answering.run_in_progress import RequestOrigin
from services.router.service.answering.values import (
    AnswerRequest,
    ArbitrationOptions,
    AssignmentKind,
    CostGuard,
    DelegationOptions,
    DialecticOptions,
    Promise,
    VoteOptions,
)
from services.router.service.gateway.passed_fields import PassedFields
from services.router.service.runs.values import CallKind

T = TypeVar("T")


# Passages that a chat may ask for at most [count].
MOST_CITATIONS = 10


COUNTS = ("n", "max_tokens", "max_completion_tokens")


def bool_field(body: Mapping[str, Any], name: str) -> bool:
    """Return whether `name` is true; null and a missing field are false."""
    given = body.get(name)
    if given is not None and not isinstance(given, bool):
        raise MalformedRequest(f"{name}: it must be true or false, not {given!r}", field=name)
    return given is True


def number_field(body: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    """Return the number `name`, which lies in [least, most]."""
    given = body.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise MalformedRequest(f"{name}: it must be a number in [{least}, {most}], not {given!r}", field=name)
    return given


def whole_number_field(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Return the whole number `name`, which lies in [least, most]."""
    given = number_field(body, name, least, most)
    if given is not None and given != int(given):
        raise MalformedRequest(f"{name}: it must be a whole number, not {given!r}", field=name)
    return None if given is None else int(given)


def count_field(body: Mapping[str, Any], name: str) -> int | None:
    """Return the count `name`, at least 1."""
    return whole_number_field(body, name, 1, MAX_COUNT)


def seed_field(body: Mapping[str, Any]) -> int | None:
    """Return the seed as ours are: OpenAI's may be negative, and some backends draw at random for a negative one."""
    given = whole_number_field(body, "seed", -MAX_SEED - 1, MAX_SEED)
    return None if given is None else given & MAX_SEED


def whole_number_fields(body: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the whole numbers of `body` as integers, also where they came as 5.0; the seed as ours are."""
    counts = {name: count_field(body, name) for name in COUNTS if name in body}
    numbers = {**counts, "seed": seed_field(body)} if "seed" in body else counts
    return {name: number for name, number in numbers.items() if number is not None}


def object_field(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object `name`; empty for a missing field."""
    given = body.get(name)
    if given is not None and not isinstance(given, dict):
        raise MalformedRequest(f"{name}: it must be an object, not {given!r}", field=name)
    return given or {}


def stop_texts(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the texts that end an answer: one, a list of them, or none."""
    given = body.get("stop")
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise MalformedRequest(f"stop: it must be a text or a list of texts, none empty, not {given!r}", field="stop")
    return texts


MODEL = "metacog"


# Some clients read what is before a slash as a provider, so each strategy has a name without one.
# Fields that System 2 has no use for, checked all the same: name, least, most.
RANGES = (("presence_penalty", -2.0, 2.0), ("frequency_penalty", -2.0, 2.0))


SEPARATORS = ("/", "-")


TOOL_FIELDS = ("tools", "functions")


# Strategies whose answer is a text, which a last call can write in another format.
DELIBERATIONS = (Strategy.DIALECTIC, Strategy.ARBITER, Strategy.DELEGATION)


MODELS: Mapping[str, str] = {
    MODEL: "",
    **{f"{MODEL}{separator}{strategy}": strategy for separator in SEPARATORS for strategy in Strategy},
}


def unknown_model(model: str, others: Sequence[str] = ()) -> UnknownModel:
    """Return the error for a model that the gateway does not offer; `others` are those beside its own."""
    own = [name for name in MODELS if not name.startswith(f"{MODEL}-")]
    offered = ", ".join([*own, *others])
    return UnknownModel(f"the model {model!r} does not exist; there are {offered}", field="model", model=model)


@value
class KnowledgeOptions:
    """These options say how many passages of the stored documents an answer may use."""

    cite: Annotated[int, Field(ge=1, le=MOST_CITATIONS)]


@value
class ChatOptions:
    """The options are the `metacog` object that a chat request may carry.

    Attributes:
        envelope: Hard limits over the whole fan-out.
        msv: A given state; then the conversation is not assessed.
        fallback: Whether another strategy is tried when the chosen one fails.
        request_id: Repeating it repeats the answer.
        stage_events: Whether a stream also contains events of stages, in chunks with an empty delta.
        note: Whether the generalist's note is appended to the answer.
        answer_type: Form of the answer.
        assignment_kind: How the dialectic gives its roles.
        assignment_seed: Seed of a random assignment.
        fixed_assignment: Agent by role, for a fixed assignment.
        stage_max_tokens: Tokens of each stage's text [count].
        assessor: Name of the assessor; empty for the configured one.
        arbitration: How the arbiter answers the question.
        vote: How votes are asked for.
        promise: What is asked of the answers that are given.
        dialectic: How the dialectic deliberates.
        delegation: How the delegation service solves the task.
        at_most: What the run may generate at most, compared with System 1.
        knowledge: Which passages of the stored documents are sources; None: none is.
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
    vote: VoteOptions | None = None
    promise: Promise | None = None
    dialectic: DialecticOptions | None = None
    delegation: DelegationOptions | None = None
    at_most: CostGuard | None = None
    knowledge: KnowledgeOptions | None = None


NO_OPTIONS = ChatOptions()


OPTION_FIELDS = frozenset(one.name for one in fields(ChatOptions))


@value
class ChatRequest:
    """This value is a chat request, parsed.

    Attributes:
        body: The request for the backend: as it came, without our options.
        options: Our options.
        request: The same as a request of ours.
        origin: What is known of it beyond that.
        model: Model name as the client wrote it.
        stream: Whether the client wants a stream.
        include_usage: Whether the stream is to end with usage.
        keeps_format: Whether votes are whole replies in the client's own format (papers.md 5.7).
        replaced: The strategy that was asked for and cannot serve the request, so that System 1 does; empty: none.
    """

    body: Mapping[str, Any]
    options: ChatOptions
    request: AnswerRequest
    origin: RequestOrigin
    model: str
    stream: bool
    include_usage: bool
    keeps_format: bool = False
    replaced: str = ""

    @property
    def samples(self) -> int:
        """Return how many replies the client wants [count, >= 1]."""
        return self.origin.samples

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """Return the schema of the JSON that the client asks for; None where it asks for text."""
        wanted = object_of(self.body.get("response_format"))
        if wanted.get("type") == "json_schema":
            return object_of(object_of(wanted.get("json_schema")).get("schema"))
        return {"type": "object"} if wanted.get("type") == "json_object" else None


def model_name(body: object) -> str:
    """Return the model name of the chat request in `body`; empty where there is none."""
    given = body.get("model") if isinstance(body, dict) else None
    return given if isinstance(given, str) else ""


def parsed_request(
    body: object,
    aliases: Mapping[str, str],
    *,
    models: Sequence[str] = (),
    key_name: str = "",
    media_hosts: Sequence[str] = (),
    passed: PassedFields = PassedFields(),  # noqa: B008 - it never changes
) -> ChatRequest:
    """Return the chat request in `body`.

    Args:
        body: The request as JSON has it.
        aliases: Model names that stand for others.
        models: Names of models that answer as System 1.
        key_name: Name of the API key of the request.
        media_hosts: Hosts from which the model server may fetch what messages name by URL.
        passed: The fields that a request may have.

    Raises:
        MediaSourceNotAllowed: For a message that names something that may not be fetched.
        MalformedRequest: For a body that is no chat request, or with a field that does not pass; names the field.
        InvalidCall: For a field of the call that no backend accepts; names it.
        UnknownModel: For a model that the gateway does not offer.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given: dict[str, Any] = {name: item for name, item in body.items() if item is not None}
    passed.check(given)
    options = _options(given.pop("metacog", {}))
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise MalformedRequest("model: give a model name; /v1/models lists them", field="model")
    named = aliases.get(model, model)
    if named not in MODELS and named not in models:
        raise unknown_model(model, models)
    own_model = "" if named in MODELS else named
    turns = turns_of_chat(given.get("messages"))
    check_media_sources(given["messages"], media_hosts)
    stream = bool_field(given, "stream")
    given |= whole_number_fields(given)
    asked = Strategy.SYSTEM_ONE if own_model else MODELS[named]
    strategy, reason = _strategy(given, asked, fallback=options.fallback)
    if strategy != Strategy.SYSTEM_ONE:  # whose call is checked as it is made
        checked_body(given)
        for name, least, most in RANGES:
            number_field(given, name, least, most)
    wants_usage = bool_field(object_field(given, "stream_options"), "include_usage")
    keeps_format = _keeps_format(given, options, strategy)
    return ChatRequest(
        body=given,
        options=options,
        request=replace(_answer_request(given, options, turns, strategy), model=own_model),
        origin=replace(_origin(body, options, reason, key_name), keeps_format=keeps_format),
        model=model,
        stream=stream,
        include_usage=stream and wants_usage,
        keeps_format=keeps_format,
        replaced=asked if asked and strategy != asked else "",
    )


def guarded(chat: ChatRequest, at_most: CostGuard | None) -> ChatRequest:
    """Return a chat with the operator's cost guard, where the strategy is open and nothing is promised."""
    request = chat.request
    if at_most is None or request.strategy or request.at_most is not None or request.promise is not None:
        return chat
    return replace(chat, request=replace(request, at_most=at_most))


def _options(given: object) -> ChatOptions:
    return NO_OPTIONS if given == {} else options_of(given, ChatOptions)


def options_of(given: object, kind: type[T]) -> T:
    """Return the `metacog` object of a request as a value of `kind`.

    Raises:
        MalformedRequest: When it makes none; names each field that is wrong.
    """
    try:
        return from_plain(given, kind)
    except MalformedRequest as error:
        problems = {_option_field(place): problem for place, problem in error.violations.items()}
        place, first = next(iter(problems.items()), ("metacog", error.message))
        raise MalformedRequest(f"{place}: {first}", field=place).with_violations(problems) from error


def _option_field(place: str) -> str:
    """Return the field of the chat request that a place in its `metacog` object is."""
    return "metacog" if place == "body" else f"metacog.{place}"


def _not_recorded(body: Mapping[str, Any]) -> list[str]:
    """Return the fields of a request whose answer has more than one text, which its record does not hold."""
    return [name for name in ("tools", "functions", "logprobs", "audio") if body.get(name)]


def repeatable_options(body: Mapping[str, Any], request_id: str) -> dict[str, Any]:
    """Return the `metacog` object of a request with a name by which its repetition is recognised.

    Nothing where it has a name already, or its repetition cannot be answered from its record.
    """
    options = body.get("metacog") or {}
    if not isinstance(options, dict) or options.get("request_id") or _not_recorded(body) or body.get("n", 1) != 1:
        return {}
    return {"metacog": {**options, "request_id": request_id}}


def _origin(body: Mapping[str, Any], options: ChatOptions, reason: str, key_name: str) -> RequestOrigin:
    """Return what is known of the request beyond its own fields.

    Raises:
        MalformedRequest: For a request whose repetition cannot be answered from its record.
    """
    samples = count_field(body, "n") or 1
    not_recorded = _not_recorded(body)
    if options.request_id and (not_recorded or samples > 1):
        message = (
            f"metacog.request_id: only one text can be repeated; leave request_id or {(*not_recorded, 'n')[0]} out"
        )
        raise MalformedRequest(message, field="metacog.request_id")
    lasting = {name: given for name, given in body.items() if name not in ("stream", "stream_options")}
    return RequestOrigin(
        key_name=key_name,
        reason=reason,
        samples=samples,
        client_request=orjson.dumps(lasting, option=orjson.OPT_SORT_KEYS) if options.request_id else b"",
        chat=body["messages"],
        streamed=body.get("stream") is True,
        call=CallKind.CHAT,
    )


def _strategy(body: Mapping[str, Any], named: str, *, fallback: bool) -> tuple[str, str]:
    """Return the strategy, and why.

    Votes serve all that a client can compare: calls of tools, JSON, texts about images, several replies. What the named
    strategy cannot do is done by System 1, where `fallback` lets it; so is all of it where none is named.

    Raises:
        MalformedRequest: For something that the named strategy cannot do, without `fallback`.
    """
    field_name = _single_pass_field(body) or _not_served(body, named)
    if not field_name or named == Strategy.SYSTEM_ONE:
        return named, "requested"
    reason = "tools" if field_name in TOOL_FIELDS else "format"
    if not named or fallback:
        return Strategy.SYSTEM_ONE, reason
    message = f"{field_name}: {MODEL}/{named} gives one plain text; use {MODEL}/system1, or leave fallback true"
    raise MalformedRequest(message, field=field_name)


def _single_pass_field(body: Mapping[str, Any]) -> str:
    """Return the first field that only a single-pass call can serve; empty: none."""
    needs = (("logprobs", bool_field(body, "logprobs")), ("audio", bool(body.get("audio"))))
    return next((name for name, needed in needs if needed), "")


def _beyond_text(body: Mapping[str, Any]) -> str:
    """Return the first field that asks for more than one plain text, or shows more than text; empty: none."""
    needs = (
        *((name, bool(body.get(name))) for name in TOOL_FIELDS),
        ("n", (body.get("n") or 1) != 1),
        ("response_format", object_field(body, "response_format").get("type", "text") != "text"),
    )
    return next((name for name, needed in needs if needed), "") or non_text_field(body["messages"])


def _not_served(body: Mapping[str, Any], named: str) -> str:
    """Return the first field beyond text that the named strategy cannot serve; empty: none."""
    formatted = named in DELIBERATIONS and _wants_json(body)
    found = _beyond_text({**body, "response_format": None} if formatted else body)
    return "" if named in VOTING else found


def _wants_json(body: Mapping[str, Any]) -> bool:
    return object_field(body, "response_format").get("type") in ("json_schema", "json_object")


def _keeps_format(body: Mapping[str, Any], options: ChatOptions, strategy: str) -> bool:
    """Return whether votes are whole replies in the client's own format.

    Raises:
        MalformedRequest: For an option that such votes have no use for; names it.
    """
    if strategy not in VOTING or not _beyond_text(body):
        return False
    vote = options.vote
    place = ""
    if vote is not None:
        agents = any(one.agent or one.mode not in (None, VoteMode.DRAFT) for one in vote.sources)
        place = "vote.tests" if vote.tests else "vote.sources" if agents else ""
    place = place or ("promise" if options.promise is not None else "")
    if place:
        message = (
            "votes on tools, JSON, images or several replies are the client's own request to models: name models only"
        )
        raise MalformedRequest(f"metacog.{place}: {message}", field=f"metacog.{place}")
    return True


def _answer_request(
    body: Mapping[str, Any], options: ChatOptions, turns: Sequence[Turn], strategy: str
) -> AnswerRequest:
    return AnswerRequest(
        messages=turns,
        strategy=strategy,
        msv=options.msv,
        answer_type=options.answer_type,
        envelope=options.envelope,
        seed=seed_field(body),
        temperature=number_field(body, "temperature", 0, 2),
        max_tokens=count_field(body, "max_completion_tokens") or count_field(body, "max_tokens"),
        fallback=options.fallback,
        request_id=options.request_id,
        assignment_kind=options.assignment_kind,
        assignment_seed=options.assignment_seed,
        fixed_assignment=options.fixed_assignment,
        stage_max_tokens=options.stage_max_tokens,
        assessor=options.assessor,
        stop=stop_texts(body),
        arbitration=options.arbitration,
        vote=options.vote,
        promise=options.promise,
        dialectic=options.dialectic,
        delegation=options.delegation,
        at_most=options.at_most,
    )
