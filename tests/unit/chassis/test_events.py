import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from chassis.errors import PeerUnavailable
from chassis.serving.events import Emit, stream_of


async def hear(events: AsyncIterator[str], heard: list[str]) -> None:
    async for event in events:
        heard.append(event)


async def all_of(events: AsyncIterator[str]) -> list[str]:
    heard: list[str] = []
    await hear(events, heard)
    return heard


async def test_events_come_in_the_order_in_which_they_were_emitted() -> None:
    async def work(emit: Emit[str]) -> None:
        for word in ("thesis", "antithesis"):
            emit(word)
            await asyncio.sleep(0)
        emit("synthesis")

    assert await all_of(stream_of(work)) == ["thesis", "antithesis", "synthesis"]


async def test_work_that_emits_nothing_is_an_empty_stream() -> None:
    async def work(_: Emit[str]) -> None:
        return

    assert await all_of(stream_of(work)) == []


async def test_an_event_is_there_before_the_work_is_done() -> None:
    go_on = asyncio.Event()

    async def work(emit: Emit[str]) -> None:
        emit("first")
        await go_on.wait()
        emit("second")

    events = stream_of(work)

    assert await anext(events) == "first"
    go_on.set()
    assert await all_of(events) == ["second"]


async def test_an_error_comes_after_everything_that_was_emitted() -> None:
    async def work(emit: Emit[str]) -> None:
        emit("first")
        emit("second")
        raise PeerUnavailable("assigner is down")

    heard: list[str] = []

    with pytest.raises(PeerUnavailable, match="assigner is down"):
        await hear(stream_of(work), heard)

    assert heard == ["first", "second"]


async def test_closing_the_stream_early_cancels_the_work() -> None:
    ended: list[str] = []

    async def work(emit: Emit[str]) -> None:
        emit("first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    events = stream_of(work)
    await anext(events)
    await cast("asyncio.Future[None]", events.aclose())

    assert ended == ["cancelled"]


async def test_work_does_not_begin_before_somebody_listens() -> None:
    begun: list[str] = []

    async def work(_: Emit[str]) -> None:
        begun.append("begun")

    events = stream_of(work)
    await asyncio.sleep(0)

    assert begun == []
    assert await all_of(events) == []
    assert begun == ["begun"]
