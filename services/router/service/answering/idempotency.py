"""Idempotency: a request that is sent twice is answered once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import fields

from chassis.errors import DatabaseUnavailable
from chassis.idempotency import RequestIdReused, RequestInProgress
from chassis.log import logger
from inference import Spend
from services.router.service.answering.values import AnswerToken, Event, RunFinished, RunStarted
from services.router.service.assessment.values import Routed
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Run

Find = Callable[[str, str], Awaitable[Run | None]]


_log = logger(__name__)


class _Lock(asyncio.Lock):
    """A lock that counts the tasks that hold it or wait for it."""

    users = 0


class IdempotentAnswers:
    """Finds the run of a request that was sent before, and makes a repetition wait for one in progress.

    Args:
        find: Looks a recorded run up by key name and request identifier.
        recent: Looks a run up that is not recorded yet.
    """

    def __init__(self, find: Find, recent: Callable[[str, str], Run | None]) -> None:
        self._find = find
        self._recent = recent
        self._locks: dict[tuple[str, str], _Lock] = {}

    def once(
        self, key_name: str, request_id: str, digest: str, spend: Spend
    ) -> AbstractAsyncContextManager[Run | None]:
        """Return a context that gives the earlier run, or None for a new request; one task at a time enters it.

        A run that ended in an error is no answer and may be repeated, and so may one whose contents are not stored,
        once this process no longer holds it. While the database is away, only runs that this process still holds are
        known.

        Raises:
            RequestIdReused: When the earlier request was another one.
            RequestInProgress: When the first one is still running at this one's deadline.
        """
        return self._once(key_name, request_id, digest, spend) if request_id else nullcontext()

    @asynccontextmanager
    async def _once(self, key_name: str, request_id: str, digest: str, spend: Spend) -> AsyncIterator[Run | None]:
        async with self._alone((key_name, request_id), spend):
            yield self._same(await self._earlier(key_name, request_id), digest, request_id)

    @asynccontextmanager
    async def _alone(self, name: tuple[str, str], spend: Spend) -> AsyncIterator[None]:
        lock = self._locks.setdefault(name, _Lock())
        lock.users += 1
        try:
            try:
                async with asyncio.timeout(spend.seconds_left()):
                    await lock.acquire()
            except TimeoutError as late:
                message = f"the first request with request_id {name[1]!r} is still running"
                raise RequestInProgress(message, request_id=name[1]) from late
            try:
                yield
            finally:
                lock.release()
        finally:
            lock.users -= 1
            if not lock.users:
                del self._locks[name]

    async def _earlier(self, key_name: str, request_id: str) -> Run | None:
        held = self._recent(key_name, request_id)
        if held is not None and not held.error_reason:
            return held
        try:
            return await self._find(key_name, request_id)
        except DatabaseUnavailable as error:
            _log.warning("repetitions are not recognised while the database is away", problem=error.message)
            return None

    def _same(self, earlier: Run | None, digest: str, request_id: str) -> Run | None:
        if earlier is None or earlier.error_reason:
            return None
        if earlier.request_digest != digest:
            message = f"request_id {request_id!r} was used for another request; choose a new one"
            raise RequestIdReused(message, request_id=request_id, run_id=earlier.run_id)
        return earlier if has_contents(earlier) else None


def replayed_events(run: Run) -> list[Event]:
    """Return the events of a run that was answered before."""
    events: list[Event] = [RunStarted(run_id=run.run_id)]
    if run.route is not None:
        events.append(Routed(**{f.name: getattr(run.route, f.name) for f in fields(run.route)}))
    return [*events, AnswerToken(text=run.answer), RunFinished(run=run)]
