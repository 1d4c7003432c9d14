"""Background workers: a failure is logged, counted and followed by a restart."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from chassis.worker import BackgroundWorker, WorkerFailing

WITHIN_S = 5.0


def failures(name: str) -> float:
    return REGISTRY.get_sample_value("metacog_worker_failures_total", {"worker": name}) or 0.0


class Rounds:
    """Work whose rounds do what a test says, and that can be waited for."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self._outcomes = list(outcomes)
        self.begun = 0
        self.idle = asyncio.Event()

    async def __call__(self, stop: asyncio.Event) -> None:
        self.begun += 1
        if self._outcomes:
            outcome = self._outcomes.pop(0)
            if outcome is not None:
                raise outcome
            return
        self.idle.set()
        await stop.wait()


def worker_of(
    name: str, work: Callable[[asyncio.Event], Awaitable[None]], *, first_pause_s: float = 0.0
) -> BackgroundWorker:
    return BackgroundWorker(name, work, first_pause_s=first_pause_s)


async def problem_of(worker: BackgroundWorker) -> str:
    try:
        await worker.check()
    except WorkerFailing as error:
        return error.message
    return ""


async def reached(event: asyncio.Event) -> None:
    async with asyncio.timeout(WITHIN_S):
        await event.wait()


@pytest.mark.parametrize("error", [ValueError("torn"), KeyError("x"), MemoryError(), AssertionError("a bug")])
async def test_work_starts_again_after_any_exception(error: Exception) -> None:
    rounds = Rounds(error, error)
    worker = worker_of("any exception", rounds)

    worker.start()
    await reached(rounds.idle)

    assert rounds.begun == 3
    await worker.close()


async def test_a_failure_is_counted_and_logged_with_its_trace() -> None:
    error = ValueError("torn")
    rounds = Rounds(error, error)
    worker = worker_of("counted", rounds)

    with capture_logs() as logs:
        worker.start()
        await reached(rounds.idle)
    await worker.close()

    assert failures("counted") == 2
    assert [(line["worker"], line["failures"], line["exc_info"]) for line in logs] == [
        ("counted", 1, error),
        ("counted", 2, error),
    ]


async def test_pauses_double_with_each_failure_in_a_row_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def record(_: BackgroundWorker, pause_s: float) -> None:
        pauses.append(pause_s)
        await asyncio.sleep(0)

    monkeypatch.setattr(BackgroundWorker, "_pause", record)
    bug = ValueError("torn")
    rounds = Rounds(bug, bug, bug, bug, None, bug)
    worker = BackgroundWorker("doubling", rounds, first_pause_s=0.5, longest_pause_s=3.0)

    worker.start()
    await reached(rounds.idle)

    assert pauses == [0.5, 1.0, 2.0, 3.0, 0.0, 0.5]
    await worker.close()


async def test_check_raises_while_the_work_fails_and_no_longer_when_a_round_has_returned() -> None:
    has_failed, may_recover, has_recovered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    rounds = 0

    async def work(stop: asyncio.Event) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise ValueError("torn")
        if rounds == 2:
            has_failed.set()
            await may_recover.wait()
            return
        has_recovered.set()
        await stop.wait()

    worker = worker_of("recovering", work)
    worker.start()

    await reached(has_failed)
    assert await problem_of(worker) == "the worker recovering failed 1 times in a row, last with ValueError: torn"

    may_recover.set()
    await reached(has_recovered)
    assert await problem_of(worker) == ""
    await worker.close()


async def test_a_worker_that_was_not_started_or_is_closed_is_not_ready() -> None:
    worker = worker_of("idle", Rounds())
    assert await problem_of(worker) == "the worker idle has not been started"

    worker.start()
    assert await problem_of(worker) == ""

    await worker.close()
    assert await problem_of(worker) == "the worker idle has ended"


async def test_close_lets_a_round_end_by_itself() -> None:
    has_begun = asyncio.Event()
    ends: list[str] = []

    async def work(stop: asyncio.Event) -> None:
        has_begun.set()
        await stop.wait()
        ends.append("by itself")

    worker = worker_of("orderly", work)
    worker.start()
    await reached(has_begun)
    await worker.close(within_s=WITHIN_S)

    assert ends == ["by itself"]


async def test_close_cancels_a_round_that_takes_longer_and_does_not_count_a_failure() -> None:
    has_begun = asyncio.Event()
    ends: list[str] = []

    async def work(_: asyncio.Event) -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    worker = worker_of("stubborn", work)
    worker.start()
    await reached(has_begun)
    await worker.close(within_s=0.0)

    assert ends == ["cancelled"]
    assert failures("stubborn") == 0


async def test_closing_during_a_pause_ends_the_pause() -> None:
    has_failed = asyncio.Event()

    async def work(_: asyncio.Event) -> None:
        has_failed.set()
        raise ValueError("torn")

    worker = worker_of("pausing", work, first_pause_s=3600.0)
    worker.start()
    await reached(has_failed)

    async with asyncio.timeout(WITHIN_S):
        await worker.close(within_s=2 * WITHIN_S)


async def test_a_cancelled_future_inside_the_work_is_a_failure_of_the_work() -> None:
    rounds = Rounds(asyncio.CancelledError())
    worker = worker_of("future", rounds)

    worker.start()
    await reached(rounds.idle)

    assert failures("future") == 1
    await worker.close()


async def test_rounds_that_never_wait_let_other_tasks_run() -> None:
    rounds, third = 0, asyncio.Event()

    async def work(_: asyncio.Event) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            third.set()

    worker = worker_of("eager", work)
    worker.start()

    await reached(third)
    await worker.close()
    assert failures("eager") == 0


async def test_an_interval_lies_between_two_rounds() -> None:
    rounds = Rounds(None)
    worker = BackgroundWorker("hourly", rounds, interval_s=3600.0)

    worker.start()
    for _ in range(10):
        await asyncio.sleep(0)

    assert rounds.begun == 1
    async with asyncio.timeout(WITHIN_S):
        await worker.close(within_s=2 * WITHIN_S)


async def test_a_second_start_does_nothing() -> None:
    rounds = Rounds()
    worker = worker_of("twice", rounds)

    worker.start()
    worker.start()
    await reached(rounds.idle)

    assert rounds.begun == 1
    await worker.close()
