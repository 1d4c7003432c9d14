"""The way to one backend: places, circuit breaker, retries and deadline around the transport."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import TypeVar

from chassis.inference import sse
from chassis.inference.accounts import Exchange
from chassis.inference.breaker import Admission, Breaker
from chassis.inference.config import BackendConfig
from chassis.inference.errors import BackendUnavailable, InferenceError
from chassis.inference.opened import Opened
from chassis.inference.pools import Pool
from chassis.inference.refusals import refusal, retry_after_s
from chassis.inference.timing import InTime, Timing, pause_s
from chassis.inference.transport import HttpReply, HttpStream, LostBeforeReply, LostMidReply, NotSent, Transport
from chassis.inference.values import Work
from chassis.spend import Spend
from kernel.envelope import BudgetExhausted

T = TypeVar("T")
Headers = Callable[[], Mapping[str, str]]


class Repeatable(Exception):
    """A failure after which the same request may be sent again, if the envelope holds what that may cost.

    Args:
        error: What to raise when it is not.
        after_s: How long the backend asked to wait [s].
    """

    def __init__(self, error: InferenceError, after_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.after_s = after_s


class Link:
    """Sends requests to one backend; everything that can go wrong on the way has a name afterwards.

    Args:
        config: The backend.
        transport: HTTP.
        timing: Time and chance.
        headers: Headers to add to each request, such as the trace context.
    """

    def __init__(self, config: BackendConfig, transport: Transport, timing: Timing, headers: Headers) -> None:
        self.backend = config.name
        self._config = config
        self._transport = transport
        self._timing = timing
        self._headers = headers
        self._url = f"{config.api_root}/chat/completions"
        self._pools = {work: Pool(config.name, config.pool(work)) for work in Work}
        self._breaker = Breaker(config.name, config.breaker, timing.clock)

    async def get(self, path: str) -> HttpReply:
        """Fetch `path` below the API's root, once, and in no pool: it is for small questions about the backend.

        Raises:
            TransportFailure: When the backend cannot be reached.
        """
        return await self._transport.get(f"{self._config.api_root}{path}", self.headers())

    async def post(self, work: Work, body: bytes, exchange: Exchange, spend: Spend) -> HttpReply:
        """Send a chat completion and wait for the whole reply, whose status is 200.

        Raises:
            InferenceError: Any of them but `UnparsableOutput`.
        """

        async def attempt(limit: InTime) -> HttpReply:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._pools[work].place())
                with self._breaker.admitted() as admission, self._judged(exchange, admission):
                    stream = await self._begun(stack, body, admission, limit)
                    reply = HttpReply(status=stream.status, headers=stream.headers, body=await _all(stream.chunks))
                    self._judge(reply, exchange, admission)
            return reply

        return await self._repeated(attempt, exchange, spend)

    async def open(self, work: Work, body: bytes, exchange: Exchange, spend: Spend) -> Opened:
        """Send a chat completion to be streamed, and wait for status 200. The place is held until it is closed.

        Raises:
            InferenceError: Any of them but `UnparsableOutput`.
        """

        async def attempt(limit: InTime) -> Opened:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._pools[work].place())
                with self._breaker.admitted() as admission, self._judged(exchange, admission):
                    stream = await self._begun(stack, body, admission, limit)
                    refused = b"" if stream.status == 200 else await _all(stream.chunks)
                    reply = HttpReply(status=stream.status, headers=stream.headers, body=refused)
                    self._judge(reply, exchange, admission)
                return Opened(self._config.name, stream.chunks, sse.Parser(), spend, stack.pop_all())

        return await self._repeated(attempt, exchange, spend)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    def headers(self) -> dict[str, str]:
        """Headers of a request."""
        key = self._config.api_key
        bearer = {"authorization": f"Bearer {key}"} if key else {}
        return {"content-type": "application/json", **bearer, **self._headers()}

    async def _repeated(self, attempt: Callable[[InTime], Awaitable[T]], exchange: Exchange, spend: Spend) -> T:
        repetition = 0
        async with InTime(spend, self._config.name) as limit:
            while True:
                try:
                    return await attempt(limit)
                except Repeatable as failed:
                    pause = pause_s(self._config.retries, repetition, failed.after_s, self._timing.chance())
                    if repetition == self._config.retries.count or pause >= limit.left_s or not _affords(exchange):
                        raise failed.error from failed.__cause__
                repetition += 1
                await self._timing.sleep(pause)

    async def _begun(self, stack: AsyncExitStack, body: bytes, admission: Admission, limit: InTime) -> HttpStream:
        """A reply, from its status on, that `stack` holds open; none in all the time it had may count as a failure."""
        given_s = limit.left_s
        try:
            return await stack.enter_async_context(self._transport.stream(self._url, self.headers(), body))
        except asyncio.CancelledError:
            if limit.is_over and given_s >= self._config.breaker.hang_s:
                admission.failed()
            raise

    @contextmanager
    def _judged(self, exchange: Exchange, admission: Admission) -> Iterator[None]:
        """Name the transport's failures, and say which may be repeated."""
        exchange.leaving()
        name = self._config.name
        try:
            yield
        except NotSent as failure:
            exchange.never_left()
            admission.failed()
            message = f"backend {name} cannot be reached at {self._config.base_url}: {failure}"
            raise Repeatable(BackendUnavailable(message, backend=name)) from failure
        except LostBeforeReply as failure:
            admission.failed()
            message = f"backend {name} closed the connection without a reply: {failure}"
            raise Repeatable(BackendUnavailable(message, backend=name)) from failure
        except LostMidReply as failure:
            admission.failed()
            message = f"backend {name} broke off in the middle of its reply: {failure}"
            raise BackendUnavailable(message, backend=name) from failure

    def _judge(self, reply: HttpReply, exchange: Exchange, admission: Admission) -> None:
        """Raise the named error for a reply that is not 200, and say whether it may be repeated."""
        if reply.status >= 500:
            admission.failed()
        else:
            admission.worked()
        if reply.status == 200:
            return
        if reply.status < 500 or reply.status == 503:
            exchange.generated_nothing()
        error = refusal(self._config.name, self._config.model, reply)
        if reply.status in (429, 503):
            raise Repeatable(error, retry_after_s(reply))
        raise error


def _affords(exchange: Exchange) -> bool:
    """Whether what was lost could be reserved anew; then it is."""
    try:
        exchange.again()
    except BudgetExhausted:
        return False
    return True


async def _all(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])
