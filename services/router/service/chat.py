"""OpenAI's chat completions as requests of ours, and runs of ours as chat completions."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import orjson

from chassis.inference.client import Backend
from chassis.inference.reasoning import separated
from chassis.inference.sse import parsed
from chassis.spend import Spend
from chassis.wire import MAX_COUNT, MAX_SEED, Count, MalformedRequest, RequestId, Seed, from_plain
from kernel.answers import AnswerType, Outcome
from kernel.envelope import Envelope
from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.values import value
from services.router.core.strategies import Strategy
from services.router.service.answer import Answered, Origin, Task
from services.router.service.system_one import STAGE, assessed_confidence
from services.router.service.values import AnswerRequest, AssignmentKind, Passed, Run, Turn

MODEL = "metacog"
MODELS: Mapping[str, str] = {MODEL: "", **{f"{MODEL}/{strategy}": strategy for strategy in Strategy}}

ABSTENTION = "No answer could be obtained that would be worth giving."


class UnknownModel(MetacogError):
    """The request names a model that the gateway does not offer."""

    code = Code.NOT_FOUND
    reason = "MODEL_NOT_FOUND"


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


class Passthrough:
    """System 1 for one chat request: the client's own request, passed on."""

    def __init__(self, backend: Backend, chat: Chat) -> None:
        self._backend = backend
        self._chat = chat

    async def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[Passed | Answered, None]:
        """What the backend sends, then the answer it amounts to."""
        body = {**self._chat.body, "model": self._backend.config.model}
        if self._chat.stream:
            pieces: list[bytes] = []
            async with await self._backend.forward_stream(body, spend, STAGE) as stream:
                async for event in stream:
                    if not event.done:
                        pieces.append(event.raw)
                        yield Passed(raw=event.raw, document=event.document)
            yield replace(_streamed(pieces, task), budget_exhausted=stream.cut)
        else:
            reply = await self._backend.forward(body, spend, STAGE)
            yield Passed(document=reply.document)
            yield replace(_replied(reply.document, task), budget_exhausted=reply.cut)


def understood(body: object, aliases: Mapping[str, str]) -> Chat:
    """The chat request in `body`.

    Args:
        body: The request as JSON has it.
        aliases: Model names that stand for ours.

    Raises:
        MalformedRequest: For a body that is no chat request; names the field.
        UnknownModel: For a model that the gateway does not offer.
    """
    if not isinstance(body, dict):
        raise MalformedRequest("the body must be a JSON object", field="body")
    given: dict[str, Any] = dict(body)
    options = from_plain(given.pop("metacog", None) or {}, ChatOptions)
    model = given.get("model")
    if not isinstance(model, str) or not model:
        raise MalformedRequest("model: give a model name; /v1/models lists them", field="model")
    named = aliases.get(model, model)
    if named not in MODELS:
        raise UnknownModel(f"the model {model!r} does not exist; there are {', '.join(MODELS)}", model=model)
    turns = _turns(given.get("messages"))
    stream = given.get("stream") is True
    strategy, because = _strategy(given, MODELS[named])
    asked_usage = _object(given, "stream_options").get("include_usage") is True
    return Chat(
        body=given,
        options=options,
        ask=_ask(given, options, turns, strategy),
        origin=_origin(body, options, because),
        model=model,
        stream=stream,
        include_usage=stream and asked_usage,
    )


def _origin(body: Mapping[str, Any], options: ChatOptions, because: str) -> Origin:
    """What is known of the request beyond what we make of it.

    Raises:
        MalformedRequest: For a request that cannot be repeated from its record.
    """
    more_than_text = [name for name in ("tools", "functions", "logprobs") if body.get(name)]
    if options.request_id and (more_than_text or (_count(body, "n") or 1) > 1):
        said = f"metacog.request_id: only one text can be repeated; leave request_id or {(*more_than_text, 'n')[0]} out"
        raise MalformedRequest(said, field="metacog.request_id")
    lasting = {name: given for name, given in body.items() if name not in ("stream", "stream_options")}
    return Origin(
        because=because,
        samples=_count(body, "n") or 1,
        request=orjson.dumps(lasting, option=orjson.OPT_SORT_KEYS) if options.request_id else b"",
    )


def _strategy(body: Mapping[str, Any], named: str) -> tuple[str, str]:
    """The strategy asked for, and why; what only a plain call can do takes System 1 where the router may decide.

    Raises:
        MalformedRequest: For something that the named strategy cannot do.
    """
    if body.get("tools") or body.get("functions"):
        return Strategy.SYSTEM_ONE, "requested" if named == Strategy.SYSTEM_ONE else "tools"
    plain_only = [
        name
        for name, plain in (
            ("n", (body.get("n") or 1) == 1),
            ("logprobs", not body.get("logprobs")),
            ("response_format", _object(body, "response_format").get("type", "text") == "text"),
        )
        if not plain
    ]
    if not plain_only or named == Strategy.SYSTEM_ONE:
        return named, "requested"
    if not named:
        return Strategy.SYSTEM_ONE, "format"
    field_name = plain_only[0]
    said = f"{field_name}: {MODEL}/{named} gives one plain text; leave {field_name} out or use {MODEL}/system1"
    raise MalformedRequest(said, field=field_name)


