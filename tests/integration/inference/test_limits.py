"""A backend that fails is left alone, and one kind of work leaves room for the others."""

import asyncio

import pytest

from inference.backend_client import Backend
from inference.config import BreakerSettings, PoolSize
from inference.errors import BackendOverloaded, BackendUnavailable, CircuitOpen, DeadlineExceeded
from inference.values import WorkKind
from tests.integration.inference.support import MakeBackend, Patience, call_of, spend_of
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall, Trickle


async def test_after_too_many_failures_the_backend_is_left_alone_for_a_while(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    patience = Patience()
    breaker = BreakerSettings(failures=2, cool_down_s=5.0)
    backend = backend_of(llm, timing=patience.timing, breaker=breaker)
    llm.fault(ErrorReply(500, "broken"), ErrorReply(500, "broken"))
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await backend.complete(call_of(), spend_of())

    with pytest.raises(CircuitOpen, match=r"failed 2 times in a row; it is tried again in 5\.0 s"):
        await backend.complete(call_of(), spend_of())
    assert len(llm.requests) == 2

    patience.now += 5.0
    await backend.complete(call_of(), spend_of())
    await backend.complete(call_of(), spend_of())
    assert len(llm.requests) == 4


async def test_a_trial_that_fails_keeps_the_circuit_open(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    patience = Patience()
    backend = backend_of(llm, timing=patience.timing, breaker=BreakerSettings(failures=1, cool_down_s=5.0))
    llm.fault(ErrorReply(500, "broken"), ErrorReply(500, "still broken"))
    with pytest.raises(BackendUnavailable):
        await backend.complete(call_of(), spend_of())
    patience.now += 5.0
    with pytest.raises(BackendUnavailable, match="still broken"):
        await backend.complete(call_of(), spend_of())

    with pytest.raises(CircuitOpen):
        await backend.complete(call_of(), spend_of())


async def is_left_alone(backend: Backend) -> bool:
    try:
        await backend.complete(call_of(work=WorkKind.ASSESS), spend_of())
    except CircuitOpen:
        return True
    return False


@pytest.mark.parametrize("way", ["complete", "stream"])
async def test_a_backend_that_never_answers_is_left_alone(llm: ScriptedLLM, backend_of: MakeBackend, way: str) -> None:
    backend = backend_of(llm, breaker=BreakerSettings(failures=2, hang_s=0.1))
    llm.fault(Stall(), Stall())
    for _ in range(2):
        with pytest.raises(DeadlineExceeded):
            await getattr(backend, way)(call_of(), spend_of(timeout_ms=200))

    assert await is_left_alone(backend)


async def test_a_short_deadline_shows_nothing_about_the_backend(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm, breaker=BreakerSettings(failures=1, hang_s=10.0))
    llm.fault(Stall())
    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend_of(timeout_ms=100))

    assert not await is_left_alone(backend)


async def test_a_caller_who_disconnects_shows_nothing_about_the_backend(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    backend = backend_of(llm, breaker=BreakerSettings(failures=1, hang_s=0.0))
    llm.fault(Stall())
    held = asyncio.create_task(backend.complete(call_of(), spend_of()))
    await llm.until(lambda it: len(it.requests) == 1)

    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held

    assert not await is_left_alone(backend)


async def test_a_backend_that_shows_life_is_not_left_alone(llm: ScriptedLLM, backend_of: MakeBackend) -> None:
    backend = backend_of(llm, breaker=BreakerSettings(failures=1, hang_s=0.1))
    llm.fault(Trickle())
    with pytest.raises(DeadlineExceeded):
        await backend.complete(call_of(), spend_of(timeout_ms=200))

    assert not await is_left_alone(backend)


async def test_a_deadline_that_ends_the_wait_for_a_slot_shows_nothing_about_the_backend(
    llm: ScriptedLLM, backend_of: MakeBackend
) -> None:
    pools = {WorkKind.STAGE: PoolSize(in_flight=1, queue=9)}
    backend = backend_of(llm, pools=pools, breaker=BreakerSettings(failures=1, hang_s=0.05))
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
