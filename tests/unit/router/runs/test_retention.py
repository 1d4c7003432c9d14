"""Old runs are deleted in the background, whatever happens to one sweep."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest

from chassis.errors import DatabaseUnavailable
from chassis.worker import WorkerFailing
from chassis.worker.retention import ClocksDiffer, Retention
from services.router.service.runs.retention import OldRuns


class FakeOldRuns:
    """Runs that are all too old; its next sweeps raise the given errors."""

    def __init__(self, *errors: Exception) -> None:
        self.run_ids = ["a", "b", "c"]
        self.errors = list(errors)
        self.ahead = timedelta()

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[bool]:
        yield True

    async def clock(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def older(self, age: timedelta, most: int) -> Sequence[str]:
        if self.errors:
            raise self.errors.pop(0)
        return self.run_ids[:most]

    async def delete(self, run_ids: Sequence[str]) -> None:
        self.run_ids = [run_id for run_id in self.run_ids if run_id not in run_ids]


async def test_a_bug_in_one_sweep_does_not_end_retention_and_readiness_names_it() -> None:
    runs = FakeOldRuns(ZeroDivisionError("a bug"))
    retention = Retention("runs", OldRuns(runs), days=1, batch=2)
    retention.start()
    await until(lambda: not runs.errors)

    with pytest.raises(WorkerFailing, match=r"the worker retention failed .* ZeroDivisionError: a bug"):
        await retention.check()
    await until(lambda: not runs.run_ids)
    await until_ready(retention.check)
    await retention.close()


async def test_a_database_that_is_away_is_no_failure_of_the_worker() -> None:
    runs = FakeOldRuns(DatabaseUnavailable("away"))
    retention = Retention("runs", OldRuns(runs), days=1, every_s=0.01)
    retention.start()

    await until(lambda: not runs.run_ids)
    await retention.check()
    await retention.close()


@pytest.mark.parametrize("ahead", [timedelta(seconds=90), timedelta(seconds=-90)])
async def test_nothing_is_deleted_while_the_clocks_differ_by_more_than_a_minute(ahead: timedelta) -> None:
    runs = FakeOldRuns()
    runs.ahead = ahead

    with pytest.raises(ClocksDiffer, match=r"differ by -?(90|89) s"):
        await Retention("runs", OldRuns(runs), days=1).sweep()

    assert runs.run_ids == ["a", "b", "c"]


async def test_retention_ends_at_once_between_two_sweeps() -> None:
    runs = FakeOldRuns()
    retention = Retention("runs", OldRuns(runs), days=1)
    retention.start()
    await until(lambda: not runs.run_ids)

    async with asyncio.timeout(2):
        await retention.close()


async def test_files_on_a_disk_that_hangs_are_found_in_one_thread_and_old_runs_are_deleted_all_the_same() -> None:
    runs, is_mended, calls = FakeOldRuns(), threading.Event(), list[int]()

    def delete_files(days: int) -> None:
        calls.append(days)
        is_mended.wait(10)

    retention = Retention("runs", OldRuns(runs), days=1, delete_files=delete_files, batch_within_s=0.05)
    retention.start()
    try:
        await until(lambda: not runs.run_ids)
        await until_failing(retention.check, r"failed [2-9] times .* RoundTooLong")
    finally:
        is_mended.set()

    assert calls == [1]
    await until_ready(retention.check)
    await retention.close()


async def test_files_that_cannot_be_deleted_leave_the_deletion_of_old_runs_alone() -> None:
    runs = FakeOldRuns()

    def delete_files(_days: int) -> None:
        raise PermissionError("read-only")

    retention = Retention("runs", OldRuns(runs), days=1, delete_files=delete_files)
    retention.start()

    await until(lambda: not runs.run_ids)
    await retention.check()
    await retention.close()


@pytest.mark.parametrize("errors", [(), (ZeroDivisionError("a bug"),)], ids=["after a sweep", "after a bug"])
async def test_a_lock_that_is_not_given_back_is_found(errors: Sequence[Exception]) -> None:
    class HeldLock(FakeOldRuns):
        @asynccontextmanager
        async def lock(self) -> AsyncIterator[bool]:
            try:
                yield True
            finally:
                await asyncio.Event().wait()

    retention = Retention("runs", OldRuns(HeldLock(*errors)), days=1, batch_within_s=0.05)
    retention.start()

    await until_failing(retention.check, "RoundTooLong: a round took longer")
    await retention.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - the worker has no event for it
            await asyncio.sleep(0.001)


async def until_ready(check: Callable[[], Awaitable[None]]) -> None:
    """Wait until a readiness check passes."""
    async with asyncio.timeout(10):
        while True:
            with suppress(WorkerFailing):
                return await check()
            await asyncio.sleep(0.001)


async def until_failing(check: Callable[[], Awaitable[None]], problem: str) -> None:
    """Wait until a readiness check fails with a problem."""
    async with asyncio.timeout(5):
        while True:
            try:
                await check()
            except WorkerFailing as error:
                if re.search(problem, error.message):
                    return
            await asyncio.sleep(0.001)
