"""Sends the requests of a batch: a bounded number at a time, with retries."""

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp

from cli.answers.batch_lines import BatchRequest, BatchResult
from kernel.values import value

# Statuses that are retried: too many requests, a failing proxy, an unreachable part.
RETRIED = (408, 429, 502, 503)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0

Finished = Callable[[BatchResult], None]


@value
class SendLimits:
    """The limits of concurrency, retries and time.

    Attributes:
        concurrency: Concurrent requests [count].
        attempts: Attempts for one request [count].
        timeout_s: Time limit of one attempt [s].
        first_pause_s: Pause before the second attempt, which doubles [s].
    """

    concurrency: int
    attempts: int
    timeout_s: float
    first_pause_s: float = FIRST_PAUSE_S


async def send(
    url: str, key: str, batch_requests: Sequence[BatchRequest], limits: SendLimits, finished: Finished
) -> None:
    """Send every request, and call `finished` with each result.

    Cancellation closes the connections of the running requests.
    """
    remaining = iter(batch_requests)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4)
    timeout = aiohttp.ClientTimeout(total=limits.timeout_s)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector, timeout=timeout) as session:

        async def worker() -> None:
            for one in remaining:
                finished(await _answered(session, one, limits))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(limits.concurrency, len(batch_requests))):
                group.create_task(worker())


async def _answered(session: aiohttp.ClientSession, one: BatchRequest, limits: SendLimits) -> BatchResult:
    """Return the result of the last attempt; a permanent error ends the attempts."""
    for attempt in range(1, limits.attempts + 1):
        answered, retry_after_s = await _attempt(session, one)
        if retry_after_s is None or attempt == limits.attempts:
            break
        doubled = min(LONGEST_PAUSE_S, limits.first_pause_s * 2 ** (attempt - 1))
        await asyncio.sleep(max(min(retry_after_s, LONGEST_PAUSE_S), doubled * random.uniform(0.5, 1.0)))
    return answered


async def _attempt(session: aiohttp.ClientSession, one: BatchRequest) -> tuple[BatchResult, float | None]:
    """Return the result of one attempt, and the pause before the next [s]; None after a permanent error."""
    names: dict[str, Any] = {"custom_id": one.custom_id, "digest": one.digest}
    try:
        async with session.post(one.url, json=one.body) as reply:
            body = _read(await reply.read())
            result = BatchResult(**names, status=reply.status, request_id=_run_id(reply), body=body)
            permanent = reply.headers.get("x-should-retry") == "false" or reply.status not in RETRIED
            return result, None if permanent else _seconds(reply.headers.get("retry-after", ""))
    except (aiohttp.ClientError, OSError, TimeoutError) as failure:
        message = str(failure) or "no reply within the time limit"
        error = {"code": "unreachable", "message": f"{type(failure).__name__}: {message}"}
        return BatchResult(**names, error=error), 0.0


def _read(content: bytes) -> Any:  # noqa: ANN401 - JSON is of any kind
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def _run_id(reply: aiohttp.ClientResponse) -> str:
    return reply.headers.get("x-metacog-run-id", "")


def _seconds(retry_after: str) -> float:
    """Return the seconds of a `Retry-After` header; 0 if it has none.

    Example:
        >>> _seconds("2"), _seconds("")
        (2.0, 0.0)
    """
    return float(retry_after) if retry_after.isdecimal() else 0.0
