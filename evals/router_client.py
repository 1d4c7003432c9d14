"""The router as any client sees it: its public REST face."""

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
    """The router refused a request for what it is."""

    code = Code.FAILED_PRECONDITION
    reason = "REFUSED"

    def __init__(self, path: str, status: int, problem: Body) -> None:
        super().__init__(
            f"the router refused {path}: {problem.get('detail') or problem}", path=path, status=str(status)
        )
        self.problem = {"status": status, **problem}


class RouterClient:
    """Talks to a running router; an async context manager.

    Args:
        url: Its REST face, e.g. `http://127.0.0.1:8080`.
        key: API key; empty where the router asks for none.
        timeout_s: Time that one request is given [s]; without a bound a lost connection would be waited for for ever.
    """

    def __init__(self, url: str, *, key: str = "", timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s + GRACE_S)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=self._timeout)
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
        try:
            headers = {"Content-Type": "application/json"}
            async with self._session.post(self._url + path, data=orjson.dumps(body), headers=headers) as response:
                return _reply(path, response.status, await response.read())
        except (aiohttp.ClientError, TimeoutError) as lost:
            said = str(lost) or type(lost).__name__
            raise RouterAway(f"no router answers at {self._url}: {said}; is it running? (--router)") from lost


def _reply(path: str, status: int, raw: bytes) -> Body:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        document = {"detail": raw[:200].decode(errors="replace")}
    if status == 200 and isinstance(document, dict):
        return document
    problem = document if isinstance(document, dict) else {"detail": str(document)[:200]}
    if status in OF_THE_REQUEST:
        raise Refused(path, status, problem)
    hint = "; set METACOG_API_KEY to a key of the router" if status in (401, 403) else ""
    raise RouterAway(f"the router answered {path} with {status}: {problem.get('detail') or problem}{hint}")
