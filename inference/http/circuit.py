"""A circuit sends no requests to an endpoint that fails for all, and is not opened by what one caller does.

Failures count by request and by caller, and no caller's for more than half of those that open it: where the requests
of several callers fail, that does. Those of one caller prove nothing: he may have a request that the server fails at,
or a limit that it cannot keep. So the server itself is then asked, by a probe; and only a probe closes an open circuit,
so that no caller's request has to be tried. A server that answers the probe, and for a long time no request of anyone,
fails too.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto

from chassis.admission import CALLER_KEY
from inference.config import CircuitSettings
from inference.errors import CircuitOpen
from kernel.values import value

# Requests of one caller whose ends are remembered at least, so that a flood pushes out its own caller's only [count].
MOST_REMEMBERED = 64
# Failed requests that a caller has at least where the server fails for him; one may be a stray [count].
FEWEST_FAILED = 2
# Wait without a reply that says something about the server; a shorter one is the caller's own limit [s].
SHORTEST_SILENCE_S = 10.0


class RequestEnd(Enum):
    """The end of a request as the endpoint's part in it: `SILENT` is one whose time was over before a reply began."""

    ANSWERED = auto()
    FAILED = auto()
    SILENT = auto()


@value
class ObservedEnd:
    """An end was observed at a time [s, of the clock], of a request that had waited for a reply [s]."""

    at_s: float
    request: object
    end: RequestEnd
    waited_s: float

    @property
    def is_long_silence(self) -> bool:
        """Return whether so long a wait was silent that the server may hang."""
        return self.end is RequestEnd.SILENT and self.waited_s >= SHORTEST_SILENCE_S


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
        # By caller, and by the identity of the request, which an entry keeps alive; the newest is last.
        self._ends: dict[str, OrderedDict[int, ObservedEnd]] = {}
        self._answered_at_s = float("-inf")
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

    def record(self, request: object, end: RequestEnd, *, waited_s: float = 0.0) -> None:
        """Record the end of an exchange for `request` of the current caller; the last one of a request counts.

        Failures that come while the circuit is open are of requests that were sent before, and show nothing new.

        Args:
            request: Whose exchange it was.
            end: How it ended.
            waited_s: How long it had waited for a reply, where none began [s].
        """
        now = self._clock()
        if end is RequestEnd.ANSWERED or not self.is_open:
            self._remember(CALLER_KEY.get(), ObservedEnd(at_s=now, request=request, end=end, waited_s=waited_s))
        if end is RequestEnd.ANSWERED:
            self._answered_at_s = now
        elif not self.is_open:
            self._judge(now)

    def close(self) -> None:
        """End a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()

    def _remember(self, caller: str, observed: ObservedEnd) -> None:
        if caller not in self._ends:
            oldest = observed.at_s - self._settings.window_s
            for gone in [each for each, ends in self._ends.items() if next(reversed(ends.values())).at_s < oldest]:
                del self._ends[gone]
        ends = self._ends.setdefault(caller, OrderedDict())
        ends.pop(id(observed.request), None)
        ends[id(observed.request)] = observed
        if len(ends) > max(MOST_REMEMBERED, self._settings.failures):
            ends.popitem(last=False)

    def _judge(self, now: float) -> None:
        oldest = now - self._settings.window_s
        recent = {
            caller: [end for end in ends.values() if end.at_s >= oldest]
            for caller, ends in self._ends.items()
            if next(reversed(ends.values())).at_s >= oldest
        }
        counts = {caller: Counter(end.end for end in ends) for caller, ends in recent.items()}
        hung = {caller: sum(end.is_long_silence for end in ends) for caller, ends in recent.items()}
        hangs = self._answered_at_s < oldest and sum(map(bool, hung.values())) > 1
        failed = {caller: each[RequestEnd.FAILED] + hangs * hung[caller] for caller, each in counts.items()}
        failing = {
            caller: count
            for caller, count in failed.items()
            if count >= FEWEST_FAILED and count > counts[caller][RequestEnd.ANSWERED]
        }
        if self._is_enough(failing) and 2 * len(failing) >= len(recent):
            did = "failed" if any(counts[caller][RequestEnd.FAILED] for caller in failing) else "did not answer"
            self._open(f"{did} {sum(failing.values())} requests of {len(failing)} callers just now")
            return
        in_vain = sum(each[RequestEnd.FAILED] + each[RequestEnd.SILENT] for each in counts.values())
        if in_vain >= self._settings.failures and now >= self._no_probe_before:
            self._begin_probe()

    def _is_enough(self, failing: Mapping[str, int]) -> bool:
        """Return whether these failed requests of several callers open it; none counts for more than half of them."""
        most = max(1, self._settings.failures // 2)
        return len(failing) > 1 and sum(min(count, most) for count in failing.values()) >= self._settings.failures

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
            self._forget_failures()

    def _open(self, problem: str) -> None:
        self._problem = problem
        self._open_until = self._clock() + self._settings.cool_down_s
        self._ends.clear()

    def _forget_failures(self) -> None:
        """Forget what failed before the server answered a probe; it may answer one and hang, so silence is kept."""
        for caller, ends in list(self._ends.items()):
            kept = OrderedDict((key, end) for key, end in ends.items() if end.end is not RequestEnd.FAILED)
            if kept:
                self._ends[caller] = kept
            else:
                del self._ends[caller]
