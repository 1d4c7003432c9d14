"""This module streams events from work that runs in a task of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

E = TypeVar("E")
Emit = Callable[[E], None]


async def stream_of(produce: Callable[[Emit[E]], Awaitable[None]]) -> AsyncGenerator[E, None]:
    """Return the events that `produce` emits; its error comes last.

    Closing the iterator early cancels the work.
    """
    queue: asyncio.Queue[E | None] = asyncio.Queue()

    async def work() -> None:
        try:
            await produce(queue.put_nowait)
        finally:
            queue.put_nowait(None)

    task = asyncio.create_task(work())
    try:
        while (item := await queue.get()) is not None:
            yield item
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
