"""A request that is sent twice is answered once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import fields

from chassis.errors import DatabaseUnavailable
from chassis.idempotency import LocalRequests, check_digest, once
from chassis.log import logger
from inference import Spend
from kernel.values import value
from services.router.service.answering.values import AnswerToken, Event, RunFinished, RunStarted
from services.router.service.assessment.values import Routed
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Idempotency, Run

Find = Callable[[str, str], Awaitable[Run | None]]

# Time that the store gets to look an earlier request up; a slower one is not waited for [s].
LOOKUP_WITHIN_S = 0.5


_log = logger(__name__)


@value
class Repetition:
    """This value is what is known of earlier requests with the identifier of one.

    Attributes:
        earlier: The run that answered it; None for a new request.
        idempotency: What is wrong with the guarantee; None where it is given.
    """

    earlier: Run | None = None
    idempotency: Idempotency | None = None


class IdempotentAnswers:
    """This index finds the run of a request that was sent before, and makes a repetition wait for one in progress.

    Args:
        find: Looks a recorded run up by key name and request identifier.
        recent: Looks a run up that is not recorded yet.
        is_behind: Returns whether runs of this process may be neither recorded nor among the recent ones.
    """

    def __init__(
        self, find: Find, recent: Callable[[str, str], Run | None], is_behind: Callable[[], bool] = lambda: False
    ) -> None:
        self._find = find
        self._recent = recent
        self._is_behind = is_behind
        self._requests = LocalRequests(self._answered)
        # Requests in progress of which it is not known whether they were answered before.
        self._unknown: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def once(self, key_name: str, request_id: str, digest: str, spend: Spend) -> AsyncIterator[Repetition]:
        """Give what is known of earlier requests; one task at a time enters.

        A run that ended in an error is no answer and may be repeated, and so may one whose contents are not stored,
        once this process no longer holds it. While the database does not answer, only runs that this process still
        holds are known, and the guarantee is not given.

        Raises:
            RequestIdReused: When the earlier request was another one.
            RequestInProgress: When the first one is still running at this one's deadline.
        """
        async with once(self._requests, key_name, request_id, digest, spend.seconds_left) as attempt:
            name = (key_name, request_id)
            try:
                yield Repetition(
                    earlier=attempt.earlier, idempotency=Idempotency.UNAVAILABLE if name in self._unknown else None
                )
            finally:
                self._unknown.discard(name)

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
            async with asyncio.timeout(LOOKUP_WITHIN_S):
                found = await self._find(key_name, request_id)
            if found is not None or not self._is_behind():
                return found
            problem = "runs wait on disk"
        except TimeoutError:
            problem = f"no answer within {LOOKUP_WITHIN_S:g} s"
        except DatabaseUnavailable as error:
            problem = error.message
        _log.warning("repetitions are not recognised while the database does not answer", problem=problem)
        self._unknown.add((key_name, request_id))
        return None


def replayed_events(run: Run) -> list[Event]:
    """Return the events of a run that was answered before."""
    events: list[Event] = [RunStarted(run_id=run.run_id)]
    if run.route is not None:
        events.append(Routed(**{f.name: getattr(run.route, f.name) for f in fields(run.route)}))
    return [*events, AnswerToken(text=run.answer), RunFinished(run=run)]
