"""System 1 for a chat request: the client's own request, passed on to the backend."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from chassis.inference.client import Backend
from chassis.inference.fields import NOTHING, document, mapping, mappings, text
from chassis.inference.reasoning import separated
from chassis.inference.sse import parsed
from chassis.spend import Spend
from kernel.answers import Outcome
from services.router.service.answer import Answered, Task
from services.router.service.chat import Chat
from services.router.service.subject import Drafted, Drafter
from services.router.service.system_one import STAGE, answered, assessed_confidence
from services.router.service.values import AnswerRequest, AnswerToken, Passed, Turn


class Passthrough:
    """System 1 for one chat request: the client's own request, passed on."""

    def __init__(self, backend: Backend, chat: Chat) -> None:
        self._backend = backend
        self._chat = chat

    async def __call__(self, task: Task, spend: Spend) -> AsyncGenerator[AnswerToken | Passed | Answered, None]:
        """What the backend sends, then the answer it amounts to; one that is there already is not made again."""
        body = {**self._chat.body, "model": self._backend.config.model}
        if task.drafted is not None and self._chat.stream:
            yield AnswerToken(text=task.drafted.text)
            yield answered(task.drafted, task.route)
        elif task.drafted is not None and task.drafted.document is not None:
            yield Passed(document=task.drafted.document)
            yield _replied(task.drafted.document, task, cut=task.drafted.cut)
        elif self._chat.stream:
            pieces: list[bytes] = []
            async with await self._backend.forward_stream(body, spend, STAGE) as stream:
                async for event in stream:
                    if not event.done:
                        pieces.append(event.raw)
                        yield Passed(raw=event.raw, document=event.document)
            yield _streamed(pieces, task, cut=stream.cut)
        else:
            reply = await self._backend.forward(body, spend, STAGE)
            yield Passed(document=reply.document)
            yield _replied(reply.document, task, cut=reply.cut)

    def drafter(self, ask: AnswerRequest, messages: Sequence[Turn]) -> Drafter:
        """Makes the same answer before it is chosen, with the probabilities by which it can be judged."""
        return self._draft

    async def _draft(self, spend: Spend) -> Drafted:
        body = {**self._chat.body, "model": self._backend.config.model, "stream": False}
        asked = {} if self._backend.features.logprobs is False else {"logprobs": True, "top_logprobs": 1}
        reply = await self._backend.forward({**body, **asked}, spend, STAGE)
        choice = next(iter(mappings(reply.document.get("choices"))), NOTHING)
        listed = mappings(mapping(choice.get("logprobs")).get("content"))
        return Drafted(
            text=separated(text(mapping(choice.get("message")).get("content")))[1],
            model=text(reply.document.get("model")),
            finish_reason=text(choice.get("finish_reason")),
            logprobs=[(text(token.get("token")), _logprob(token)) for token in listed] or None,
            document=_as_asked(reply.document, choice),
            cut=reply.cut,
        )


def _logprob(token: Mapping[str, object]) -> float:
    level = token.get("logprob")
    return min(0.0, level) if isinstance(level, int | float) else 0.0


def _as_asked(reply: Mapping[str, object], choice: Mapping[str, object]) -> Mapping[str, object]:
    """The reply without the probabilities that its client did not ask for."""
    return {**reply, "choices": [{**choice, "logprobs": None}]}


def _streamed(pieces: Sequence[bytes], task: Task, *, cut: bool) -> Answered:
    documents = [document(data) for piece in pieces if (data := parsed(piece).data)]
    choices = [c for d in documents for c in mappings(d.get("choices")) if not c.get("index")]
    deltas = [mapping(choice.get("delta")) for choice in choices]
    reasons = [text(choice.get("finish_reason")) for choice in choices if choice.get("finish_reason")]
    return _answered(
        "".join(text(delta.get("content")) for delta in deltas),
        other=any(_is_more(delta) for delta in deltas),
        finish_reason=reasons[-1] if reasons else "",
        model=text(documents[0].get("model")) if documents else "",
        task=task,
        cut=cut,
    )


def _replied(reply: Mapping[str, object], task: Task, *, cut: bool) -> Answered:
    choice = next(iter(mappings(reply.get("choices"))), NOTHING)
    message = mapping(choice.get("message"))
    return _answered(
        text(message.get("content")),
        other=_is_more(message),
        finish_reason=text(choice.get("finish_reason")),
        model=text(reply.get("model")),
        task=task,
        cut=cut,
    )


def _is_more(message: Mapping[str, object]) -> bool:
    """Whether `message` gives something beside text: a named tool's call ends with `stop` and has no content."""
    return any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))


def _answered(said: str, *, other: bool, finish_reason: str, model: str, task: Task, cut: bool) -> Answered:
    """What a plain answer amounts to; what a thinking model thought aloud is no part of it."""
    _, answer = separated(said)
    return Answered(
        text=answer,
        outcome=Outcome.ANSWERED if other or answer.strip() else Outcome.ABSTAINED,
        model=model,
        finish_reason=finish_reason,
        budget_exhausted=cut,
        **assessed_confidence(task.route),
    )
