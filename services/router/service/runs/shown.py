"""A run is shown to its caller without what only the service itself reads."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from services.router.service.runs.values import Run


async def shown_run(run_id: str, *, key_name: str = "", find: Callable[..., Awaitable[Run]]) -> Run:
    """Return a run as its caller sees it: without its `continuation` and `response_request`, which may have megabytes.

    Raises:
        RunNotFound, DatabaseUnavailable: As `find`.
    """
    return replace(await find(run_id, key_name=key_name), continuation="", response_request="")
