"""The services of the suite as any client sees them: their public REST APIs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from evals.errors import ServiceUnreachable
from evals.harness.failures import TRANSIENT
from kernel.errors import Code, MetacogError
from kernel.values import value

# Time that a reply may take beyond the time limit of its request.
GRACE_S = 60.0
# Errors of one request, which the next one need not meet: some are final, the others transient.
OF_THE_REQUEST = frozenset({400, 404, 409, 413, 422}) | TRANSIENT
TOO_MANY, AWAY = 429, 503
# How often a request that came too soon is sent again, and after how long [s]: at most, and without a named time.
REPEATS, LONGEST_S, USUAL_S = 3, 30.0, 1.0

Body = Mapping[str, Any]
Sleep = Callable[[float], Awaitable[object]]
"""Waits for some seconds [s]."""


class RequestRejected(MetacogError):
    """A service rejected one request; it may serve the next one."""

    code = Code.FAILED_PRECONDITION
    reason = "REJECTED"

    def __init__(self, path: str, status: int, problem: Body, service: str = "router") -> None:
        message = problem.get("detail") or (problem.get("error") or {}).get("message") or problem
        super().__init__(f"the {service} rejected {path}: {message}", path=path, status=str(status))
        self.problem = {"status": status, **problem}


@value
class _Answer:
    """The response of a service.

    Attributes:
        status: HTTP status.
        raw: Body.
        pause_s: Time after which another attempt may succeed [s]; None where none can.
    """

    status: int
    raw: bytes
    pause_s: float | None


class RouterClient:
    """Talks to a running service; an async context manager.

    Args:
        url: Its REST API, e.g. `http://127.0.0.1:8080`.
        key: API key; empty where the router requires none.
        timeout_s: Time that one request is given [s]; without it a client would wait for ever on a lost connection.
        service: Which service it is.
        sleep: Waits before a request that came too soon is sent again.
    """

    def __init__(
        self, url: str, *, key: str = "", timeout_s: float, service: str = "router", sleep: Sleep = asyncio.sleep
    ) -> None:
        self._url = url.rstrip("/")
        self._service = service
        self._sleep = sleep
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s + GRACE_S)

    async def __aenter__(self) -> Self:
        # A connection of its own for each request: a server closes idle ones, and a request may meet just that.
        connector = aiohttp.TCPConnector(force_close=True)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def post(self, path: str, body: Body) -> Body:
        """Return its reply to `body`; where it is overloaded, or away for a named time, that of a later attempt.

        Raises:
            RequestRejected: When it rejects this request.
            ServiceUnreachable: When it serves no request now.
        """
        return await self._request("POST", path, orjson.dumps(body))

    async def get(self, path: str) -> Body:
        """Return its reply to a request without a body; raises as `post` does."""
        return await self._request("GET", path, None)

    async def _request(self, method: str, path: str, data: bytes | None) -> Body:
        answer = await self._attempt(method, path, data)
        for _ in range(REPEATS):
            if answer.pause_s is None:
                break
            await self._sleep(answer.pause_s)
            answer = await self._attempt(method, path, data)
        return _reply(self._service, path, answer.status, answer.raw)

    async def _attempt(self, method: str, path: str, data: bytes | None) -> _Answer:
        try:
            headers = {"Content-Type": "application/json"} if data is not None else {}
            async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
                pause_s = _pause_s(response.status, response.headers)
                return _Answer(status=response.status, raw=await response.read(), pause_s=pause_s)
        except (aiohttp.ClientError, TimeoutError) as lost:
            message = str(lost) or type(lost).__name__
            hint = f"is it running? (--{self._service})"
            raise ServiceUnreachable(f"no {self._service} answers at {self._url}: {message}; {hint}") from lost


def _pause_s(status: int, headers: Mapping[str, str]) -> float | None:
    """Time after which a request may be sent again [s]; None where that does not help.

    Example:
        >>> _pause_s(429, {"Retry-After": "2"}), _pause_s(429, {"Retry-After": "3600"}), _pause_s(429, {})
        (2.0, 30.0, 1.0)
        >>> _pause_s(503, {"Retry-After": "5"}), _pause_s(503, {})
        (5.0, None)
        >>> _pause_s(429, {"x-should-retry": "false"}), _pause_s(500, {})
        (None, None)
    """
    if status not in (TOO_MANY, AWAY) or headers.get("x-should-retry") == "false":
        return None
    header = headers.get("Retry-After", "")
    if header.isdecimal():
        return min(float(header), LONGEST_S)
    return USUAL_S if status == TOO_MANY else None


def _reply(service: str, path: str, status: int, raw: bytes) -> Body:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        document = {"detail": raw[:200].decode(errors="replace")}
    if status == 200 and isinstance(document, dict):
        return document
    problem = document if isinstance(document, dict) else {"detail": str(document)[:200]}
    if status in OF_THE_REQUEST:
        raise RequestRejected(path, status, problem, service)
    hint = f"; set METACOG_API_KEY to a key of the {service}" if status in (401, 403) else ""
    raise ServiceUnreachable(f"the {service} answered {path} with {status}: {problem.get('detail') or problem}{hint}")
