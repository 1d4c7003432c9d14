"""A backend that fails is left alone, and one kind of work leaves room for the others."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from chassis.admission import CALLER_KEY
from inference.backend_client import Backend
from inference.config import CircuitSettings, PoolSize
from inference.errors import BackendOverloaded, BackendUnavailable, CircuitOpen, DeadlineExceeded
from inference.values import WorkKind
from tests.integration.inference.support import MakeBackend, Patience, call_of, spend_of
from tests.support.hostile.raw_server import MODELS, RawServer, completion, http
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall, Trickle

AWAY = CircuitSettings(failures=2, cool_down_s=5.0)


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with RawServer() as listening:
        yield listening


async def is_left_alone(backend: Backend) -> bool:
    try:
        await backend.complete(call_of(work=WorkKind.ASSESS), spend_of())
    except CircuitOpen:
        return True
    except BackendUnavailable:
        return False
    return False


async def until_left_alone(backend: Backend) -> None:
    """Send requests until the circuit is open; the probe that opens it runs beside them."""
    while not await is_left_alone(backend):
        pass


def is_away(llm: ScriptedLLM) -> None:
    """Have the server fail at every request."""
    llm.ready = False
    llm.fault(*[ErrorReply(500, "broken")] * 10_000)


def is_back(llm: ScriptedLLM) -> None:
    """Have the server answer again."""
    llm.ready = True
    llm.forget_faults()


async def test_after_too_many_failures_a_server_that_is_away_is_left_alone_until_a_probe_succeeds(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    patience = Patience()
    backend = backend_of(llm, timing=patience.timing, circuit=AWAY)
    is_away(llm)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="broken"):
            await backend.complete(call_of(), spend_of())
    await until_left_alone(backend)
    received = len(llm.requests)

    with pytest.raises(
        CircuitOpen, match=r"does not answer a probe: status 503; it is tried again in 5\.0 s"
    ) as raised:
        await backend.complete(call_of(), spend_of())
    assert raised.value.retry_after_s == 5.0

    patience.now += 5.0
    with pytest.raises(CircuitOpen, match=r"it is tried again in 5\.0 s"):  # the probe failed again
        await backend.complete(call_of(), spend_of())
    assert len(llm.requests) == received

    is_back(llm)
    patience.now += 5.0
    await backend.complete(call_of(), spend_of())
    assert len(llm.requests) == received + 1


async def test_after_the_pause_all_wait_for_one_probe_and_a_caller_who_goes_away_leaves_it_to_the_others(
    server: RawServer, backend_of: MakeBackend
) -> None:
    patience = Patience()
    backend = backend_of(server, timing=patience.timing, circuit=replace(AWAY, cool_down_s=3.0))
    broken = http(b"", status="500 Broken")
    server.lists, server.replies = broken, [broken]
    await until_left_alone(backend)
    patience.now += 3.0
    server.lists = None  # the probe is under way until the server hangs up
    asked, listings = len(server.requests), len(server.listings)

    callers = [asyncio.create_task(backend.complete(call_of(), spend_of())) for _ in range(3)]
    await server.until(lambda it: len(it.listings) == listings + 1)
    callers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    server.replies = [http(completion("well"))]
    server.answer_listings(http(MODELS))

    assert [each.samples[0].text for each in [await callers[1], await callers[2]]] == ["well"] * 2
    assert (len(server.requests), len(server.listings)) == (asked + 2, listings + 1)


@pytest.mark.parametrize("way", ["complete", "stream"])
async def test_a_server_that_never_answers_is_left_alone(llm: ScriptedLLM, backend_of: MakeBackend, way: str) -> None:
    backend = backend_of(llm, circuit=AWAY)
    llm.ready = False
    llm.fault(Stall(), Stall())
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            await getattr(backend, way)(call_of(), spend_of(timeout_ms=200))

    await until_left_alone(backend)


@pytest.mark.parametrize(
    ("way", "begins_with"),
    [("complete", b""), ("stream", b""), ("stream", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")],
    ids=["complete", "stream", "stream-head"],
)
async def test_a_server_that_lists_its_models_and_answers_no_ones_requests_is_left_alone(
    server: RawServer, backend_of: MakeBackend, way: str, begins_with: bytes
) -> None:
    patience = Patience()

    def hang() -> Iterator[bytes]:
        patience.now += 30.0
        yield begins_with

    server.replies = [hang]
    backend = backend_of(server, timing=patience.timing, circuit=replace(AWAY, window_s=3600.0))

    async def ends_of(key: str) -> set[type[Exception]]:
        CALLER_KEY.set(key)
        ends: set[type[Exception]] = set()
        for _ in range(8):
            try:
                await getattr(backend, way)(call_of(), spend_of(timeout_ms=200))
            except (DeadlineExceeded, CircuitOpen) as end:
                ends.add(type(end))
        return ends

    assert await asyncio.create_task(ends_of("ann")) == {DeadlineExceeded}
    assert await asyncio.create_task(ends_of("bob")) == {DeadlineExceeded, CircuitOpen}


async def test_deadlines_show_nothing_about_a_server_that_answers_a_probe(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llm, circuit=replace(AWAY, failures=1))
    await backend.probe()
    listings = llm.listings
    llm.fault(Stall())
    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend_of(timeout_ms=100))
    await llm.until(lambda it: it.listings == listings + 1)

    assert not await is_left_alone(backend)


async def test_a_caller_who_disconnects_shows_nothing_about_the_backend(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llm, circuit=replace(AWAY, failures=1))
    llm.fault(Stall())
    held = asyncio.create_task(backend.complete(call_of(), spend_of()))
    await llm.until(lambda it: len(it.requests) == 1)

    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held

    assert not await is_left_alone(backend)


async def test_a_backend_that_shows_life_is_not_left_alone(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm, circuit=replace(AWAY, failures=1))
    llm.fault(Trickle())
    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend_of(timeout_ms=200))

    assert not await is_left_alone(backend)


async def test_a_deadline_that_ends_the_wait_for_a_slot_shows_nothing_about_the_backend(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    pools = {WorkKind.STAGE: PoolSize(in_flight=1, queue=9)}
    backend = backend_of(llm, pools=pools, circuit=replace(AWAY, failures=1))
    llm.fault(Stall())
    held = asyncio.create_task(backend.complete(call_of(), spend_of()))
    await llm.until(lambda it: len(it.requests) == 1)
    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend_of(timeout_ms=200))

    assert not await is_left_alone(backend)
    held.cancel()


async def test_stages_that_fill_their_pool_leave_system_one_its_own(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    pools = {WorkKind.STAGE: PoolSize(in_flight=2, queue=1)}
    backend = backend_of(llm, pools=pools)
    llm.fault(Stall(), Stall())
    held = [asyncio.create_task(backend.complete(call_of(), spend_of())) for _ in range(2)]
    await llm.until(lambda it: len(it.requests) == 2)
    waiting = asyncio.create_task(backend.complete(call_of(), spend_of()))
    await asyncio.sleep(0)
    spend = spend_of()

    with pytest.raises(BackendOverloaded, match="2 requests of this kind are under way and 1 wait"):
        await backend.complete(call_of(), spend)
    answered = await backend.complete(call_of(work=WorkKind.SYSTEM_ONE), spend)

    assert answered.samples
    held[0].cancel()
    assert (await waiting).samples
    held[1].cancel()


async def test_waiting_for_a_place_ends_with_the_deadline_and_costs_nothing(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llm, pools={WorkKind.STAGE: PoolSize(in_flight=1, queue=9)})
    llm.fault(Stall())
    held = asyncio.create_task(backend.complete(call_of(), spend_of()))
    await llm.until(lambda it: len(it.requests) == 1)
    spend = spend_of(timeout_ms=50)

    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend)

    held.cancel()
    assert spend.ledger.tokens_left == 10_000
    assert spend.ledger.usage().http_calls == 0
