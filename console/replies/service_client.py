"""A client of the services' REST APIs: replies are messages of the contract; an error is raised with its own reason."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
from google.protobuf.message import Message
from yarl import URL

from chassis.errors import PeerError, PeerUnavailable
from chassis.serving.auth import bearer
from chassis.serving.wire import from_rest
from inference import EventParser, EventTooLong
from kernel.errors import Code
from kernel.values import value

M = TypeVar("M", bound=Message)

CONNECT_S = 5.0
REPLY_S = 30.0
# Services send a heartbeat every 15 s; a stream without data for this time is broken [s].
SILENCE_S = 60.0
CHECK_S = 1.5


def segment(text: str) -> str:
    """Quote `text` as one segment of a path.

    Example:
        >>> segment("a/b c")
        'a%2Fb%20c'
    """
    return quote(text, safe="")


@value
class Recorded(Generic[M]):
    """A record is a reply with its JSON as the service sent it, for a reader.

    Attributes:
        message: The reply.
        text: The JSON, indented.
    """

    message: M
    text: str


class ServiceClient:
    """A client of one service's REST API.

    Args:
        name: Name of the service, for messages.
        url: Its URL.
        http: HTTP session; its owner closes it.
    """

    def __init__(self, name: str, url: str, http: aiohttp.ClientSession) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self._http = http

    async def get(self, path: str, kind: type[M], *, key: str = "", **query: object) -> M:
        """Return the reply to a GET, which is sent without the parameters that are None or empty."""
        parameters = {name: _text(item) for name, item in query.items() if item not in (None, "")}
        return self._message(await self._reply("GET", path, key, params=parameters), kind)

    async def get_record(self, path: str, kind: type[M], *, key: str = "") -> Recorded[M]:
        """Return the reply to a GET, with its JSON."""
        content = await self._reply("GET", path, key)
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
        return Recorded(message=self._message(content, kind), text=text)

    async def post(self, path: str, body: Mapping[str, Any], kind: type[M], *, key: str = "") -> M:
        """Return the reply to a POST."""
        return self._message(await self._reply("POST", path, key, data=orjson.dumps(body)), kind)

    async def delete(self, path: str, kind: type[M], *, key: str = "") -> M:
        """Return the reply to a DELETE."""
        return self._message(await self._reply("DELETE", path, key), kind)

    async def stream(
        self, path: str, body: Mapping[str, Any], kind: type[M], *, key: str = "", timeout_s: float
    ) -> AsyncGenerator[tuple[str, Message], None]:
        """Yield the events of a POST, each with its name in the contract.

        Closing the generator closes the connection, which stops the service's work.

        Args:
            path: The path.
            body: The request.
            kind: Message of the contract whose `event` has them; an event that it lacks is left out.
            key: API key.
            timeout_s: Time that all of it may take [s, > 0].

        Raises:
            PeerUnavailable: The service cannot be reached, or the connection breaks off.
            PeerError: The service returned an error, at once or within the stream.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        headers = {**bearer(key), "accept": "text/event-stream", "content-type": "application/json"}
        try:
            async with self._http.post(
                self._url(path), data=orjson.dumps(body), headers=headers, timeout=timeout
            ) as reply:
                if reply.status >= 400:
                    raise self._error(await reply.read(), reply.status)
                async for event in self._events(reply, kind):
                    yield event
        except (aiohttp.ClientError, TimeoutError, EventTooLong) as error:
            raise self._unavailable(error) from error

    async def check(self) -> None:
        """Return if the service can be reached and is ready.

        Raises:
            PeerUnavailable: The service cannot be reached, or is not ready.
        """
        timeout = aiohttp.ClientTimeout(total=CHECK_S * 2, sock_connect=CHECK_S)
        try:
            async with self._http.get(self._url("/readyz"), timeout=timeout) as reply:
                report = orjson.loads(await reply.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._unavailable(error) from error
        if not report.get("ready"):
            raise PeerUnavailable(f"{self.name} at {self.url} is not ready", peer=self.name)

    async def _reply(self, method: str, path: str, key: str, **more: Any) -> object:  # noqa: ANN401 - aiohttp's own
        timeout = aiohttp.ClientTimeout(total=REPLY_S, sock_connect=CONNECT_S)
        headers = {**bearer(key), "content-type": "application/json"}
        try:
            async with self._http.request(method, self._url(path), headers=headers, timeout=timeout, **more) as reply:
                raw = await reply.read()
                if reply.status >= 400:
                    raise self._error(raw, reply.status)
                content: object = orjson.loads(raw)
                return content
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise self._unavailable(error) from error

    async def _events(self, reply: aiohttp.ClientResponse, kind: type[M]) -> AsyncGenerator[tuple[str, Message], None]:
        parser = EventParser()
        async for chunk in reply.content.iter_any():
            for event in parser.feed(chunk):
                if event.data is None:
                    continue
                if event.name == "error":
                    raise self._error(event.data, 500)
                said = self._message({event.name: orjson.loads(event.data)}, kind)
                if name := said.WhichOneof("event"):
                    yield name, getattr(said, name)

    def _message(self, content: object, kind: type[M]) -> M:
        """Return JSON of the service as a message.

        Raises:
            PeerError: It has another form than the contract's.
        """
        try:
            return from_rest(content, kind)
        except ValueError as error:
            message = f"The {self.name} at {self.url} has another version than the console: {error}"
            raise PeerError(message, Code.INTERNAL, "INTERNAL") from error

    def _url(self, path: str) -> URL:
        return URL(self.url + path, encoded=True)

    def _error(self, raw: bytes, status: int) -> PeerError:
        """Return the error in a problem document; without a document it has the status only."""
        try:
            problem = orjson.loads(raw)
            code, reason, detail = Code[problem["code"]], str(problem["reason"]), str(problem["detail"])
            metadata = {str(name): str(item) for name, item in (problem.get("metadata") or {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            code = Code.from_http(status)
            return PeerError(f"{self.name} answered with HTTP status {status}", code, code.name)
        return PeerError(detail, code, reason, **metadata)

    def _unavailable(self, broken: Exception) -> PeerUnavailable:
        timed_out = isinstance(broken, asyncio.TimeoutError)
        reason = "no answer in time" if timed_out else str(broken) or type(broken).__name__
        message = f"The {self.name} at {self.url} cannot be reached: {reason}"
        return PeerUnavailable(message, peer=self.name, address=self.url)


def _text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)
