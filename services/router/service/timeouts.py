"""This module waits with a time limit."""

import asyncio


async def wait_within(event: asyncio.Event, timeout_s: float) -> None:
    """Wait until `event` is set, for `timeout_s` at most [s]."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
