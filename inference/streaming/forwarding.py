"""A chat completion that is passed on as the caller wrote it, for the gateway's System 1.

Where a backend draws fewer samples in one request than the caller wants, several requests draw them (`merging`). A
stream cannot be put together so: more samples than one request carries are refused.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from inference.accounting.stream_cost import StreamMeter
from inference.errors import BackendRefused, InvalidCall
from inference.features import Features, LearnedFeatures, samples_limit
from inference.http import event_parser
from inference.http.open_stream import OpenStream
from inference.json_fields import count, document, mappings
from inference.sampling.sampler import ForwardedRequest
from inference.values import StreamEvent
from kernel.envelope import StageUsage

# Inside a text, a quote is escaped, so these match keys only. Everything else passes unparsed.
_WORTH_PARSING = re.compile(rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"')


_PIECE = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments)"\s*:\s*"(?!")')


@contextmanager
def carrying(samples: int, backend: str, learned: LearnedFeatures) -> Iterator[None]:
    """Refuse to stream more `samples` than one request carries, as is known or as the backend's refusal tells.

    Raises:
        InvalidCall: For `n`.
    """
    check_carried(samples, backend, learned.now.samples_per_call)
    try:
        yield
    except BackendRefused as refused:
        limit = samples_limit(refused.message) if samples > 1 else None
        if limit is not None:
            learned.learn(Features(samples_per_call=limit))
            check_carried(samples, backend, limit)
        raise


def check_carried(samples: int, backend: str, limit: int | None) -> None:
    """Raise `InvalidCall` for `n` if a stream of `samples` is over the `limit` of one request."""
    if limit is not None and samples > limit:
        said = f"backend {backend} draws {limit} in one stream, not {samples}; ask for fewer, or for no stream"
        raise InvalidCall("n", said)


class ForwardedStream:
    """An async context that is iterated for the events of a forwarded stream, as they came.

    The usage chunk that the client did not ask for is left out. Leaving the context early aborts the generation, and
    books what had been seen of it. The iteration ends with `InvalidCall` for `n` where the backend drew fewer samples
    than it was asked for and said nothing.

    Args:
        opened: The reply.
        meter: What it costs.
        wanted: What the request asks for.
        learned: What is known of the backend; learns how many samples it streams.
    """

    def __init__(
        self, opened: OpenStream, meter: StreamMeter, wanted: ForwardedRequest, learned: LearnedFeatures
    ) -> None:
        self._opened = opened
        self._meter = meter
        self._wanted = wanted
        self._learned = learned
        self._finished: set[object] = set()
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
        """Whether the envelope left each sample fewer tokens than the request allowed; known from the beginning.

        A request without a limit allows the backend's `default_max_tokens`, or half its context.
        """
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
            if event.data == event_parser.DONE:
                self._settle()
                yield StreamEvent(raw=event.raw, done=True)
                return
            if passed := self._passed(event):
                yield passed
        if len(self._finished) < self._wanted.samples:
            raise self._opened.broken("it ended before its samples did")
        self._settle()

    def _settle(self) -> None:
        """Take what came for the cost; raise if it is less than was asked for."""
        came = len(self._finished)
        short = 0 < came < self._wanted.samples
        if short:
            self._meter.tally.samples = came
        self._meter.settle()
        if short:
            self._learned.learn(Features(samples_per_call=came))
            check_carried(self._wanted.samples, self._learned.backend, came)

    def _passed(self, event: event_parser.Event) -> StreamEvent | None:
        """`event` as it is passed on, and counted; None if it is usage that nobody asked for."""
        if event.data is None:
            return StreamEvent(raw=event.raw)
        if _PIECE.search(event.data):
            self._meter.tally.piece()
        if not _WORTH_PARSING.search(event.data):
            return StreamEvent(raw=event.raw)
        chunk = document(event.data)
        usage_alone = self._meter.tally.usage_in(chunk)
        ended = [choice for choice in mappings(chunk.get("choices")) if choice.get("finish_reason") is not None]
        self._finished.update(count(choice.get("index")) or 0 for choice in ended)
        if usage_alone and not self._wanted.usage:
            return None
        return StreamEvent(raw=event.raw, document=chunk)
