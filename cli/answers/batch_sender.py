"""Sending the requests of a batch: a bounded number at a time, each again where that may help."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from cli.answers.batch_lines import Answered, Asked
from kernel.values import value

# Replies that another attempt may better: too many requests, something in front of the router, a part that is away.
AGAIN = (408, 429, 502, 503)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0

Finished = Callable[[Answered], None]


@value
class Pace:
    """How fast, and how stubbornly.

    Attributes:
        concurrency: Requests at a time.
        attempts: Attempts at a request.
        timeout_s: Time that one attempt gets [s].
        first_pause_s: Pause before the second attempt; it doubles [s].
    """

    concurrency: int
    attempts: int
    timeout_s: float
    first_pause_s: float = FIRST_PAUSE_S


async def send(url: str, key: str, asked: Sequence[Asked], pace: Pace, finished: Finished) -> None:
    """Send every request; `finished` is told each result as it comes.

    Cancelling it hangs up on all that is under way.
    """
    waiting = iter(asked)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    timeout = aiohttp.ClientTimeout(total=pace.timeout_s)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=timeout) as session:

        async def worker() -> None:
            for one in waiting:
                finished(await _answered(session, one, pace))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(pace.concurrency, len(asked))):
                group.create_task(worker())


async def _answered(session: aiohttp.ClientSession, one: Asked, pace: Pace) -> Answered:
    """The result of the last attempt; a refusal that no attempt can better ends them at once."""
    for attempt in range(1, pace.attempts + 1):
        answered, retry_after_s = await _tried(session, one)
        if retry_after_s is None or attempt == pace.attempts:
            break
        doubled = min(LONGEST_PAUSE_S, pace.first_pause_s * 2 ** (attempt - 1))
        await asyncio.sleep(max(min(retry_after_s, LONGEST_PAUSE_S), doubled * random.uniform(0.5, 1.0)))
    return answered


async def _tried(session: aiohttp.ClientSession, one: Asked) -> tuple[Answered, float | None]:
    """Result of one attempt, and how long to wait before another; None where another cannot help [s]."""
    kept: dict[str, Any] = {"custom_id": one.custom_id, "digest": one.digest}
    try:
        async with session.post(one.url, json=one.body) as reply:
            body = _read(await reply.read())
            made = Answered(**kept, status=reply.status, request_id=_run_id(reply), body=body)
            hopeless = reply.headers.get("x-should-retry") == "false" or reply.status not in AGAIN
            return made, None if hopeless else _seconds(reply.headers.get("retry-after", ""))
    except (aiohttp.ClientError, OSError, TimeoutError) as away:
        said = str(away) or "no reply within the time it was given"
        error = {"code": "unreachable", "message": f"{type(away).__name__}: {said}"}
        return Answered(**kept, error=error), 0.0


def _read(content: bytes) -> Any:  # noqa: ANN401 - JSON is of any kind
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def _run_id(reply: aiohttp.ClientResponse) -> str:
    return reply.headers.get("x-metacog-run-id", "")


def _seconds(said: str) -> float:
    """Seconds of a `Retry-After`; 0 where it says none.

    Example:
        >>> _seconds("2"), _seconds("")
        (2.0, 0.0)
    """
    return float(said) if said.isdecimal() else 0.0
