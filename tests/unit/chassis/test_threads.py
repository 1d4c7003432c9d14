"""API keys take turns in the threads for one kind of work."""

import asyncio
import threading

import pytest

from chassis.admission import CALLER_KEY
from chassis.shared_results import FairThreads
from kernel.errors import Overloaded

WITHIN_S = 30.0


class Gate:
    """Work that is under way until it is opened; lists what ran, in order."""

    def __init__(self) -> None:
        self.began, self.opened = threading.Semaphore(0), threading.Event()
        self.ran: list[str] = []

    def wait(self, name: str) -> str:
        """Begin, and wait until the gate is opened."""
        self.ran.append(name)
        self.began.release()
        assert self.opened.wait(WITHIN_S)
        return name

    async def has_begun(self) -> None:
        """Return once one more has begun."""
        assert await asyncio.to_thread(self.began.acquire, timeout=WITHIN_S)


def started(threads: FairThreads, gate: Gate, key: str, name: str) -> "asyncio.Task[str]":
    async def run() -> str:
        CALLER_KEY.set(key)
        return await threads.run(gate.wait, name)

    return asyncio.create_task(run())


async def ended(*tasks: "asyncio.Task[str]") -> list[str]:
    """Wait for tasks; return their results in their order."""
    await asyncio.wait(tasks, timeout=WITHIN_S)
    return [task.result() for task in tasks]


async def test_a_key_with_many_calls_leaves_a_thread_to_the_next_key() -> None:
    threads, greedy, modest = FairThreads("tests", threads=2), Gate(), Gate()
    many = [started(threads, greedy, "greedy", str(number)) for number in range(8)]
    await greedy.has_begun()
    modest.opened.set()

    answer = await started(threads, modest, "modest", "mine")
    under_way = list(greedy.ran)
    greedy.opened.set()

    assert (answer, under_way) == ("mine", ["0"])
    assert await ended(*many) == [str(number) for number in range(8)]


async def test_with_one_thread_the_keys_take_turns() -> None:
    threads, gate = FairThreads("tests", threads=1), Gate()
    first = started(threads, gate, "a", "a1")
    await gate.has_begun()
    rest = [started(threads, gate, name[0], name) for name in ("a2", "a3", "a4", "b1", "b2")]
    await asyncio.sleep(0)  # all of them wait now
    gate.opened.set()
    await ended(first, *rest)

    assert gate.ran == ["a1", "a2", "b1", "a3", "b2", "a4"]


async def test_what_waits_of_a_key_is_bounded_and_others_may_still_wait() -> None:
    threads, gate = FairThreads("tests", threads=1, waiting=2), Gate()
    running = started(threads, gate, "greedy", "1")
    await gate.has_begun()
    waiting = [started(threads, gate, "greedy", "2"), started(threads, gate, "greedy", "3")]
    other = started(threads, gate, "modest", "4")
    await asyncio.sleep(0)

    with pytest.raises(Overloaded) as error:
        await started(threads, gate, "greedy", "5")
    gate.opened.set()

    assert (error.value.reason, error.value.metadata["kind"]) == ("OVERLOADED", "tests")
    assert int(error.value.metadata["retry_after_s"]) >= 1
    assert sorted(await ended(running, *waiting, other)) == ["1", "2", "3", "4"]


async def test_a_call_whose_caller_has_gone_is_dropped_and_takes_no_place() -> None:
    threads, gate = FairThreads("tests", threads=1, waiting=1), Gate()
    running = started(threads, gate, "a", "1")
    await gate.has_begun()
    gone = started(threads, gate, "a", "2")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})
    after = started(threads, gate, "a", "3")
    await asyncio.sleep(0)
    gate.opened.set()
    await ended(running, after)

    assert gate.ran == ["1", "3"]


async def test_an_error_reaches_the_caller_and_the_thread_goes_on() -> None:
    threads = FairThreads("tests", threads=1)

    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 1, 0)

    assert await threads.run(divmod, 7, 2) == (3, 1)
