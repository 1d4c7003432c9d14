"""A request that is sent twice is answered once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields

from chassis.errors import DatabaseUnavailable
from chassis.idempotency import LocalRequests, check_digest, once
from chassis.log import logger
from inference import Spend
from services.router.service.answering.values import AnswerToken, Event, RunFinished, RunStarted
from services.router.service.assessment.values import Routed
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Run

Find = Callable[[str, str], Awaitable[Run | None]]


_log = logger(__name__)


class IdempotentAnswers:
    """This index finds the run of a request that was sent before, and makes a repetition wait for one in progress.

    Args:
        find: Looks a recorded run up by key name and request identifier.
        recent: Looks a run up that is not recorded yet.
    """

    def __init__(self, find: Find, recent: Callable[[str, str], Run | None]) -> None:
        self._find = find
        self._recent = recent
        self._requests = LocalRequests(self._answered)

    @asynccontextmanager
    async def once(self, key_name: str, request_id: str, digest: str, spend: Spend) -> AsyncIterator[Run | None]:
        """Give the earlier run, or None for a new request; one task at a time enters.

        A run that ended in an error is no answer and may be repeated, and so may one whose contents are not stored,
        once this process no longer holds it. While the database is away, only runs that this process still holds are
        known.

        Raises:
            RequestIdReused: When the earlier request was another one.
            RequestInProgress: When the first one is still running at this one's deadline.
        """
        async with once(self._requests, key_name, request_id, digest, spend.seconds_left) as attempt:
            yield attempt.earlier

    async def _answered(self, key_name: str, request_id: str, digest: str) -> Run | None:
        earlier = await self._earlier(key_name, request_id)
        if earlier is None or earlier.error_reason:
            return None
        check_digest(earlier.request_digest, digest, request_id, run_id=earlier.run_id)
        return earlier if has_contents(earlier) else None

    async def _earlier(self, key_name: str, request_id: str) -> Run | None:
        held = self._recent(key_name, request_id)
        if held is not None and not held.error_reason:
            return held
        try:
            return await self._find(key_name, request_id)
        except DatabaseUnavailable as error:
            _log.warning("repetitions are not recognised while the database is away", problem=error.message)
            return None


def replayed_events(run: Run) -> list[Event]:
    """Return the events of a run that was answered before."""
    events: list[Event] = [RunStarted(run_id=run.run_id)]
    if run.route is not None:
        events.append(Routed(**{f.name: getattr(run.route, f.name) for f in fields(run.route)}))
    return [*events, AnswerToken(text=run.answer), RunFinished(run=run)]
