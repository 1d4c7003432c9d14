"""The services of the suite as any client sees them: their public REST faces."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from evals.errors import RouterAway
from kernel.errors import Code, MetacogError

# What a reply may take beyond the time that its request was given.
GRACE_S = 60.0
# Refusals of one request, which the next one need not meet.
OF_THE_REQUEST = frozenset({400, 404, 409, 413, 422, 504})

Body = Mapping[str, Any]


class Refused(MetacogError):
    """A service refused a request for what it is."""

    code = Code.FAILED_PRECONDITION
    reason = "REFUSED"

    def __init__(self, path: str, status: int, problem: Body, service: str = "router") -> None:
        said = problem.get("detail") or (problem.get("error") or {}).get("message") or problem
        super().__init__(f"the {service} refused {path}: {said}", path=path, status=str(status))
        self.problem = {"status": status, **problem}


class RouterClient:
    """Talks to a running service; an async context manager.

    Args:
        url: Its REST face, e.g. `http://127.0.0.1:8080`.
        key: API key; empty where the router asks for none.
        timeout_s: Time that one request is given [s]; without a bound a lost connection would be waited for for ever.
        service: Which service it is.
    """

    def __init__(self, url: str, *, key: str = "", timeout_s: float, service: str = "router") -> None:
        self._url = url.rstrip("/")
        self._service = service
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
        """Its reply to `body`.

        Raises:
            Refused: When it does not serve this request.
            RouterAway: When it serves none now.
        """
        return await self._asked("POST", path, orjson.dumps(body))

    async def get(self, path: str) -> Body:
        """Its reply to a question without a body; raises as `post` does."""
        return await self._asked("GET", path, None)

    async def _asked(self, method: str, path: str, data: bytes | None) -> Body:
        try:
            headers = {"Content-Type": "application/json"} if data is not None else {}
            async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
                return _reply(self._service, path, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError) as lost:
            said = str(lost) or type(lost).__name__
            hint = f"is it running? (--{self._service})"
            raise RouterAway(f"no {self._service} answers at {self._url}: {said}; {hint}") from lost


def _reply(service: str, path: str, status: int, raw: bytes) -> Body:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        document = {"detail": raw[:200].decode(errors="replace")}
    if status == 200 and isinstance(document, dict):
        return document
    problem = document if isinstance(document, dict) else {"detail": str(document)[:200]}
    if status in OF_THE_REQUEST:
        raise Refused(path, status, problem, service)
    hint = f"; set METACOG_API_KEY to a key of the {service}" if status in (401, 403) else ""
    raise RouterAway(f"the {service} answered {path} with {status}: {problem.get('detail') or problem}{hint}")
