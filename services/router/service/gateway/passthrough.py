"""A chat request is passed to its backend as System 1, and the reply is passed back as it comes."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from inference import (
    NO_FIELDS,
    Backend,
    BackendModelClients,
    Spend,
    merge_chunks,
    object_of,
    objects_of,
    parse_event,
    parse_object,
    split_reasoning,
    text_of,
    tokens_of,
)
from kernel.conversation import Turn, has_images
from kernel.errors import MalformedRequest
from kernel.outcomes import Outcome
from services.router.service.answering.strategy_task import StrategyResult, StrategyTask
from services.router.service.answering.system_one import STAGE, assessed_confidence, result_of_draft
from services.router.service.answering.values import (
    AnswerRequest,
    AnswerToken,
    PassedThrough,
)
from services.router.service.assessment.subject import DraftAnswer, Drafter
from services.router.service.gateway.chat_request import TOOL_FIELDS, ChatRequest
from services.router.service.gateway.whole_replies import chunks_of, first_choice, has_more_than_text


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
