"""Who goes away stops the generation: the backend sees the connection close, and what was seen is booked."""

import asyncio
from dataclasses import replace
from urllib.request import urlopen

import pytest

from inference.accounting.reports import CANCELLED
from inference.features import Features
from tests.integration.inference.support import MakeBackend, Noted, Served, call_of, spend_of
from tests.support.models.scripted_llm import ScriptedLLM, Stall

LONG = call_of(
    max_tokens=1800,
    messages=[{"role": "user", "content": "Count from one to nine hundred."}],
    extra={"ignore_eos": True},
)
FORWARDED = {"messages": LONG.messages, "max_tokens": 1800, "n": 2}


async def metric(url: str, name: str) -> int:
    """What a real llama.cpp counts."""
    lines = (await asyncio.to_thread(lambda: urlopen(f"{url}/metrics").read().decode())).splitlines()
    (line,) = [line for line in lines if line.startswith(f"llamacpp:{name} ")]
    return int(float(line.split()[1]))


async def until_busy(url: str, *, busy: bool) -> None:
    # llama.cpp looks whether a client is still there only when no reply, of anybody, was ready for a whole second:
    # call_of it more often would keep it from looking.
    while (await metric(url, "requests_processing") > 0) != busy:  # noqa: ASYNC110 - in another process
        await asyncio.sleep(1.2)


async def tokens_generated(url: str) -> int:
    return await metric(url, "tokens_predicted_total")


@pytest.mark.parametrize("samples", [1, 4])
async def test_cancelling_a_call_stops_a_real_model(llm_url: str, backend_of: MakeBackend, samples: int) -> None:
    before = await tokens_generated(llm_url)
    call = replace(LONG, samples=samples, temperature=1.0)
    spend = spend_of()
    task = asyncio.create_task(backend_of(Served(llm_url, "smollm2")).complete(call, spend))
    await until_busy(llm_url, busy=True)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await until_busy(llm_url, busy=False)
    assert await tokens_generated(llm_url) - before < 1800
    assert spend.ledger.usage().unknown_generations == samples


async def test_leaving_a_stream_stops_a_real_model(llm_url: str, backend_of: MakeBackend) -> None:
    spend = spend_of()

    async with await backend_of(Served(llm_url, "smollm2")).stream(LONG, spend) as stream:
        seen = [await anext(aiter(stream)) for _ in range(5)]

    await until_busy(llm_url, busy=False)
    assert 5 <= spend.ledger.usage().completion_tokens < 1800
    assert spend.ledger.usage().estimated
    assert len(seen) == 5


async def test_cancelling_a_call_closes_its_connection(llm: ScriptedLLM, backend_of: MakeBackend, noted: Noted) -> None:
    llm.fault(Stall())
    spend = spend_of()
    task = asyncio.create_task(backend_of(llm).complete(call_of(), spend))
    await llm.until(lambda it: len(it.requests) == 1)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await llm.until(lambda it: it.disconnects == 1)
    assert spend.ledger.usage().unknown_tokens == 8
    assert noted.ends[0].outcome == CANCELLED


async def test_cancelling_one_of_many_requests_cancels_them_all(llamacpp: ScriptedLLM, backend_of: MakeBackend) -> None:
    llamacpp.fault(Stall(), Stall(), Stall())
    backend = backend_of(llamacpp, features=Features(samples_per_call=4))
    spend = spend_of()
    task = asyncio.create_task(backend.complete(call_of(samples=12, temperature=1.0), spend))
    await llamacpp.until(lambda it: len(it.requests) == 3)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await llamacpp.until(lambda it: it.disconnects == 3)
    assert spend.ledger.usage().unknown_generations == 12


async def test_a_forwarded_stream_that_is_left_is_booked_as_far_as_it_arrived(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    llm.reply("word " * 500, "word " * 500)
    llm.token_delay_s = 0.001
    spend = spend_of()

    async with await backend_of(llm).forward_stream(FORWARDED, spend, "system1") as stream:
        async for _ in stream:
            if stream.usage.completion_tokens == 20:
                break

    await llm.until(lambda it: it.disconnects == 1)
    assert spend.ledger.usage().completion_tokens == 20
    assert spend.ledger.usage().unknown_tokens == 0
    assert spend.ledger.tokens_left == 10_000 - 20


async def test_a_stream_that_is_left_before_its_first_token_counts_in_full(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    spend = spend_of()

    async with await backend_of(llm).stream(call_of(), spend):
        pass

    assert spend.ledger.usage().unknown_tokens == 8
    assert spend.ledger.tokens_left == 10_000 - 8


async def test_a_stream_read_to_its_end_gives_its_connection_back(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm)
    for _ in range(2):
        async with await backend.forward_stream({**FORWARDED, "n": 1}, spend_of(), "system1") as stream:
            assert [event async for event in stream][-1].done

    assert len({received.port for received in llm.requests}) == 1
