"""Readiness reports whether a service can do its main job, and which parts are down."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from kernel.errors import MetacogError
from kernel.values import value

Check = Callable[[], Awaitable[None]]

# Time for which a report is repeated instead of made again [s].
CACHED_S = 1.0


@value
class HealthReport:
    """A health report states the readiness of a service.

    Attributes:
        ready: Whether the service's own main job can be done.
        parts: `ok` or the problem, by part; a part may be down while the service is ready.
    """

    ready: bool
    parts: Mapping[str, str]

    def without_parts(self) -> "HealthReport":
        """Return the report without the state of the parts, which names addresses."""
        return HealthReport(ready=self.ready, parts={})


class Health:
    """Health runs the checks of one service: once at a time, for all who ask meanwhile and shortly after.

    Args:
        essential: Checks without which the main job cannot be done, by part.
        others: Checks of everything else, by part.
        timeout_s: Time that all checks together get [s].
        cached_s: Time for which their result is repeated [s].

    Attributes:
        stopping: Whether the service is about to stop, and so is not ready; it counts at once.
    """

    def __init__(
        self,
        essential: Mapping[str, Check],
        others: Mapping[str, Check] | None = None,
        *,
        timeout_s: float = 2.0,
        cached_s: float = CACHED_S,
    ) -> None:
        self._essential = dict(essential)
        self._others = dict(others or {})
        self._timeout_s = timeout_s
        self._cached_s = cached_s
        self._checking: asyncio.Task[Mapping[str, str]] | None = None
        self._good_until = float("-inf")
        self.stopping = False

    async def report(self) -> HealthReport:
        """Report the state of all parts, at most `cached_s` old."""
        if self._checking is None or (self._checking.done() and time.monotonic() >= self._good_until):
            self._checking = asyncio.create_task(self._checked())
        parts = dict(await asyncio.shield(self._checking))
        if self.stopping:
            parts["service"] = "stopping"
        ready = not self.stopping and all(parts[name] == "ok" for name in self._essential)
        return HealthReport(ready=ready, parts=dict(sorted(parts.items())))

    async def _checked(self) -> Mapping[str, str]:
        """Run all checks at once."""
        parts: dict[str, str] = {}
        async with asyncio.TaskGroup() as group:
            for name, check in {**self._others, **self._essential}.items():
                group.create_task(self._run(name, check, parts))
        self._good_until = time.monotonic() + self._cached_s
        return parts

    async def _run(self, name: str, check: Check, parts: dict[str, str]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await check()
            parts[name] = "ok"
        except MetacogError as error:
            parts[name] = error.message
        except TimeoutError:
            parts[name] = f"no answer within {self._timeout_s:g} s"
