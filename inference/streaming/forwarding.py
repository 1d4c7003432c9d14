"""This module forwards a stream of a chat completion as the caller wrote it, for the gateway's System 1.

Where a backend draws fewer samples in one request than the caller wants, several requests draw them (`merging`). A
stream cannot be merged so: more samples than one request draws are rejected.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from inference.accounting.stream_cost import StreamMeter
from inference.errors import InvalidCall, RequestRejected
from inference.features import Features, LearnedFeatures, samples_limit
from inference.http import event_parser
from inference.http.open_stream import OpenStream
from inference.json_fields import count_of, objects_of, parse_object
from inference.values import StreamEvent
from kernel.envelope import StageUsage

# Inside a text, a quote is escaped, so these match keys only. Everything else is forwarded unparsed.
_TO_PARSE = re.compile(rb'"usage"\s*:\s*\{|"finish_reason"\s*:\s*"')


_PIECE = re.compile(rb'"(?:content|reasoning_content|reasoning|arguments|text)"\s*:\s*"(?!")')


@contextmanager
def check_stream_samples(samples: int, backend: str, learned: LearnedFeatures) -> Iterator[None]:
    """Raise `InvalidCall` for more `samples` than one request draws, as is known or as the backend's error states.

    Raises:
        InvalidCall: For `n`.
    """
    check_samples(samples, backend, learned.now.samples_per_call)
    try:
        yield
    except RequestRejected as rejected:
        limit = samples_limit(rejected.message) if samples > 1 else None
        if limit is not None:
            learned.learn(Features(samples_per_call=limit))
            check_samples(samples, backend, limit)
        raise


def check_samples(samples: int, backend: str, limit: int | None) -> None:
    """Raise `InvalidCall` for `n` if a stream of `samples` is over the `limit` of one request."""
    if limit is not None and samples > limit:
        message = f"backend {backend} draws {limit} in one stream, not {samples}; ask for fewer, or for no stream"
        raise InvalidCall("n", message)


class StreamedRequest(Protocol):
    """A streamed request asks for samples, and for their usage or not."""

    @property
    def samples(self) -> int:
        """Return how many samples it asks for [count, >= 1]."""

    @property
    def usage(self) -> bool:
        """Return whether it asks for the usage of the stream."""


class ForwardedStream:
    """A forwarded stream is an async context that is iterated for the events of a reply, as received.

    A usage chunk that the client did not request is left out. Leaving the context early aborts the generation, and
    books what had been seen of it. The iteration ends with `InvalidCall` for `n` where the backend drew fewer samples
    than requested and reported no error.

    Args:
        stream: The reply.
        meter: What it costs.
        requested: What the request asks for.
        learned: What is known of the backend; learns how many samples it streams.
    """

    def __init__(
        self, stream: OpenStream, meter: StreamMeter, requested: StreamedRequest, learned: LearnedFeatures
    ) -> None:
        self._stream = stream
        self._meter = meter
        self._wanted = requested
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
        """Return what the stream has cost so far; final with the event that is `done`."""
        return self._meter.usage

    @property
    def cut(self) -> bool:
        """Return whether the envelope left each sample fewer tokens than the request allowed; known from the beginning.

        A request without a limit allows the backend's `default_max_tokens`, or half its context.
        """
        return self._meter.account.cut

    async def aclose(self, error: BaseException | None = None) -> None:
        """Release the connection; if the stream has not ended, abort it. `error` is the reason, for the observer."""
        try:
            await self._events.aclose()
            await self._stream.aclose()
        finally:
            self._meter.close(error)

    async def _read(self) -> AsyncGenerator[StreamEvent, None]:
        async for event in self._stream.events():
            if event.data == event_parser.DONE:
                self._settle()
                yield StreamEvent(raw=event.raw, done=True)
                return
            if forwarded := self._forwarded(event):
                yield forwarded
        if len(self._finished) < self._wanted.samples:
            raise self._stream.interrupted("it ended before its samples did")
        self._settle()

    def _settle(self) -> None:
        """Take what was received as the cost; raise if it is less than requested."""
        received = len(self._finished)
        short = 0 < received < self._wanted.samples
        if short:
            self._meter.tally.samples = received
        self._meter.settle()
        if short:
            self._learned.learn(Features(samples_per_call=received))
            check_samples(self._wanted.samples, self._learned.backend, received)

    def _forwarded(self, event: event_parser.ServerSentEvent) -> StreamEvent | None:
        """Return `event` as it is forwarded, and count it; None if it is usage that was not requested."""
        if event.data is None:
            return StreamEvent(raw=event.raw)
        if _PIECE.search(event.data):
            self._meter.tally.count_piece()
        if not _TO_PARSE.search(event.data):
            return StreamEvent(raw=event.raw)
        chunk = parse_object(event.data)
        usage_alone = self._meter.tally.add_usage(chunk)
        ended = [choice for choice in objects_of(chunk.get("choices")) if choice.get("finish_reason") is not None]
        self._finished.update(count_of(choice.get("index")) or 0 for choice in ended)
        if usage_alone and not self._wanted.usage:
            return None
        return StreamEvent(raw=event.raw, document=chunk)
