"""Each API key gets its share, and work that many ask for is done once."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from chassis.admission import CALLER_KEY, ByteLimit, CallerShares
from chassis.shared_results import SharedResults
from kernel.errors import Code, Overloaded


@pytest.fixture(autouse=True)
def ann() -> Iterator[None]:
    """The caller is `ann` unless a test says otherwise."""
    token = CALLER_KEY.set("ann")
    yield
    CALLER_KEY.reset(token)


async def hold(shares: CallerShares, held: list[str], until: asyncio.Event, key: str) -> None:
    CALLER_KEY.set(key)
    async with shares.place():
        held.append(key)
        await until.wait()


async def test_a_caller_over_its_share_waits_and_then_is_rejected_with_a_time_to_retry() -> None:
    shares, held, go_on = CallerShares("database calls", places=2, waiting=1), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(hold(shares, held, go_on, "ann"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="3 database calls of this API key are in flight") as raised:
            async with shares.place():
                pass
        assert held == ["ann", "ann"]
        go_on.set()

    assert (raised.value.code, raised.value.metadata["retry_after_s"]) == (Code.RESOURCE_EXHAUSTED, "1")
    assert held == ["ann"] * 3


async def test_another_caller_does_not_wait_for_the_first() -> None:
    shares, held, go_on = CallerShares("database calls", places=1, waiting=0), list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(hold(shares, held, go_on, "ann"))
        await asyncio.sleep(0)
        group.create_task(hold(shares, held, go_on, "ben"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert held == ["ann", "ben"]
        go_on.set()


async def test_a_share_is_free_again_however_the_call_ended() -> None:
    shares = CallerShares("database calls", places=1, waiting=0)
    with pytest.raises(ValueError, match="broken"):
        async with shares.place():
            raise ValueError("broken")

    async with shares.place():
        pass


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_those_who_ask_at_the_same_time_share_one_computation() -> None:
    results: SharedResults[str, int] = SharedResults()
    computed, go_on = list[str](), asyncio.Event()

    async def compute() -> int:
        computed.append("once")
        await go_on.wait()
        return 7

    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(results.get("key", compute)) for _ in range(5)]
        leaving = group.create_task(results.get("key", compute))
        await asyncio.sleep(0)
        leaving.cancel()  # the others still get theirs
        await asyncio.sleep(0)
        go_on.set()

    assert ([task.result() for task in asked], computed) == ([7] * 5, ["once"])


async def test_a_result_is_kept_for_ten_times_as_long_as_it_took() -> None:
    clock = Clock()
    results: SharedResults[str, int] = SharedResults(clock=clock)
    computed = iter((1, 2))

    async def compute() -> int:
        clock.now += 2.0
        return next(computed)

    first = await results.get("key", compute)
    clock.now = 21.9
    kept = await results.get("key", compute)
    clock.now = 22.0
    again = await results.get("key", compute)

    assert (first, kept, again) == (1, 1, 2)


async def test_an_error_is_not_kept() -> None:
    results: SharedResults[str, int] = SharedResults()

    async def fail() -> int:
        raise ValueError("broken")

    async def compute() -> int:
        return 7

    with pytest.raises(ValueError, match="broken"):
        await results.get("key", fail)
    assert await results.get("key", compute) == 7


async def ask(
    results: SharedResults[str, str], caller: str, key: str, computed: list[str], until: asyncio.Event
) -> str:
    """Ask for a result as a caller; what is computed is noted."""
    CALLER_KEY.set(caller)

    async def compute() -> str:
        computed.append(f"{caller} {key}")
        await until.wait()
        return key

    return await results.get(key, compute)


async def settled() -> None:
    """Let every task run as far as it gets."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_caller_has_so_many_results_computed_at_a_time_and_others_have_theirs() -> None:
    results: SharedResults[str, str] = SharedResults(CallerShares("figures", places=1, waiting=1))
    computed, go_on = list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        first, second = [group.create_task(ask(results, "ann", key, computed, go_on)) for key in ("one", "two")]
        await settled()
        with pytest.raises(Overloaded):
            await ask(results, "ann", "three", computed, go_on)
        other = group.create_task(ask(results, "ben", "three", computed, go_on))
        await settled()
        assert computed == ["ann one", "ben three"]
        go_on.set()

    assert (first.result(), second.result(), other.result()) == ("one", "two", "three")


async def test_those_who_wait_for_a_result_whose_caller_is_rejected_share_one_of_their_own() -> None:
    results: SharedResults[str, str] = SharedResults(CallerShares("figures", places=1, waiting=0))
    computed, go_on = list[str](), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(results, "ann", "one", computed, go_on))
        await settled()
        rejected = [asyncio.create_task(ask(results, "ann", "two", computed, go_on)) for _ in range(2)]
        joining = [group.create_task(ask(results, "ben", "two", computed, go_on)) for _ in range(3)]
        await settled()
        go_on.set()

    assert all(isinstance(task.exception(), Overloaded) for task in rejected)
    assert ([task.result() for task in joining], computed) == (["two"] * 3, ["ann one", "ben two"])


MIB = 2**20


def test_large_bodies_leave_room_for_small_ones_and_those_of_one_key_for_other_keys() -> None:
    limit = ByteLimit("request bodies", 192 * MIB)
    with ExitStack() as held:

        def take(key: str, mebibytes: int) -> None:
            token = CALLER_KEY.set(key)
            try:
                held.enter_context(limit.share()).hold(mebibytes * MIB)
            finally:
                CALLER_KEY.reset(token)

        for _ in range(3):
            take("ann", 32)
        with pytest.raises(Overloaded, match="of this API key in progress hold 100663296 bytes, of 100663296"):
            take("ann", 32)
        take("ben", 32)  # 128 MiB are all that large ones may hold
        with pytest.raises(Overloaded, match="large request bodies in progress hold"):
            take("cid", 32)
        for _ in range(64):
            take("ann", 1)
        with pytest.raises(Overloaded, match="request bodies in progress hold 201326592 bytes"):
            take("cid", 1)
    assert limit.held == 0
    with limit.share() as share:
        share.hold(96 * MIB)  # nothing is left of what was given back
        share.hold(100 * MIB)  # and one alone may have more


def test_a_body_that_becomes_large_while_it_comes_counts_as_large() -> None:
    limit = ByteLimit("request bodies", 12 * MIB)
    with limit.share() as first, limit.share() as second:
        first.hold(1 * MIB)
        first.hold(5 * MIB)
        second.hold(1 * MIB)
        with pytest.raises(Overloaded, match="of this API key"):
            second.hold(3 * MIB)
        second.hold(2 * MIB)
