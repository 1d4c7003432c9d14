"""A background worker repeats its work for as long as a service runs.

    worker = BackgroundWorker("journal", journal.write_batch)
    worker.start()
    ...
    await worker.check()                     # in /readyz: raises while the work keeps failing
    await worker.close(within_s=5.0)

The one place besides the edge that catches every exception: a failure is logged with its trace, counted, and the work
is started again after a pause that doubles, so that no bug ends a worker silently. So is a worker whose task was ended
from outside. Work that may hang has a time limit (`round_within`), and then fails like any other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from prometheus_client import Counter

from chassis.log import logger
from kernel.errors import Code, MetacogError

FAILURES = Counter(
    "metacog_worker_failures_total", "Failures of background workers, each followed by a restart.", ["worker"]
)

# Time that cancelled work gets to end: a COMMIT, for one, is finished first [s].
CANCELLED_WITHIN_S = 3.0

Work = Callable[[asyncio.Event], Awaitable[None]]

_log = logger(__name__)


class WorkerFailing(MetacogError):
    """A background worker has failed since it last worked, or has not been started."""

    code = Code.UNAVAILABLE
    reason = "WORKER_FAILING"


class RoundTooLong(MetacogError):
    """A round of a background worker takes so long that it probably hangs."""

    code = Code.UNAVAILABLE
    reason = "WORKER_FAILING"


@asynccontextmanager
async def round_within(seconds: float) -> AsyncIterator[None]:
    """Cancel what takes longer; what runs in a thread goes on there.

    Args:
        seconds: Time that it gets [s].

    Raises:
        RoundTooLong: When it takes longer.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise RoundTooLong(f"a round took longer than {seconds:g} s, and probably hangs") from None


async def wait_within(event: asyncio.Event, timeout_s: float) -> None:
    """Wait until `event` is set, for `timeout_s` at most [s]."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()


class BackgroundWorker:
    """The worker runs `work` in a task of its own until it is closed, and starts it again whenever it fails.

    Args:
        name: Its name, for logs, metrics and readiness.
        work: One round of the work, called again when it returns, until the worker is closed; it gets an event that is
            set when it is to end. A failure counts as over when a later round returns, so a round that waits for
            something to do returns now and then without it.
        interval_s: Pause between two rounds [s]; 0 for work that waits by itself. Other tasks run in between even then,
            so that a round which never waits cannot block the process.
        first_pause_s: Pause before the first restart [s]; it doubles with each failure in a row.
        longest_pause_s: Longest pause [s].
    """

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        interval_s: float = 0.0,
        first_pause_s: float = 0.5,
        longest_pause_s: float = 30.0,
    ) -> None:
        self.name = name
        self._work = work
        self._interval_s = interval_s
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._problem = "has not been started"

    def start(self) -> None:
        """Begin to work; a second call does nothing."""
        if self._task is None:
            self._problem = ""
            self._begin()

    async def check(self) -> None:
        """Return while the worker works.

        Raises:
            WorkerFailing: While it has failed and no round has returned since, before `start`, and after `close`; names
                the last failure.
        """
        problem = "has ended" if self._stop.is_set() else self._problem
        if problem:
            raise WorkerFailing(f"the worker {self.name} {problem}", worker=self.name)

    async def close(self, *, within_s: float = 5.0) -> None:
        """Ask the work to end, wait for it, and cancel it when it takes longer.

        Args:
            within_s: Time that it gets [s].
        """
        self._stop.set()
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=within_s)
        self._task.cancel()
        _, hanging = await asyncio.wait({self._task}, timeout=CANCELLED_WITHIN_S)
        if hanging:
            _log.error("a background worker does not end", worker=self.name)

    def _begin(self, pause_s: float = 0.0) -> None:
        self._task = asyncio.create_task(self._run(pause_s), name=self.name)
        self._task.add_done_callback(self._end)

    def _end(self, ended: "asyncio.Task[None]") -> None:
        """Start again where the task ended though nothing closed the worker, as when it was cancelled."""
        if self._stop.is_set() or ended.get_loop().is_closed():
            return
        error = asyncio.CancelledError("its task was cancelled") if ended.cancelled() else ended.exception()
        assert error is not None
        self._count(error)
        self._begin(self._pause_after_failure_s())

    async def _run(self, pause_s: float) -> None:
        if pause_s > 0:
            await self._pause(pause_s)
        while not self._stop.is_set():
            try:
                await self._work(self._stop)
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                await self._recover(error)  # something that the work waited for was cancelled, and not the worker
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - no failure may end the worker, nor a panic of a library
                await self._recover(error)
            else:
                self._failures, self._problem = 0, ""
                await self._pause(self._interval_s)

    async def _recover(self, error: BaseException) -> None:
        self._count(error)
        await self._pause(self._pause_after_failure_s())

    def _count(self, error: BaseException) -> None:
        self._failures += 1
        FAILURES.labels(self.name).inc()
        self._problem = f"failed {self._failures} times in a row, last with {type(error).__name__}: {error}"
        _log.error("a background worker failed", worker=self.name, failures=self._failures, exc_info=error)

    def _pause_after_failure_s(self) -> float:
        return min(self._first_pause_s * 2.0 ** min(self._failures - 1, 60), self._longest_pause_s)

    async def _pause(self, pause_s: float) -> None:
        await asyncio.sleep(0)
        if pause_s > 0:
            await wait_within(self._stop, pause_s)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
