"""The services' REST faces, as any client uses them; what they refuse comes back as the refusal they named."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from chassis.errors import PeerRefused, PeerUnavailable
from chassis.serving.auth import bearer
from inference.http.event_parser import EventTooLong, Parser
from kernel.errors import Code

Body = dict[str, Any]
Event = tuple[str, Body]

CONNECT_S = 5.0
REPLY_S = 30.0
# Services send a heartbeat every 15 s; after this much silence a stream is taken for dead [s].
SILENCE_S = 60.0
CHECK_S = 1.5


def segment(text: str) -> str:
    """`text` as one segment of a path.

    Example:
        >>> segment("a/b c")
        'a%2Fb%20c'
    """
    return quote(text, safe="")


class Face:
    """One service's REST face.

    Args:
        name: Name of the service, for messages.
        url: Where it is.
        http: Connections; the owner closes them.
    """

    def __init__(self, name: str, url: str, http: aiohttp.ClientSession) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self._http = http

    async def get(self, path: str, *, key: str = "", **query: object) -> Body:
        """Reply to a GET; parameters that are None or empty are left out."""
        asked = {name: _text(item) for name, item in query.items() if item not in (None, "")}
        return await self._reply("GET", path, key, params=asked)

    async def post(self, path: str, body: Mapping[str, Any], *, key: str = "") -> Body:
        """Reply to a POST."""
        return await self._reply("POST", path, key, data=orjson.dumps(body))

    async def delete(self, path: str, *, key: str = "") -> Body:
        """Reply to a DELETE."""
        return await self._reply("DELETE", path, key)

    async def stream(
        self, path: str, body: Mapping[str, Any], *, key: str = "", timeout_s: float
    ) -> AsyncGenerator[Event, None]:
        """Events of a POST that streams; closing the generator hangs up, which stops the work at the other side.

        Raises:
            PeerUnavailable: When the service cannot be reached, or the connection breaks.
            PeerRefused: When it refuses, before the first event or by a last one.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        headers = {**bearer(key), "accept": "text/event-stream", "content-type": "application/json"}
        try:
            async with self._http.post(
                self._url(path), data=orjson.dumps(body), headers=headers, timeout=timeout
            ) as reply:
                if reply.status >= 400:
                    raise self._refusal(await reply.read(), reply.status)
                async for event in self._events(reply):
                    yield event
        except (aiohttp.ClientError, TimeoutError, EventTooLong) as broken:
            raise self._away(broken) from broken

    async def check(self) -> None:
        """Return if the service can be reached and is ready.

        Raises:
            PeerUnavailable: When it does not.
        """
        report = await self.readiness()
        if not report.get("ready"):
            raise PeerUnavailable(f"{self.name} at {self.url} is not ready", peer=self.name)

    async def readiness(self) -> Body:
        """What `/readyz` says.

        Raises:
            PeerUnavailable: When the service cannot be reached.
        """
        timeout = aiohttp.ClientTimeout(total=CHECK_S * 2, sock_connect=CHECK_S)
        try:
            async with self._http.get(self._url("/readyz"), timeout=timeout) as reply:
                said: Body = orjson.loads(await reply.read())
                return said
        except (aiohttp.ClientError, TimeoutError, ValueError) as broken:
            raise self._away(broken) from broken

    async def _reply(self, method: str, path: str, key: str, **more: Any) -> Body:  # noqa: ANN401 - aiohttp's own
        timeout = aiohttp.ClientTimeout(total=REPLY_S, sock_connect=CONNECT_S)
        headers = {**bearer(key), "content-type": "application/json"}
        try:
            async with self._http.request(method, self._url(path), headers=headers, timeout=timeout, **more) as reply:
                raw = await reply.read()
                if reply.status >= 400:
                    raise self._refusal(raw, reply.status)
                said: Body = orjson.loads(raw)
                return said
        except (aiohttp.ClientError, TimeoutError, ValueError) as broken:
            raise self._away(broken) from broken

    async def _events(self, reply: aiohttp.ClientResponse) -> AsyncGenerator[Event, None]:
        parser = Parser()
        async for chunk in reply.content.iter_any():
            for event in parser.feed(chunk):
                if event.data is None:
                    continue
                if event.name == "error":
                    raise self._refusal(event.data, 500)
                yield event.name, orjson.loads(event.data)

    def _url(self, path: str) -> URL:
        return URL(self.url + path, encoded=True)

    def _refusal(self, raw: bytes, status: int) -> PeerRefused:
        """The refusal that a problem document tells of; one without a document keeps its status."""
        try:
            told = orjson.loads(raw)
            code, reason, detail = Code[told["code"]], str(told["reason"]), str(told["detail"])
            metadata = {str(name): str(item) for name, item in (told.get("metadata") or {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            code = Code.from_http(status)
            return PeerRefused(f"{self.name} answered with HTTP status {status}", code, code.name)
        return PeerRefused(detail, code, reason, **metadata)

    def _away(self, broken: Exception) -> PeerUnavailable:
        why = "no answer in time" if isinstance(broken, asyncio.TimeoutError) else str(broken) or type(broken).__name__
        said = f"The {self.name} at {self.url} cannot be reached: {why}"
        return PeerUnavailable(said, peer=self.name, address=self.url)


def _text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)
