"""Items of a stream, taken as they come."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from chassis.serving.sse import FIRST_ALONE, READ_AHEAD, in_batches

LONG_S = 30.0


async def counted(upto: int, made: list[int] | None = None) -> AsyncIterator[int]:
    for number in range(upto):
        if made is not None:
            made.append(number)
        yield number


async def test_what_is_there_comes_together_and_in_order_once_the_first_have_gone_out() -> None:
    batches = [list(batch) async for batch in in_batches(counted(FIRST_ALONE + 5), LONG_S)]

    first, rest = batches[:FIRST_ALONE], batches[FIRST_ALONE:]
    assert first == [[number] for number in range(FIRST_ALONE)]
    assert rest == [list(range(FIRST_ALONE, FIRST_ALONE + 5))]


async def test_nothing_is_read_ahead_of_the_first_that_go_out() -> None:
    made: list[int] = []
    batches = in_batches(counted(100, made), LONG_S)

    await anext(batches)
    for _ in range(10):
        await asyncio.sleep(0)

    assert len(made) <= 2
    await batches.aclose()


async def test_what_is_there_is_not_held_back_for_what_is_to_come() -> None:
    gate = asyncio.Event()

    async def items() -> AsyncIterator[str]:
        yield "first"
        await gate.wait()
        yield "second"

    batches = in_batches(items(), LONG_S)
    first = await anext(batches)
    gate.set()

    assert (first, [batch async for batch in batches]) == (["first"], [["second"]])


async def test_silence_is_an_empty_batch_and_loses_nothing() -> None:
    gate = asyncio.Event()

    async def items() -> AsyncIterator[str]:
        await gate.wait()
        yield "late"

    batches = in_batches(items(), 0.01)
    silent = [await anext(batches), await anext(batches)]
    gate.set()

    assert silent == [[], []]
    assert [batch async for batch in batches if batch] == [["late"]]


async def test_a_failure_comes_after_what_arrived_before_it() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise ValueError("broken")

    batches = in_batches(items(), LONG_S)

    assert await anext(batches) == [1]
    with pytest.raises(ValueError, match="broken"):
        await anext(batches)


async def test_items_that_are_cancelled_from_within_leave_no_consumer_waiting() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    batches = in_batches(items(), LONG_S)

    assert await anext(batches) == [1]
    with pytest.raises(asyncio.CancelledError):
        await anext(batches)


async def test_nothing_at_all_is_no_batch() -> None:
    assert [batch async for batch in in_batches(counted(0), LONG_S)] == []


async def test_who_is_slow_is_waited_for() -> None:
    made: list[int] = []
    batches = in_batches(counted(10 * READ_AHEAD, made), LONG_S)

    first = await anext(batches)
    for _ in range(3 * READ_AHEAD):  # turns, in which as much is made as may be
        await asyncio.sleep(0)

    assert len(made) <= len(first) + READ_AHEAD + 1
    assert len(first) + sum([len(batch) async for batch in batches]) == 10 * READ_AHEAD


async def test_closing_ends_what_is_under_way() -> None:
    ended: list[str] = []
    waiting = asyncio.Event()

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            waiting.set()
            await asyncio.Event().wait()
        finally:
            ended.append("closed")

    batches = in_batches(items(), LONG_S)
    await anext(batches)
    await waiting.wait()
    await batches.aclose()

    assert ended == ["closed"]
