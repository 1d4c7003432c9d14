"""The gateway reads chat requests of the OpenAI API, answers them on System 1, and writes their completions.

Every field is checked: an invalid one is rejected by name, whatever a backend would do with it.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import Field

from chassis.serving.wire import MAX_COUNT, MAX_SEED, Count, RequestId, Seed, from_plain
from inference import (
    NO_FIELDS,
    Backend,
    BackendModelClients,
    Spend,
    checked_body,
    merge_chunks,
    object_of,
    objects_of,
    parse_event,
    parse_object,
    split_reasoning,
    text_of,
    tokens_of,
)
from kernel.answers import AnswerType
from kernel.conversation import Turn, has_images, non_text_field, turns_of_chat
from kernel.envelope import Envelope
from kernel.errors import Code, MalformedRequest, MetacogError
from kernel.msv import MSV
from kernel.outcomes import Outcome
from kernel.policy import VOTING, Strategy
from kernel.values import value
from kernel.votes.votes import VoteMode
from services.router.core.media_sources import check_media_sources
from services.router.errors import UnknownModel
from services.router.service.answering.answer import RequestOrigin, StrategyResult, StrategyTask
from services.router.service.answering.system_one import STAGE, assessed_confidence, result_of_draft
from services.router.service.answering.values import (
    AnswerRequest,
    AnswerToken,
    ArbitrationOptions,
    AssignmentKind,
    CostGuard,
    DelegationOptions,
    DialecticOptions,
    PassedThrough,
    Promise,
    VoteOptions,
)
from services.router.service.assessment.subject import DraftAnswer, Drafter
from services.router.service.gateway.passed_fields import PassedFields, ignored_fields
from services.router.service.gateway.whole_replies import chunks_of, first_choice, has_more_than_text
from services.router.service.runs.values import CallKind, PromiseState, Run

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


@value
class Citation:
    """A citation is a passage of a stored document that an answer could use, under the number by which it is cited."""

    number: int
    document_id: str
    title: str
    chunk: int | None
    passage: str


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
        citations: Passages that the answer could use; None where none were asked for, or they are unknown.
        citations_unknown_reason: Why they are unknown, as `CODE: message`; empty otherwise.
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
    citations: Sequence[Citation] | None = None
    citations_unknown_reason: str = ""

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


ABSTENTION = "No answer could be obtained that would be worth giving."
WITHHELD = "No answer was given: labels do not prove that it keeps the promise ({reason})."

ERROR_TYPES: Mapping[Code, str] = {
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.RESOURCE_EXHAUSTED: "rate_limit_error",
}
# Reasons that clients know by OpenAI's names and act on; all others have ours.
ERROR_CODES: Mapping[str, str] = {
    "PROMPT_TOO_LONG": "context_length_exceeded",
    "UNAUTHENTICATED": "invalid_api_key",
}


def error_body(error: MetacogError) -> dict[str, Any]:
    """Return an error in OpenAI's shape."""
    kind = ERROR_TYPES.get(error.code, "invalid_request_error" if error.code.http < 500 else "server_error")
    code = ERROR_CODES.get(error.reason, error.reason.lower())
    param = error.metadata.get("field") or next(iter(error.violations), None)
    if param is not None and param.partition(".")[0] in OPTION_FIELDS:
        param = f"metacog.{param}"
    return {"error": {"message": error.message, "type": kind, "param": param, "code": code}}


def explanation(run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return the `metacog` field of an answer."""
    return {
        **run_explanation(run),
        "ignored": [] if chat.keeps_format and run.strategy in VOTING else ignored_fields(chat.body, run.strategy),
        "citations": chat.citations,
        "citations_unknown_reason": chat.citations_unknown_reason,
    }


def run_explanation(run: Run) -> dict[str, Any]:
    """Return what a run says of its answer."""
    route, deliberation = run.route, run.deliberation or {}
    return {
        "run_id": run.run_id,
        "system": route.system if route else None,
        "strategy": run.strategy,
        "model": run.model,
        "reason": route.reason if route else "",
        "policy_row": route.policy_row if route else "",
        "decided_by": route.decided_by if route else None,
        "kind": route.kind if route else "",
        "kind_unknown_reason": route.kind_unknown_reason if route else "",
        "gain": route.gain if route else None,
        "cached_from": route.cached_from if route else "",
        "assessor": route.assessor if route else "",
        "config_version": run.config_version,
        "msv": route.msv if route else None,
        "activation": route.activation if route else None,
        "outcome": run.outcome,
        "confidence": run.confidence,
        "confidence_source": run.confidence_source,
        "confidence_raw": run.confidence_raw,
        "calibration_version": run.calibration_version,
        "confidence_state": run.confidence_state,
        "confidence_labels": run.confidence_labels,
        "confidence_unknown_reason": run.confidence_unknown_reason,
        "state": run.state,
        "idempotency": run.idempotency,
        "escalation": run.escalation,
        "promise": run.promise,
        "cost_guard": run.cost_guard,
        "stages": [_stage(stage) for stage in deliberation.get("stages") or ()],
        "note": deliberation.get("note") or "",
        "usage": run.usage,
        "degraded": run.degraded,
        "degraded_reasons": run.degraded_reasons,
        "budget_exhausted": run.budget_exhausted,
        "duration_ms": run.duration_ms,
    }


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    names = ("stage", "role", "agent", "model", "prompt_digest", "truncated", "attempts", "succeeded", "duration_ms")
    return {name: stage[name] for name in names}


def content(run: Run, options: ChatOptions) -> str:
    """Return the text of the answer for a chat client."""
    unchanged = run.strategy == Strategy.SYSTEM_ONE  # whose backend's text is passed through
    text = run.answer if unchanged or run.outcome is Outcome.ANSWERED else run.answer or abstention(run)
    note = (run.deliberation or {}).get("note")
    return f"{text}\n\nNote: {note}" if options.note and note else text


def abstention(run: Run) -> str:
    """Return the text for a chat client where there is no answer."""
    if run.promise is None or run.promise.state is not PromiseState.WITHHELD:
        return ABSTENTION
    return WITHHELD.format(reason=run.promise.reason)


def usage(run: Run) -> dict[str, int]:
    """Return OpenAI's usage: totals over everything the run spent."""
    spent = run.usage
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
    }


