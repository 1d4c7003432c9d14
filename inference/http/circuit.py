"""A circuit sends no requests to an endpoint that fails for all, and is not opened by what one caller does.

Failures count by request and by caller. Where those of several callers fail, that opens it. Those of one caller prove
nothing: he may have a request that the server fails at, or a limit that it cannot keep. So the server itself is then
asked, by a probe; and only a probe closes an open circuit, so that no caller's request has to be tried.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from chassis.admission import CALLER_KEY
from inference.config import CircuitSettings
from inference.errors import CircuitOpen
from kernel.values import value

# Requests whose ends are remembered; a flood of one caller pushes out the others', and then a probe decides [count].
MOST_REMEMBERED = 512


class RequestEnd(Enum):
    """The end of a request as the endpoint's part in it: `SILENT` is one whose time was over before a reply began."""

    ANSWERED = auto()
    FAILED = auto()
    SILENT = auto()


@value
class ObservedEnd:
    """An end was observed at a time [s, of the clock], of a caller's request."""

    at_s: float
    caller: str
    request: object
    end: RequestEnd


class Circuit:
    """A circuit is closed while requests may be sent to one endpoint, and open for a while when it fails.

    Args:
        backend: Name for the message.
        settings: When it opens, and for how long.
        clock: Monotonic clock [s].
        probe: Returns what is wrong with the server itself; empty while it answers.
        address: Its address for the message; empty: none.
    """

    def __init__(
        self,
        backend: str,
        settings: CircuitSettings,
        clock: Callable[[], float],
        probe: Callable[[], Awaitable[str]],
        *,
        address: str = "",
    ) -> None:
        self._named = f"backend {backend}" + (f" at {address}" if address else "")
        self._backend = backend
        self._settings = settings
        self._clock = clock
        self._probe = probe
        self._ends: deque[ObservedEnd] = deque(maxlen=MOST_REMEMBERED)
        self._problem = ""
        self._open_until = 0.0
        self._no_probe_before = float("-inf")
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether no request may be sent until a probe has succeeded."""
        return bool(self._problem)

    @property
    def admits(self) -> bool:
        """Return whether a request would be sent now, be it after a probe."""
        return not self.is_open or self._clock() >= self._open_until

    async def admit(self) -> None:
        """Return if a request may be sent; after the pause of an open circuit, all who ask wait for one probe.

        Raises:
            CircuitOpen: While it may not.
        """
        if not self.is_open:
            return
        if self.admits:
            # A caller who goes away leaves the probe to the others.
            await asyncio.shield(self._begin_probe())
        if self.is_open:
            wait_s = max(0.0, self._open_until - self._clock())
            message = f"{self._named} {self._problem}; it is tried again in {wait_s:.1f} s"
            raise CircuitOpen(message, backend=self._backend, retry_after_s=wait_s)

    def record(self, request: object, end: RequestEnd) -> None:
        """Record the end of an exchange for `request` of the current caller; the last one of a request counts."""
        now = self._clock()
        self._ends.append(ObservedEnd(at_s=now, caller=CALLER_KEY.get(), request=request, end=end))
        if end is not RequestEnd.ANSWERED and not self.is_open:
            self._judge(now)

    def close(self) -> None:
        """End a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()

    def _judge(self, now: float) -> None:
        recent = [end for end in self._ends if end.at_s >= now - self._settings.window_s]
        last = {id(end.request): end for end in recent}
        failed = sum(end.end is RequestEnd.FAILED for end in last.values())
        silent = sum(end.end is RequestEnd.SILENT for end in last.values())
        callers = {end.caller for end in last.values()}
        failing = sum(_fails([end.end for end in last.values() if end.caller == caller]) for caller in callers)
        if failed >= self._settings.failures and failing > 1 and 2 * failing >= len(callers):
            self._open(f"failed {failed} requests of {failing} callers just now")
        elif failed + silent >= self._settings.failures and now >= self._no_probe_before:
            self._begin_probe()

    def _begin_probe(self) -> "asyncio.Task[None]":
        if self._probing is None:
            self._probing = asyncio.create_task(self._ask_server())
        return self._probing

    async def _ask_server(self) -> None:
        before = self._problem
        try:
            problem = await self._probe()
        finally:
            self._probing = None
        self._no_probe_before = self._clock() + self._settings.cool_down_s
        if problem:
            self._open(f"failed just now, and does not answer a probe: {problem}")
        elif self._problem == before:  # else it was opened meanwhile
            self._problem = ""
            self._ends.clear()

    def _open(self, problem: str) -> None:
        self._problem = problem
        self._open_until = self._clock() + self._settings.cool_down_s
        self._ends.clear()


def _fails(ends: list[RequestEnd]) -> bool:
    """Return whether at least half of a caller's requests that ended by the endpoint's doing failed."""
    failed = sum(end is RequestEnd.FAILED for end in ends)
    return failed > 0 and failed >= sum(end is RequestEnd.ANSWERED for end in ends)
