"""Server-sent events: values under their names, heartbeats between them, and a refusal as the last."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from fastapi.responses import Response, StreamingResponse

from chassis.log import logger
from chassis.rest import dumps, problem_body
from chassis.wire import event_name
from kernel.errors import Bug, MetacogError

T = TypeVar("T")

HEARTBEAT_S = 15.0

_log = logger(__name__)


def sse(name: str, data: object) -> bytes:
    """One server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def named_event(item: object) -> tuple[str, object]:
    """Name and content of an event value."""
    return event_name(item), item


async def event_stream(
    events: AsyncIterator[T],
    *,
    named: Callable[[T], tuple[str, object]] = named_event,
    heartbeat_s: float = HEARTBEAT_S,
) -> Response:
    """Stream events under the names that `named` gives them.

    A refusal before the first becomes a plain problem document, a later one a last event `error` with that document.
    """
    first = await anext(events, None)

    async def body() -> AsyncIterator[bytes]:
        try:
            if first is not None:
                yield sse(*named(first))
            async with aclosing(with_heartbeat(events, heartbeat_s)) as items:
                async for item in items:
                    yield b": still here\n\n" if item is None else sse(*named(item))
        except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the stream itself has to tell
            yield sse("error", problem_body(told(error)))

    return StreamingResponse(body(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def told(error: Exception) -> MetacogError:
    """`error` if it is a refusal; else a bug, which is logged here and told without its words."""
    if isinstance(error, MetacogError):
        return error
    _log.error("a bug reached the edge of a stream", exc_info=error)
    return Bug()


async def with_heartbeat(items: AsyncIterator[T], every_s: float) -> AsyncGenerator[T | None, None]:
    """The items, with None whenever `every_s` passed without one; closing it closes `items`."""
    pending: asyncio.Task[T] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({pending}, timeout=every_s)
            if not done:
                yield None
                continue
            finished, pending = pending, None
            try:
                yield finished.result()
            except StopAsyncIteration:
                return
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)