def _ask(body: Mapping[str, Any], options: ChatOptions, turns: Sequence[Turn], strategy: str) -> AnswerRequest:
    return AnswerRequest(
        messages=turns,
        strategy=strategy,
        msv=options.msv,
        answer_type=options.answer_type,
        envelope=options.envelope,
        seed=_whole_number(body, "seed", 0, MAX_SEED),
        temperature=_number(body, "temperature", 0, 2),
        max_tokens=_count(body, "max_completion_tokens") or _count(body, "max_tokens"),
        fallback=options.fallback,
        request_id=options.request_id,
        assignment_kind=options.assignment_kind,
        assignment_seed=options.assignment_seed,
        fixed_assignment=options.fixed_assignment,
        stage_max_tokens=options.stage_max_tokens,
    )


def _number(body: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    given = body.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
        raise MalformedRequest(f"{name}: it must be a number in [{least}, {most}], not {given!r}", field=name)
    return given


def _count(body: Mapping[str, Any], name: str) -> int | None:
    return _whole_number(body, name, 1, MAX_COUNT)


def _whole_number(body: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    given = _number(body, name, least, most)
    if given is not None and given != int(given):
        raise MalformedRequest(f"{name}: it must be a whole number, not {given!r}", field=name)
    return None if given is None else int(given)


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = body.get(name)
    if given is not None and not isinstance(given, dict):
        raise MalformedRequest(f"{name}: it must be an object, not {given!r}", field=name)
    return given or {}


def _turns(messages: object) -> list[Turn]:
    if not isinstance(messages, list) or not messages:
        raise MalformedRequest("messages: give at least one message", field="messages")
    return [_turn(place, message) for place, message in enumerate(messages)]


def _turn(place: int, message: object) -> Turn:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise MalformedRequest(f"messages.{place}: give an object with a role", field=f"messages.{place}")
    return Turn(role=message["role"], content=_text(place, message.get("content")))


def _text(place: int, content: object) -> str:
    """Text of a message's content; parts that are no text are named."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        said = f"messages.{place}.content: give a text or a list of parts"
        raise MalformedRequest(said, field=f"messages.{place}.content")
    return "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in content)


def _streamed(pieces: Sequence[bytes], task: Task) -> Answered:
    events = [parsed(piece).data for piece in pieces]
    documents = [orjson.loads(data) for data in events if data]
    choices = [c for d in documents for c in d.get("choices") or () if c.get("index", 0) == 0]
    text = "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    model = documents[0].get("model", "") if documents else ""
    return _answered(text, reasons[-1] if reasons else "", model, task)


def _replied(document: Mapping[str, Any], task: Task) -> Answered:
    choice = (document.get("choices") or [{}])[0]
    text = (choice.get("message") or {}).get("content") or ""
    return _answered(text, choice.get("finish_reason") or "", document.get("model") or "", task)


def _answered(text: str, finish_reason: str, model: str, task: Task) -> Answered:
    """What a plain answer amounts to; what a thinking model thought aloud is no part of it."""
    _, answer = separated(text)
    given = bool(answer.strip()) or finish_reason in ("tool_calls", "function_call")
    return Answered(
        text=answer,
        outcome=Outcome.ANSWERED if given else Outcome.ABSTAINED,
        model=model,
        finish_reason=finish_reason,
        **assessed_confidence(task.route),
    )


def told(run: Run) -> dict[str, Any]:
    """The `metacog` field of an answer."""
    route, deliberation = run.route, run.deliberation or {}
    return {
        "run_id": run.run_id,
        "system": route.system if route else None,
        "strategy": run.strategy,
        "because": route.because if route else "",
        "msv": route.msv if route else None,
        "activation": route.activation if route else None,
        "outcome": run.outcome,
        "confidence": run.confidence,
        "confidence_source": run.confidence_source,
        "stages": [_stage(stage) for stage in deliberation.get("stages") or ()],
        "note": deliberation.get("note") or "",
        "usage": run.usage,
        "degraded": run.degraded,
        "degraded_reasons": run.degraded_reasons,
        "budget_exhausted": run.budget_exhausted,
        "duration_ms": run.duration_ms,
    }


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("stage", "role", "agent", "model", "prompt_digest", "truncated", "attempts", "succeeded", "duration_ms")
    return {name: stage[name] for name in shown}


def content(run: Run, options: ChatOptions) -> str:
    """Text of the answer for a chat client."""
    text = run.answer if run.outcome is Outcome.ANSWERED else run.answer or ABSTENTION
    note = (run.deliberation or {}).get("note")
    return f"{text}\n\nNote: {note}" if options.note and note else text


def usage(run: Run) -> dict[str, int]:
    """OpenAI's usage: totals over everything the run spent."""
    spent = run.usage
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
    }


def completion(run: Run, chat: Chat) -> dict[str, Any]:
    """A chat completion that tells of a run on System 2."""
    message = {"role": "assistant", "content": content(run, chat.options), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": run.finish_reason or "stop"}
    return {**head(run.run_id, int(run.created_at.timestamp()), chat, "chat.completion"), "choices": [choice]}


def head(run_id: str, created: int, chat: Chat, kind: str) -> dict[str, Any]:
    """The fields that every completion and every chunk begins with."""
    return {"id": f"chatcmpl-{run_id}", "object": kind, "created": created, "model": chat.model}
