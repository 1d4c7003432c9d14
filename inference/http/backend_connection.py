"""This module sends requests to one backend, with pools, circuit breakers, failover, retries and deadlines."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TypeVar

from inference.accounting.accounts import ExchangeAccount
from inference.config import BackendConfig
from inference.errors import (
    BackendUnauthorized,
    BackendUnavailable,
    CircuitOpen,
    EndpointNotServed,
    InferenceError,
    InvalidReply,
    ModelNotFound,
)
from inference.http import event_parser
from inference.http.circuit import RequestEnd
from inference.http.error_replies import error_of, missing_place, retry_after_s, status_of
from inference.http.open_stream import OpenStream
from inference.http.pools import Pool
from inference.http.replicas import Replica, Replicas
from inference.http.timing import DeadlineScope, Timing, pause_s
from inference.http.transport import (
    HttpReply,
    HttpStream,
    LostBeforeReply,
    MalformedReply,
    NotSent,
    Transport,
    TransportFailure,
)
from inference.spend import Spend
from inference.values import CHAT, Place, WorkKind
from kernel.envelope import BudgetExhausted

_log = logging.getLogger(__name__)

T = TypeVar("T")
Headers = Callable[[], Mapping[str, str]]


class RetryableFailure(Exception):
    """After this failure the same request may be sent again, if the envelope has what that may cost.

    Args:
        error: Raised when it is not sent again.
        after_s: Pause that the endpoint requested [s].
        elsewhere_only: Whether it may be sent again to another endpoint only.
    """

    def __init__(self, error: InferenceError, after_s: float | None = None, *, elsewhere_only: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.after_s = after_s
        self.elsewhere_only = elsewhere_only


class BackendConnection:
    """A backend connection sends requests to one backend, and raises a named error for every failure.

    A request that fails at one endpoint before the first byte of a reply has been passed on goes to another endpoint at
    once; where none is left, it is sent again after a pause.

    Args:
        config: The backend.
        transport: HTTP.
        timing: Clock, sleep and random numbers.
        headers: Headers to add to each request, such as the trace context.
    """

    def __init__(self, config: BackendConfig, transport: Transport, timing: Timing, headers: Headers) -> None:
        self.backend = config.name
        self._config = config
        self._transport = transport
        self._timing = timing
        self._headers = headers
        self._pools = {work: Pool(config.name, config.pool(work)) for work in WorkKind}
        self._replicas = Replicas(config.name, config.endpoints, config.circuit, timing.clock, self._problem_of)

    async def get(self, place: int, path: str) -> HttpReply:
        """Fetch `path` below the root of one endpoint, once, and in no pool; this is for short requests about it.

        Args:
            place: Place of the endpoint in the configuration, from 0.
            path: Path below its root.

        Raises:
            TransportFailure: When it cannot be reached.
        """
        replica = self._replicas.all[place]
        return await self._transport.get(f"{replica.endpoint.api_root}{path}", self.headers(replica))

    def leave_out(self, places: Collection[int]) -> None:
        """Give no requests to the endpoints at `places` from now on, and to all others."""
        self._replicas.leave_out(places)

    async def post(
        self, work: WorkKind, body: bytes, exchange: ExchangeAccount, spend: Spend, place: Place = CHAT
    ) -> HttpReply:
        """Send a request and wait for the whole reply, whose status is 200.

        Raises:
            InferenceError: Any of them but `UnparsableOutput`.
        """

        async def attempt(replica: Replica, limit: DeadlineScope) -> HttpReply:
            async with self._pools[work].slot():
                await replica.circuit.admit()
                with replica.under_way(), self._named_failures(replica, exchange, spend):
                    async with self._sent(replica, place, body, spend, limit) as stream:
                        reply = HttpReply(status=stream.status, headers=stream.headers, body=await stream.read())
                    self._check_reply(replica, place, reply, exchange, spend)
            return reply

        return await self._with_retries(attempt, exchange, spend)

    async def open(
        self, work: WorkKind, body: bytes, exchange: ExchangeAccount, spend: Spend, place: Place = CHAT
    ) -> OpenStream:
        """Send a request to be streamed, and wait for its first bytes; the stream holds its slot until closed.

        Raises:
            InferenceError: Any of them but `UnparsableOutput`.
        """

        async def attempt(replica: Replica, limit: DeadlineScope) -> OpenStream:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._pools[work].slot())
                await replica.circuit.admit()
                with self._named_failures(replica, exchange, spend):
                    stack.enter_context(replica.under_way())
                    sent = self._sent(replica, place, body, spend, limit)
                    stream = await stack.enter_async_context(sent)
                    is_good = stream.status == 200
                    # vLLM sends the head of a stream before its engine has done anything.
                    first = await sent.begun(anext(stream.chunks, b"")) if is_good else b""
                    body_of_error = b"" if is_good else await stream.read()
                    reply = HttpReply(status=stream.status, headers=stream.headers, body=body_of_error)
                    self._check_reply(replica, place, reply, exchange, spend)
                chunks = _with_first(first, stream.chunks)
                return OpenStream(self._config.name, chunks, event_parser.EventParser(), spend, stack.pop_all())

        return await self._with_retries(attempt, exchange, spend)

    async def aclose(self) -> None:
        """Close every connection."""
        for replica in self._replicas.all:
            replica.circuit.close()
        await self._transport.aclose()

    def headers(self, replica: Replica) -> dict[str, str]:
        """Return headers of a request."""
        return {**replica.headers, **self._headers()}

    async def _with_retries(
        self, attempt: Callable[[Replica, DeadlineScope], Awaitable[T]], exchange: ExchangeAccount, spend: Spend
    ) -> T:
        repetition = 0
        tried: set[Replica] = set()
        replica = self._replicas.choose()
        async with DeadlineScope(spend, self._config.name) as limit:
            while True:
                assert replica is not None
                tried.add(replica)
                try:
                    return await attempt(replica, limit)
                except (RetryableFailure, CircuitOpen) as failed:
                    other = self._replicas.other(tried)
                    wrong = failed.error if isinstance(failed, RetryableFailure) else failed
                    if other is not None and _reserve_retry(exchange):
                        _log.warning("%s; the request goes to %s", wrong.message, other.endpoint.url)
                        replica = other
                        continue
                    if isinstance(failed, CircuitOpen):
                        raise
                    pause = pause_s(self._config.retries, repetition, failed.after_s, self._timing.random_number())
                    if (
                        failed.elsewhere_only
                        or repetition == self._config.retries.count
                        or pause >= limit.left_s
                        or not _reserve_retry(exchange)
                    ):
                        raise failed.error from failed.__cause__
                repetition += 1
                await self._timing.sleep(pause)
                tried.clear()
                replica = self._replicas.choose()

    async def _problem_of(self, replica: Replica) -> str:
        """Return what is wrong with the server of `replica`; empty while it answers a request for its models."""
        within_s = self._config.circuit.probe_s
        try:
            async with asyncio.timeout(within_s):
                reply = await self._transport.get(f"{replica.endpoint.api_root}/models", self.headers(replica))
        except TimeoutError:
            return f"no answer within {within_s:g} s"
        except TransportFailure as failure:
            return str(failure)
        return f"status {reply.status}" if reply.status >= 500 else ""

    def _sent(self, replica: Replica, place: Place, body: bytes, spend: Spend, limit: DeadlineScope) -> "_Sent":
        reply = self._transport.stream(replica.address(place), self.headers(replica), body)
        return _Sent(reply, replica, spend, limit, self._timing.clock)

    def _named_failures(self, replica: Replica, exchange: ExchangeAccount, spend: Spend) -> "_NamedFailures":
        return _NamedFailures(self._config.name, replica, exchange, spend)

    def _check_reply(
        self, replica: Replica, place: Place, reply: HttpReply, exchange: ExchangeAccount, spend: Spend
    ) -> None:
        """Raise the named error for a reply that is not 200, as a retryable one where it is."""
        missing = missing_place(self._config.name, place, reply)
        status = 404 if missing else status_of(reply)
        replica.circuit.record(spend, RequestEnd.FAILED if status >= 500 or 200 < status < 400 else RequestEnd.ANSWERED)
        if status == 200:
            return
        if status < 500 or status == 503:
            exchange.mark_rejected()
        error = missing or error_of(self._config.name, self._config.model, reply)
        if status in (429, 503):
            raise RetryableFailure(error, retry_after_s(reply))
        if status >= 500 or isinstance(
            error, InvalidReply | BackendUnauthorized | ModelNotFound | EndpointNotServed
        ):  # another replica may have it right
            raise RetryableFailure(error, elsewhere_only=True)
        raise error


class _Sent:
    """This context sends a request and waits for the status of its reply; time that is over before is silence."""

    __slots__ = ("_clock", "_limit", "_replica", "_reply", "_since_s", "_spend")

    def __init__(
        self,
        reply: AbstractAsyncContextManager[HttpStream],
        replica: Replica,
        spend: Spend,
        limit: DeadlineScope,
        clock: Callable[[], float],
    ) -> None:
        self._reply = reply
        self._replica = replica
        self._spend = spend
        self._limit = limit
        self._clock = clock
        self._since_s = clock()

    async def __aenter__(self) -> HttpStream:
        return await self.begun(self._reply.__aenter__())

    async def begun(self, reply: Awaitable[T]) -> T:
        """Wait for what the reply begins with; time that is over before is silence."""
        try:
            return await reply
        except asyncio.CancelledError:
            if self._limit.is_over:
                waited_s = self._clock() - self._since_s
                self._replica.circuit.record(self._spend, RequestEnd.SILENT, waited_s=waited_s)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._reply.__aexit__(kind, error, trace)


class _NamedFailures:
    """This context around one request raises named errors for the transport's failures."""

    __slots__ = ("_backend", "_exchange", "_replica", "_spend")

    def __init__(self, backend: str, replica: Replica, exchange: ExchangeAccount, spend: Spend) -> None:
        self._backend = backend
        self._replica = replica
        self._exchange = exchange
        self._spend = spend

    def __enter__(self) -> None:
        self._exchange.mark_sent()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, TransportFailure):
            return
        name = self._backend
        self._replica.circuit.record(self._spend, RequestEnd.FAILED)
        if isinstance(error, MalformedReply):
            message = f"backend {name} sent an invalid reply: {error}"
            raise RetryableFailure(InvalidReply(message, backend=name), elsewhere_only=True) from error
        if isinstance(error, NotSent):
            self._exchange.mark_not_sent()
            message = f"backend {name} cannot be reached at {self._replica.endpoint.url}: {error}"
            raise RetryableFailure(BackendUnavailable(message, backend=name)) from error
        if isinstance(error, LostBeforeReply):
            message = f"backend {name} closed the connection without a reply: {error}"
            raise RetryableFailure(BackendUnavailable(message, backend=name)) from error
        message = f"backend {name} broke off in the middle of its reply: {error}"
        raise RetryableFailure(BackendUnavailable(message, backend=name), elsewhere_only=True) from error


async def _with_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes that were read already, then the rest."""
    if first:
        yield first
    async for chunk in rest:
        yield chunk


def _reserve_retry(exchange: ExchangeAccount) -> bool:
    """Return whether the cost of a retry could be reserved, which it then is."""
    try:
        exchange.reserve_retry()
    except BudgetExhausted:
        return False
    return True
