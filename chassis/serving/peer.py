"""A peer is another service of the suite: deadline, cancellation, trace, owner and errors are passed on."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from chassis.admission import CALLER_KEY
from chassis.errors import PeerError, PeerUnavailable
from chassis.serving.auth import OWNER, bearer
from chassis.serving.server import MAX_MESSAGE_BYTES
from chassis.telemetry import trace_headers
from kernel.errors import Code

R = TypeVar("R", bound=Message)

# On one channel some of 2,000 concurrent unary calls end with CANCELLED; 1,000 were fine, repeatedly.
MAX_IN_FLIGHT = 512

REPLIES = "replies"
NOT_SENT = "not sent"
CHECK_S = 1.5


class Peer:
    """A peer is a client of one other service, over one channel.

    Args:
        name: Name of the service, for messages.
        address: `host:port`, or any gRPC target that resolves to several replicas.
        key: API key to present; empty for none. The key of the request that is served is named beside it.
        max_in_flight: Calls in flight at once; further ones wait.
    """

    def __init__(self, name: str, address: str, *, key: str = "", max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self.name = name
        self.address = address
        self._auth = tuple(bearer(key).items())
        self._free = asyncio.Semaphore(max_in_flight)
        self.channel = aio.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.lb_policy_name", "round_robin"),
                ("grpc.initial_reconnect_backoff_ms", 200),
                ("grpc.max_reconnect_backoff_ms", 2000),
                ("grpc.dns_min_time_between_resolutions_ms", 2000),  # a replica that comes back has a new address
            ],
        )

    async def call(self, method: Callable[..., Awaitable[R]], request: Message, *, timeout_s: float) -> R:
        """Return the reply of one unary call.

        Args:
            method: Method of a stub made on `channel`.
            request: The request.
            timeout_s: Time the reply may take, waiting for a free place included [s].

        Raises:
            PeerUnavailable: When the service cannot be reached.
            PeerError: When it returns an error, with its code and reason.
        """
        async with _deadline(self.name, timeout_s), self._free:
            try:
                return await method(request, timeout=timeout_s, metadata=self._metadata())
            except aio.AioRpcError as error:
                raise self._peer_error(error) from error

    async def stream(
        self, method: Callable[..., AsyncIterable[R]], request: Message, *, timeout_s: float
    ) -> AsyncGenerator[R, None]:
        """Yield the replies of one server-streaming call; closing the generator cancels the call at the other side.

        An error's metadata has under `replies` how many came before it, or that the request was never sent.

        Raises:
            PeerUnavailable: When the service cannot be reached.
            PeerError: When it returns an error, with its code and reason.
        """
        began, replies = time.monotonic(), 0
        call: Any = None
        try:
            async with _deadline(self.name, timeout_s):
                await self._free.acquire()
        except PeerError as failure:
            failure.metadata[REPLIES] = NOT_SENT
            raise
        try:
            left_s = max(0.001, timeout_s - (time.monotonic() - began))
            call = method(request, timeout=left_s, metadata=self._metadata())
            async for reply in call:
                replies += 1
                yield reply
        except aio.AioRpcError as error:
            peer_error = self._peer_error(error)
            peer_error.metadata[REPLIES] = str(replies)
            raise peer_error from error
        finally:
            if call is not None:
                call.cancel()
            self._free.release()

    async def check(self) -> None:
        """Return if the service reports that it serves.

        Raises:
            PeerUnavailable: When it does not.
        """
        stub = health_pb2_grpc.HealthStub(self.channel)
        try:
            reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=CHECK_S)
        except aio.AioRpcError as error:
            raise self._peer_error(error) from error
        if reply.status != health_pb2.HealthCheckResponse.SERVING:
            raise PeerUnavailable(f"{self.name} at {self.address} is not serving", peer=self.name)

    async def close(self) -> None:
        """Close the channel."""
        await self.channel.close()

    def _metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        owner = CALLER_KEY.get()
        return (*self._auth, *trace_headers().items(), *([(OWNER, owner.encode())] if owner else []))

    def _peer_error(self, error: aio.AioRpcError) -> PeerUnavailable | PeerError:
        status = rpc_status.from_call(error)
        info, invalid = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        has_info = False
        for detail in status.details if status else ():
            has_info = detail.Unpack(info) or has_info
            detail.Unpack(invalid)
        if has_info:
            code = Code.from_grpc(status.code)
            known = PeerError(f"{self.name}: {status.message}", code, info.reason, **dict(info.metadata))
            return known.with_violations({each.field: each.description for each in invalid.field_violations})
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return PeerUnavailable(
                f"{self.name} at {self.address} cannot be reached: {error.details()}",
                peer=self.name,
                address=self.address,
            )
        code = Code.from_grpc(error.code().value[0])
        return PeerError(f"{self.name}: {error.details()}", code, code.name)


@asynccontextmanager
async def _deadline(name: str, timeout_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        message = f"{name} did not answer within {timeout_s:.3g} s"
        raise PeerError(message, Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED") from error
