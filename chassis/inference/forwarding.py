"""A chat completion that is passed on as the caller wrote it, for the gateway's System 1."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from chassis.inference import sse
from chassis.inference.accounts import Account
from chassis.inference.checks import checked_body
from chassis.inference.config import BackendConfig
from chassis.inference.fields import count, document, mapping, mappings
from chassis.inference.meter import Meter
from chassis.inference.opened import Opened
from chassis.inference.values import StreamEvent, Work
from kernel.envelope import Ledger, StageUsage
from kernel.values import value

# Inside a text, a quote is escaped, so these match keys only. Everything else passes unparsed.
_WORTH_PARSING = re.compile(rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"')
_PIECE = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)"\s*:\s*"(?!")')


@value
class Asked:
    """What a request asks for.

    Attributes:
        body: The request as the caller wrote it.
        samples: Its `n` [count, >= 1].
        tokens: Tokens for each sample [count, >= 1]; None where it does not say.
        usage: Whether the caller wants the usage of a stream.
    """

    body: Mapping[str, object]
    samples: int
    tokens: int | None
    usage: bool

    def reserved(self, ledger: Ledger, stage: str, *, default_tokens: int, context_tokens: int | None) -> "Forwarding":
        """Reserve the worst case: `default_tokens` for each sample, or half the context, where it does not say.

        Raises:
            BudgetExhausted: When not one token for each sample is left.
        """
        half = (context_tokens or 2 * default_tokens) // 2
        tokens = self.tokens or max(1, min(default_tokens, half))
        return Forwarding(wanted=self, account=Account(ledger, stage, generations=self.samples, wanted_tokens=tokens))


@value
class Forwarding:
    """A request with its reservation."""

    wanted: Asked
    account: Account

    def body(self, config: BackendConfig, work: Work) -> dict[str, object]:
        """The request as it is sent: for our model, and within the envelope; all other fields as they came."""
        body = self.wanted.body
        limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
        own = {"stream", "stream_options", "max_tokens", "max_completion_tokens"}
        sent = {name: field for name, field in body.items() if name not in own}
        if work in config.priorities:
            sent["priority"] = config.priorities[work]
        return {**sent, "model": config.model, limit: self.account.tokens_each}


def asked(body: Mapping[str, object]) -> Asked:
    """What `body` asks for.

    Raises:
        InvalidCall: When one of its sampling fields is outside its range.
    """
    checked_body(body)
    return Asked(
        body=body,
        samples=count(body.get("n")) or 1,
        tokens=count(body.get("max_completion_tokens")) or count(body.get("max_tokens")),
        usage=mapping(body.get("stream_options")).get("include_usage") is True,
    )


def streaming(body: Mapping[str, object], sent: Mapping[str, object]) -> dict[str, object]:
    """`sent`, streamed and with usage, which our own accounting needs."""
    options = {**mapping(body.get("stream_options")), "include_usage": True}
    return {**sent, "stream": True, "stream_options": options}


class ForwardedStream:
    """An async context that is iterated for the events of a forwarded stream, as they came.

    The usage chunk that the client did not ask for is left out. Leaving the context early aborts the generation, and
    books what had been seen of it.

    Args:
        opened: The reply.
        meter: What it costs.
        wanted: What the request asks for.
    """

    def __init__(self, opened: Opened, meter: Meter, wanted: Asked) -> None:
        self._opened = opened
        self._meter = meter
        self._wanted = wanted
        self._unfinished = wanted.samples
        self._events = self._read()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(error)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    @property
    def usage(self) -> StageUsage:
        """What the stream has cost so far; final with the event that is `done`."""
        return self._meter.usage

    @property
    def cut(self) -> bool:
        """Whether the envelope left each sample fewer tokens than the request allowed."""
        return self._meter.account.cut

    async def aclose(self, error: BaseException | None = None) -> None:
        """Give back what is held; if the stream has not ended, abort it. `error` is why, for the observer."""
        try:
            await self._events.aclose()
            await self._opened.aclose()
        finally:
            self._meter.close(error)

    async def _read(self) -> AsyncGenerator[StreamEvent, None]:
        async for event in self._opened.events():
            if event.data == sse.DONE:
                self._meter.settle()
                yield StreamEvent(raw=event.raw, done=True)
                return
            if passed := self._passed(event):
                yield passed
        if self._unfinished > 0:
            raise self._opened.broken("it ended before its samples did")
        self._meter.settle()

    def _passed(self, event: sse.Event) -> StreamEvent | None:
        """`event` as it is passed on, and counted; None if it is usage that nobody asked for."""
        if event.data is None:
            return StreamEvent(raw=event.raw)
        if _PIECE.search(event.data):
            self._meter.tally.piece()
        if not _WORTH_PARSING.search(event.data):
            return StreamEvent(raw=event.raw)
        chunk = document(event.data)
        usage_alone = self._meter.tally.usage_in(chunk)
        self._unfinished -= sum(choice.get("finish_reason") is not None for choice in mappings(chunk.get("choices")))
        if usage_alone and not self._wanted.usage:
            return None
        return StreamEvent(raw=event.raw, document=chunk)
