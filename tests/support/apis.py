"""The two APIs of a service, served in this process, and one way to ask either of them.

    async with serving(app, server) as running:
        api = RestApi(running.rest, CONTRACT)        # or RpcApi(running.grpc, CONTRACT)
        reply = await api.ask("Route", msv={"correctness": 0.9, "conflict": 0.1})

Requests and replies are plain data as REST spells them; an error is an `ApiError` on both APIs.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import httpx
import uvicorn
from fastapi import FastAPI
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc import aio
from grpc_status import rpc_status

from chassis.serving.auth import TEACH, ApiKey
from chassis.serving.contract import http_rule
from chassis.serving.server import bound_socket
from chassis.serving.wire import event, plain, to_proto
from kernel.errors import Code

Body = dict[str, Any]
Events = list[tuple[str, Body]]


@dataclass(frozen=True)
class Running:
    """Where a service is."""

    rest: str
    grpc: str


def teaching_key(name: str) -> ApiKey:
    """Return the key of a holder who may teach; the key is its name."""
    return ApiKey(name=name, sha256=sha256(name.encode()).hexdigest(), allowed=frozenset({TEACH}))


class ApiError(Exception):
    """An error, as a client sees it on either API."""

    def __init__(
        self, code: str, reason: str, message: str, metadata: Mapping[str, str], violations: Sequence[tuple[str, str]]
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata)
        self.violations = list(violations)


class Api(Protocol):
    """One API of a service."""

    async def ask(self, operation: str, **body: Any) -> Body:  # noqa: ANN401
        """Reply of one operation; of one that streams, the content of its last event."""

    async def events(self, operation: str, **body: Any) -> Events:  # noqa: ANN401
        """Names and contents of the events of an operation that streams."""


@dataclass(frozen=True)
class RestApi:
    """REST, by the paths of the contract."""

    url: str
    contract: ServiceDescriptor
    headers: Mapping[str, str] = field(default_factory=dict)

    async def ask(self, operation: str, **body: Any) -> Body:  # noqa: ANN401
        """The JSON reply."""
        reply: Body = (await self.send(operation, body)).json()
        return reply

    async def events(self, operation: str, **body: Any) -> Events:  # noqa: ANN401
        """The server-sent events."""
        reply = await self.send(operation, body, {"accept": "text/event-stream"})
        return read_events(reply.text)

    async def send(self, operation: str, body: Body, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """The reply as it came; a problem document is raised."""
        verb, path = http_rule(self.contract.methods_by_name[operation])
        query = {} if verb == "POST" else {name: item for name, item in body.items() if f"{{{name}}}" not in path}
        content = json.dumps(body) if verb == "POST" else None
        async with httpx.AsyncClient(base_url=self.url, timeout=60, verify=False) as client:
            reply = await client.request(
                verb,
                path.format(**body),
                params=query,
                content=content,
                headers={"content-type": "application/json", **self.headers, **(headers or {})},
            )
        if reply.status_code >= 400:
            told = reply.json()
            assert reply.headers["content-type"] == "application/problem+json"
            assert told["status"] == reply.status_code == Code[told["code"]].http
            raise _told_error(told)
        return reply


def _told_error(told: Body) -> ApiError:
    """The error in a problem document."""
    wrong = [(each["field"], each["description"]) for each in told["errors"]]
    return ApiError(told["code"], told["reason"], told["detail"], told["metadata"], wrong)


def read_events(text: str) -> Events:
    """Server-sent events: comments are left out; an event called `error` is raised."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    if found and found[-1][0] == "error":
        told = found[-1][1]
        raise _told_error(told)
    return found


@dataclass(frozen=True)
class RpcApi:
    """gRPC, by the methods of the contract."""

    address: str
    contract: ServiceDescriptor
    metadata: tuple[tuple[str, str], ...] = ()

    async def ask(self, operation: str, **body: Any) -> Body:  # noqa: ANN401
        """The reply as plain data."""
        method = self.contract.methods_by_name[operation]
        if method.server_streaming:
            return (await self.events(operation, **body))[-1][1]
        return plain((await self.messages(operation, body))[-1])

    async def events(self, operation: str, **body: Any) -> Events:  # noqa: ANN401
        """The streamed events as plain data."""
        return [event(message) for message in await self.messages(operation, body)]

    async def messages(self, operation: str, body: Body) -> list[Message]:
        """The messages as they came; a status is raised."""
        method = self.contract.methods_by_name[operation]
        request = to_proto(body, GetMessageClass(method.input_type))
        async with aio.insecure_channel(self.address) as channel:
            try:
                return [reply async for reply in _called(channel, method, request, self.metadata)]
            except aio.AioRpcError as error:
                raise api_error(error) from error


def api_error(error: aio.AioRpcError) -> ApiError:
    """The refusal in a rich status."""
    status = rpc_status.from_call(error)
    assert status is not None, f"a status without details: {error.code()} {error.details()}"
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, info.domain) == (error.code().value[0], "metacog")
    invalid = error_details_pb2.BadRequest()
    assert all(detail.Unpack(invalid) for detail in status.details[1:])
    wrong = [(each.field, each.description) for each in invalid.field_violations]
    return ApiError(Code.from_grpc(status.code).name, info.reason, status.message, info.metadata, wrong)


async def _called(
    channel: aio.Channel, method: MethodDescriptor, request: Message, metadata: tuple[tuple[str, str], ...]
) -> AsyncIterator[Message]:
    path = f"/{method.containing_service.full_name}/{method.name}"
    written: Callable[[Message], bytes] = type(request).SerializeToString
    read: Callable[[bytes], Message] = GetMessageClass(method.output_type).FromString
    if method.server_streaming:
        async for reply in channel.unary_stream(path, written, read)(request, timeout=60, metadata=metadata):
            yield reply
    else:
        yield await channel.unary_unary(path, written, read)(request, timeout=60, metadata=metadata)


class _Web(uvicorn.Server):
    """Uvicorn that leaves signals to pytest."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: FastAPI, server: aio.Server) -> AsyncIterator[Running]:
    """Serve both APIs on free ports of loopback."""
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    listening = bound_socket("127.0.0.1", 0, "")
    web = _Web(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(web.serve(sockets=[listening]))
    try:
        yield Running(rest=f"http://127.0.0.1:{listening.getsockname()[1]}", grpc=f"127.0.0.1:{port}")
    finally:
        web.should_exit = True
        await serving
        await server.stop(0)
