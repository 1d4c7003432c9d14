"""A background worker repeats its work for as long as a service runs.

    worker = BackgroundWorker("journal", journal.write_batch)
    worker.start()
    ...
    await worker.check()                     # in /readyz: raises while the work keeps failing
    await worker.close(within_s=5.0)

The one place besides the edge that catches every exception: a failure is logged with its trace, counted, and the work
is started again after a pause that doubles, so that no bug ends a worker silently.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

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
            self._task = asyncio.create_task(self._run(), name=self.name)

    async def check(self) -> None:
        """Return while the worker works.

        Raises:
            WorkerFailing: While it has failed and no round has returned since, before `start`, and after `close`; names
                the last failure.
        """
        problem = self._problem
        if not problem and self._task is not None and self._task.done():
            problem = "has ended"
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

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                await self._work(self._stop)
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                await self._recover(error)  # something that the work waited for was cancelled, and not the worker
            except Exception as error:  # noqa: BLE001 - no failure may end the worker
                await self._recover(error)
            else:
                self._failures, self._problem = 0, ""
                await self._pause(self._interval_s)

    async def _recover(self, error: BaseException) -> None:
        self._failures += 1
        FAILURES.labels(self.name).inc()
        self._problem = f"failed {self._failures} times in a row, last with {type(error).__name__}: {error}"
        _log.error("a background worker failed", worker=self.name, failures=self._failures, exc_info=error)
        await self._pause(min(self._first_pause_s * 2.0 ** min(self._failures - 1, 60), self._longest_pause_s))

    async def _pause(self, pause_s: float) -> None:
        await asyncio.sleep(0)
        if pause_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