# What a server adds to its replies that is no part of OpenAI's format: llama.cpp's measurements.
SERVER_FIELDS = frozenset({"timings"})


def without_server_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply, or a chunk, of a model server without the fields that only this server has."""
    return {name: item for name, item in document.items() if name not in SERVER_FIELDS}


def passed_completion(document: Mapping[str, Any], run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return the reply of a model server under the names of its run and of the model that was asked for."""
    return {**without_server_fields(document), "id": completion_id(run.run_id), "model": chat.model}


def whole_completion(document: Mapping[str, Any] | None, run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return a run as a chat completion with its explanation.

    Args:
        document: The reply of a model server; None where none is passed through.
        run: The run.
        chat: Its request.
    """
    whole = completion(run, chat) if document is None else passed_completion(document, run, chat)
    return {**whole, "usage": {**(whole.get("usage") or {}), **usage(run)}, "metacog": explanation(run, chat)}


def completion_id(run_id: str) -> str:
    """Return the identifier of the completion that answers a run, by which its client finds the run again."""
    return f"chatcmpl-{run_id}"


def completion(run: Run, chat: ChatRequest) -> dict[str, Any]:
    """Return a run on System 2 as a chat completion."""
    message = {"role": "assistant", "content": content(run, chat.options), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": run.finish_reason or "stop"}
    return {**head(run.run_id, int(run.created_at.timestamp()), chat, "chat.completion"), "choices": [choice]}


def head(run_id: str, created: int, chat: ChatRequest, kind: str) -> dict[str, Any]:
    """Return the fields that every completion and every chunk begins with."""
    return {"id": completion_id(run_id), "object": kind, "created": created, "model": chat.model}


def lacking_feature(backend: Backend, body: Mapping[str, Any]) -> str:
    """Return the feature that a chat needs and a model is known to lack, `tools` or `images`; empty: none."""
    features = backend.config.features
    needs = (
        ("tools", any(body.get(name) for name in TOOL_FIELDS), features.tools),
        ("images", has_images(body["messages"]), features.images),
    )
    return next((name for name, needed, able in needs if needed and able is False), "")


class Passthrough:
    """The passthrough is System 1 for one chat request: the client's own request, forwarded to the backend."""

    def __init__(self, models: BackendModelClients, chat: ChatRequest) -> None:
        self._models = models
        self._chat = chat

    async def __call__(
        self, task: StrategyTask, spend: Spend
    ) -> AsyncGenerator[AnswerToken | PassedThrough | StrategyResult, None]:
        """Yield what the backend sends, then the result; a draft is not generated again."""
        backend = self._backend(task.request.model)
        body = {**self._chat.body, "model": backend.config.model}
        draft = task.draft if self._is_whole(task.draft) else None
        if draft is not None and self._chat.stream and not _has_calls(draft):
            yield AnswerToken(text=draft.text)
            yield result_of_draft(draft, task.route)
        elif draft is not None and draft.document is not None:
            for piece in chunks_of(draft.document) if self._chat.stream else [draft.document]:
                yield PassedThrough(document=piece)
            yield _reply_result(draft.document, task, cut=draft.cut)
        elif self._chat.stream:
            pieces: list[bytes] = []
            async with await backend.forward_stream(body, spend, STAGE) as stream:
                async for event in stream:
                    if not event.done:
                        pieces.append(event.raw)
                        yield PassedThrough(raw=event.raw, document=event.document)
            yield _stream_result(pieces, task, cut=stream.cut)
        else:
            reply = await backend.forward(body, spend, STAGE)
            yield PassedThrough(document=reply.document)
            yield _reply_result(reply.document, task, cut=reply.cut)

    def drafter(self, request: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
        """Return the drafter of the same answer, with the probabilities by which it can be judged."""
        return self._draft

    def _is_whole(self, draft: DraftAnswer | None) -> bool:
        """Return whether a draft has all the replies that the client wants: where replies vote it is one of them."""
        return draft is not None and not (self._chat.keeps_format and self._chat.samples > 1)

    def _backend(self, model: str) -> Backend:
        """Return the backend of a model, or of the default one for an empty name.

        Raises:
            MalformedRequest: When that model is known to lack what the request needs.
        """
        backend = self._models.current().named(model)
        feature = lacking_feature(backend, self._chat.body)
        if feature:
            field_name = "tools" if feature == "tools" else "messages"
            message = f"{field_name}: the model {backend.config.name} is configured without {feature}"
            raise MalformedRequest(f"{message} (models.yaml: features.{feature})", field=field_name)
        return backend

    async def _draft(self, spend: Spend) -> DraftAnswer:
        backend = self._backend(self._chat.request.model)
        body = {**self._chat.body, "model": backend.config.model, "stream": False}
        if self._chat.keeps_format:
            body.pop("n", None)
        with_logprobs = {} if backend.features.logprobs is False else {"logprobs": True, "top_logprobs": 1}
        reply = await backend.forward({**body, **with_logprobs}, spend, STAGE)
        choice = next(iter(objects_of(reply.document.get("choices"))), NO_FIELDS)
        listed = objects_of(object_of(choice.get("logprobs")).get("content"))
        return DraftAnswer(
            text=split_reasoning(text_of(object_of(choice.get("message")).get("content")))[1],
            model=text_of(reply.document.get("model")),
            finish_reason=text_of(choice.get("finish_reason")),
            logprobs=[(text_of(token.get("token")), _logprob(token)) for token in listed] or None,
            document=_without_logprobs(reply.document, choice),
            cut=reply.cut,
            tokens=tokens_of(object_of(reply.document.get("usage")).get("completion_tokens")) or 0,
        )


def _logprob(token: Mapping[str, object]) -> float:
    level = token.get("logprob")
    return min(0.0, level) if isinstance(level, int | float) else 0.0


def _without_logprobs(reply: Mapping[str, object], choice: Mapping[str, object]) -> Mapping[str, object]:
    """Return the reply without the probabilities that its client did not ask for."""
    return {**reply, "choices": [{**choice, "logprobs": None}]}


def _stream_result(pieces: Sequence[bytes], task: StrategyTask, *, cut: bool) -> StrategyResult:
    documents = [parse_object(data) for piece in pieces if (data := parse_event(piece).data)]
    choices = [c for d in documents for c in objects_of(d.get("choices")) if not c.get("index")]
    deltas = [object_of(choice.get("delta")) for choice in choices]
    reasons = [text_of(choice.get("finish_reason")) for choice in choices if choice.get("finish_reason")]
    has_more = any(has_more_than_text(delta) for delta in deltas)
    whole = next(iter(objects_of(merge_chunks(documents).get("choices"))), NO_FIELDS) if has_more else NO_FIELDS
    return _result(
        "".join(text_of(delta.get("content")) for delta in deltas),
        more=object_of(whole.get("message")) if has_more else None,
        finish_reason=reasons[-1] if reasons else "",
        model=text_of(documents[0].get("model")) if documents else "",
        task=task,
        cut=cut,
    )


def _reply_result(reply: Mapping[str, object], task: StrategyTask, *, cut: bool) -> StrategyResult:
    choice = next(iter(objects_of(reply.get("choices"))), NO_FIELDS)
    message = object_of(choice.get("message"))
    return _result(
        text_of(message.get("content")),
        more=message if has_more_than_text(message) else None,
        finish_reason=text_of(choice.get("finish_reason")),
        model=text_of(reply.get("model")),
        task=task,
        cut=cut,
    )


def calls_of(message: Mapping[str, object]) -> Mapping[str, object]:
    """Return the calls of tools in a message, by the name of their field."""
    return {name: message[name] for name in ("tool_calls", "function_call") if message.get(name)}


def _has_calls(draft: DraftAnswer) -> bool:
    """Return whether a draft has more than text."""
    reply = draft.document or NO_FIELDS
    return has_more_than_text(object_of(first_choice(reply).get("message")))


def _result(
    text_with_reasoning: str,
    *,
    more: Mapping[str, object] | None,
    finish_reason: str,
    model: str,
    task: StrategyTask,
    cut: bool,
) -> StrategyResult:
    """Return the result of a single-pass call; the reasoning of a thinking model is no part of the answer.

    `more` is the message of an answer that is more than text.
    """
    _, answer = split_reasoning(text_with_reasoning)
    return StrategyResult(
        text=answer,
        outcome=Outcome.ANSWERED if more or answer.strip() else Outcome.ABSTAINED,
        model=model,
        finish_reason=finish_reason,
        budget_exhausted=cut,
        calls=calls_of(more or {}),
        **assessed_confidence(task.route),
    )
