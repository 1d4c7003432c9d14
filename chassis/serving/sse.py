"""This module streams server-sent events: named values, heartbeats between them, and an error as the last."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypeVar

from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from chassis.json_text import dumps
from chassis.serving.named_errors import named_error
from chassis.serving.rest import problem_body
from chassis.serving.wire import event_name

T = TypeVar("T")

HEARTBEAT, HEARTBEAT_S = b": still here\n\n", 15.0
# Items of a stream that are read ahead of the client.
READ_AHEAD = 16
# Items at the beginning that go out one by one, so that the first word waits for no other.
FIRST_ALONE = 4

# Streams that are being closed; the event loop alone would not keep these tasks.
_closings: "set[asyncio.Task[None]]" = set()


def sse(name: str, data: object) -> bytes:
    """Return one server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def named_event(item: object) -> tuple[str, object]:
    """Return the name and content of an event value."""
    return event_name(item), item


class ClosingStream(StreamingResponse):
    """This response closes what it streams as soon as it ends, also where its client left before the first byte.

    A stream that is left to the garbage collector goes on meanwhile: its model generates, and its run is not recorded.

    Args:
        body: What is streamed.
        close_source: Closes what the body reads from, should the body never have begun.
        headers: Further headers.
        media_type: What the body is.
    """

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        close_source: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
        media_type: str = "text/event-stream",
    ) -> None:
        super().__init__(body, media_type=media_type, headers=headers)
        self._body = body
        self._close_source = close_source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._body.aclose()
            await self._close_source()


async def event_stream(
    events: AsyncIterator[T],
    *,
    named: Callable[[T], tuple[str, object]] = named_event,
    heartbeat_s: float = HEARTBEAT_S,
) -> Response:
    """Stream events under the names that `named` gives them.

    An error before the first becomes a problem document, a later one a last event `error` with that document.
    """
    first = await anext(events, None)
    has_begun = False

    async def body() -> AsyncGenerator[bytes, None]:
        nonlocal has_begun
        try:
            if first is not None:
                yield sse(*named(first))
            has_begun = True
            async with aclosing(in_batches(events, heartbeat_s)) as batches:
                async for batch in batches:
                    yield b"".join(sse(*named(item)) for item in batch) or HEARTBEAT
        except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the stream itself reports it
            yield sse("error", problem_body(named_error(error)))

    async def close_unread() -> None:
        if not has_begun:
            await close(events)

    return ClosingStream(body(), close_unread, headers={"cache-control": "no-store"})


async def close(stream: object) -> None:
    """Close a stream that can be closed."""
    aclose = getattr(stream, "aclose", None)
    if aclose is not None:
        await aclose()


@dataclass(frozen=True, slots=True)
class _Ended:
    """This item marks the end of a stream, and holds the failure that ended it early."""

    failure: BaseException | None


async def in_batches(items: AsyncIterator[T], every_s: float) -> AsyncGenerator[Sequence[T], None]:
    """Return the items in batches of those that are there when the next is requested; closing it closes `items`.

    A task of its own reads them, at most `READ_AHEAD` ahead of the consumer.

    Args:
        items: The items to stream.
        every_s: Time without an item after which an empty batch is returned [s, > 0].
    """
    queue: asyncio.Queue[T | _Ended] = asyncio.Queue(READ_AHEAD)
    taken = asyncio.Event()
    reading = asyncio.create_task(_read(items, queue, taken))
    try:
        while True:
            batch, end = await _next_batch(queue, taken, every_s)
            if batch or end is None:
                yield batch
            if end is not None:
                if end.failure is not None:
                    raise end.failure
                return
    finally:
        reading.cancel()
        closing = asyncio.create_task(_close(items, reading))
        _closings.add(closing)
        closing.add_done_callback(_closings.discard)
        await asyncio.shield(closing)  # the server cancels again and again while a client is gone


async def _close(items: AsyncIterator[T], reading: "asyncio.Task[None]") -> None:
    await asyncio.wait({reading})
    await close(items)


async def _read(items: AsyncIterator[T], queue: asyncio.Queue[T | _Ended], taken: asyncio.Event) -> None:
    failure: BaseException | None = None
    alone = FIRST_ALONE
    try:
        async for item in items:
            taken.clear()
            await queue.put(item)
            if alone:  # the consumer has sent the one before
                alone -= 1
                await taken.wait()
    except asyncio.CancelledError as error:
        with suppress(asyncio.QueueFull):  # a consumer that still waits did not cancel
            queue.put_nowait(_Ended(error))
        raise
    except Exception as error:  # noqa: BLE001 - raised where the items are taken
        failure = error
    await queue.put(_Ended(failure))


async def _next_batch(
    queue: asyncio.Queue[T | _Ended], taken: asyncio.Event, every_s: float
) -> tuple[list[T], _Ended | None]:
    """Return the items that are there, after waiting for one, and the end if it is there."""
    batch: list[T] = []
    try:
        async with asyncio.timeout(every_s if queue.empty() else None):
            item = await queue.get()
    except TimeoutError:
        return batch, None
    taken.set()
    while not isinstance(item, _Ended):
        batch.append(item)
        if queue.empty():
            return batch, None
        item = queue.get_nowait()
    return batch, item
