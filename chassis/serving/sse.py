"""Server-sent events: values under their names, heartbeats between them, and a refusal as the last."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypeVar

from fastapi.responses import Response, StreamingResponse

from chassis.json_text import dumps
from chassis.log import logger
from chassis.serving.rest import problem_body
from chassis.serving.wire import event_name
from kernel.errors import Bug, MetacogError

T = TypeVar("T")

HEARTBEAT, HEARTBEAT_S = b": still here\n\n", 15.0
# Items of a stream that are made before somebody takes them.
READ_AHEAD = 16
# Items at the beginning that go out one by one, so that the first word waits for no other.
FIRST_ALONE = 4

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
            async with aclosing(in_batches(events, heartbeat_s)) as batches:
                async for batch in batches:
                    yield b"".join(sse(*named(item)) for item in batch) or HEARTBEAT
        except Exception as error:  # noqa: BLE001 - the edge: the status is sent, so the stream itself has to tell
            yield sse("error", problem_body(told(error)))

    return StreamingResponse(body(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def told(error: Exception) -> MetacogError:
    """`error` if it is a refusal; else a bug, which is logged here and told without its words."""
    if isinstance(error, MetacogError):
        return error
    _log.error("a bug reached the edge of a stream", exc_info=error)
    return Bug()


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a stream, and what ended it before its time."""

    failure: BaseException | None


async def in_batches(items: AsyncIterator[T], every_s: float) -> AsyncGenerator[Sequence[T], None]:
    """The items, those together that have come by the time they are asked for; closing it closes `items`.

    They are read by a task of their own, at most `READ_AHEAD` ahead of whoever takes them.

    Args:
        items: What is to be streamed.
        every_s: Time after which an empty batch tells that nothing came [s, > 0].
    """
    come: asyncio.Queue[T | _Ended] = asyncio.Queue(READ_AHEAD)
    taken = asyncio.Event()
    reading = asyncio.create_task(_read(items, come, taken))
    try:
        while True:
            batch, end = await _taken(come, taken, every_s)
            if batch or end is None:
                yield batch
            if end is not None:
                if end.failure is not None:
                    raise end.failure
                return
    finally:
        reading.cancel()
        await asyncio.wait({reading})
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _read(items: AsyncIterator[T], come: asyncio.Queue[T | _Ended], taken: asyncio.Event) -> None:
    failure: BaseException | None = None
    alone = FIRST_ALONE
    try:
        async for item in items:
            taken.clear()
            await come.put(item)
            if alone:  # whoever takes it has sent the one before
                alone -= 1
                await taken.wait()
    except asyncio.CancelledError as error:
        with suppress(asyncio.QueueFull):  # whoever still waits was not the one who cancelled
            come.put_nowait(_Ended(error))
        raise
    except Exception as error:  # noqa: BLE001 - raised where the items are taken
        failure = error
    await come.put(_Ended(failure))


async def _taken(
    come: asyncio.Queue[T | _Ended], taken: asyncio.Event, every_s: float
) -> tuple[list[T], _Ended | None]:
    """What has come, after waiting for it, and the end if it is there."""
    batch: list[T] = []
    try:
        async with asyncio.timeout(every_s if come.empty() else None):
            item = await come.get()
    except TimeoutError:
        return batch, None
    taken.set()
    while not isinstance(item, _Ended):
        batch.append(item)
        if come.empty():
            return batch, None
        item = come.get_nowait()
    return batch, item
