"""Readiness reports whether a service can do its main job, and which parts are down."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kernel.errors import MetacogError
from kernel.values import value

Check = Callable[[], Awaitable[None]]


@value
class HealthReport:
    """A health report states the readiness of a service.

    Attributes:
        ready: Whether the service's own main job can be done.
        parts: `ok` or the problem, by part; a part may be down while the service is ready.
    """

    ready: bool
    parts: Mapping[str, str]


class Health:
    """Health runs the checks of one service.

    Args:
        essential: Checks without which the main job cannot be done, by part.
        others: Checks of everything else, by part.
        timeout_s: Time that all checks together get [s].
    """

    def __init__(
        self, essential: Mapping[str, Check], others: Mapping[str, Check] | None = None, *, timeout_s: float = 2.0
    ) -> None:
        self._essential = dict(essential)
        self._others = dict(others or {})
        self._timeout_s = timeout_s
        self.stopping = False

    async def report(self) -> HealthReport:
        """Run all checks at once."""
        parts: dict[str, str] = {}
        async with asyncio.TaskGroup() as group:
            for name, check in {**self._others, **self._essential}.items():
                group.create_task(self._run(name, check, parts))
        if self.stopping:
            parts["service"] = "stopping"
        ready = not self.stopping and all(parts[name] == "ok" for name in self._essential)
        return HealthReport(ready=ready, parts=dict(sorted(parts.items())))

    async def _run(self, name: str, check: Check, parts: dict[str, str]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await check()
            parts[name] = "ok"
        except MetacogError as error:
            parts[name] = error.message
        except TimeoutError:
            parts[name] = f"no answer within {self._timeout_s:g} s"
