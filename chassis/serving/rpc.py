"""Every service has this gRPC API: keys, trace, metrics, and errors as `google.rpc.Status` with `ErrorInfo`."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from chassis.admission import CALLER_KEY
from chassis.clock import CALLER_WAITS_UNTIL
from chassis.errors import RequestTimeout, TooManyCallers
from chassis.serving.auth import OWNER, ApiKey, Keyring
from chassis.serving.named_errors import named_error
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, child, span
from kernel.errors import MAX_TEXT_BYTES, Code, MalformedRequest, MetacogError, cut_metadata, cut_text, cut_violations

DOMAIN = "metacog"
# Services without a contract of ours: health needs no key, reflection does where keys are configured.
OPEN_SERVICES = (
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
)
# Calls of these services at a time: of those that end at once, and of those that last.
MAX_OPEN_CALLS = 256
# What an error may take of the 8 KiB of headers that clients read [bytes].
MAX_HEADER_BYTES = 7168
# Characters of a message that gRPC does not percent-encode.
_UNQUOTED = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")

Requests = AsyncIterator[Message]
Continuation = Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]]
Context = aio.ServicerContext[Any, Any]
T = TypeVar("T")

if TYPE_CHECKING:  # generic in its stubs only
    Handler = grpc.RpcMethodHandler[Any, Any]


def status_of(error: MetacogError) -> status_pb2.Status:
    """Return the rich status of an error: code, message, `ErrorInfo`, and a `BadRequest` where fields are wrong.

    A client of gRPC reads headers of 8 KiB, and gets RESOURCE_EXHAUSTED in place of an error whose texts take more. So
    texts that do not fit are cut further than those of REST.
    """
    status = _status(error, MAX_TEXT_BYTES)
    most_bytes = MAX_TEXT_BYTES
    while _header_bytes(status) > MAX_HEADER_BYTES:  # an eighth of the first length always fits
        most_bytes //= 2
        status = _status(error, most_bytes)
    return status


def _status(error: MetacogError, most_bytes: int) -> status_pb2.Status:
    """Return the status with a message, with metadata, and with violations of so many bytes at most."""
    metadata = cut_metadata(error.metadata, most_bytes)
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)]
    if violations := cut_violations(error.violations, most_bytes):
        listed = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=text)
            for field, text in violations.items()
        ]
        details.append(error_details_pb2.BadRequest(field_violations=listed))
    message = cut_text(error.message, most_bytes)
    code = code_pb2.Code.ValueType(error.code.grpc)
    return status_pb2.Status(code=code, message=message, details=[_packed(detail) for detail in details])


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed


def _header_bytes(status: status_pb2.Status) -> int:
    """Return how many bytes a status takes in the headers: its message percent-encoded, and all of it as base64."""
    size: int = status.ByteSize()
    return len(quote(status.message, safe=_UNQUOTED)) + 4 * (size // 3 + 1)


def caller(context: Context, keyring: Keyring) -> ApiKey:
    """Return the key of a call, or that of the holder whom it is made for.

    Raises:
        Unauthenticated: When keys are configured and this call has none of them.
        OwnerNotAllowed: When its key may not act for others.
        MalformedRequest: When the name of the other holder cannot be read.
    """
    return keyring.owner(keyring.holder(_metadata(context).get("authorization", "")), _owner(context))


def _owner(context: Context) -> str:
    """Return the name of the key that a call is made for; empty for its own."""
    named = dict(context.invocation_metadata() or ()).get(OWNER, b"")
    try:
        return named.decode() if isinstance(named, bytes) else named
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"the metadata {OWNER} is not UTF-8", field=OWNER) from error


def _metadata(context: Context) -> dict[str, str]:
    return {str(key): str(text) for key, text in context.invocation_metadata() or ()}


class CallLimit:
    """A call limit bounds how many calls are open at a time.

    Args:
        most: Calls at a time.
        setting: The setting that changes it; empty: none does.
    """

    def __init__(self, most: int, setting: str = "") -> None:
        self._most = most
        self._setting = setting
        self._open = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Count one call.

        Raises:
            TooManyCallers: When as many are open already.
        """
        if self._open >= self._most:
            more = f", or raise {self._setting}" if self._setting else ""
            raise TooManyCallers(
                f"all {self._most} calls are in use; try again later{more}", most=str(self._most), retry_after_s="1"
            )
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class RpcEdge(aio.ServerInterceptor):
    """The edge is the outermost layer of a gRPC API.

    gRPC calls the handler of a single request only once it has read that message. So the edge declares every method as
    one with a stream of requests: it checks the key and the number of calls first, and then reads the one message.

    Args:
        keyring: Keys that are accepted.
        max_calls: Calls at a time, without those of health and reflection.
        message_timeout_s: Time within which a call's message must arrive [s].
    """

    def __init__(self, keyring: Keyring, *, max_calls: int, message_timeout_s: float) -> None:
        self._keyring = keyring
        self._calls = CallLimit(max_calls, "METACOG_<SERVICE>_MAX_CALLS")
        self._open_calls = {kind: CallLimit(MAX_OPEN_CALLS) for kind in ("brief", "lasting")}
        self._timeout_s = message_timeout_s

    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> "Handler | None":
        """Wrap the handler of one method."""
        handler = await continuation(details)
        if handler is None:
            return handler
        op = details.method.rsplit("/", 1)[-1]
        serve = self._open(handler) if details.method.startswith(OPEN_SERVICES) else self._keyed(handler, op)
        wrap = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        wrapped: Handler = wrap(serve, handler.request_deserializer, handler.response_serializer)
        return wrapped

    def _keyed(self, handler: "Handler", op: str) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        if handler.unary_unary:
            return self._unary(handler.unary_unary, op)
        return self._stream(handler.unary_stream, op)

    def _unary(self, inner: Any, op: str) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        async def serve(requests: Requests, context: Context) -> Message | None:
            reply: Message | None = None
            with _watched(op, context) as watched:
                try:
                    self._admit(context)
                    with self._calls.entered():
                        reply = await inner(await self._message(requests), context)
                except Exception as error:  # noqa: BLE001 - the edge: any other exception is a bug, logged and named
                    watched.error = named_error(error, op=op)
            if watched.error is not None:
                await _abort(context, watched.error)
            return reply

        return serve

    def _stream(self, inner: Any, op: str) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        async def serve(requests: Requests, context: Context) -> AsyncIterator[Message]:
            with _watched(op, context) as watched:
                try:
                    self._admit(context)
                    with self._calls.entered():
                        async with aclosing(inner(await self._message(requests), context)) as replies:
                            async for reply in replies:
                                yield reply
                except Exception as error:  # noqa: BLE001 - the edge: any other exception is a bug, logged and named
                    watched.error = named_error(error, op=op)
            if watched.error is not None:
                await _abort(context, watched.error)

        return serve

    def _open(self, handler: "Handler") -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        """Return the handler of health, whose calls end or watch and need no key, or of reflection."""
        if handler.unary_unary:
            return self._check(handler.unary_unary)
        if handler.unary_stream:
            return self._watch(handler.unary_stream)
        return self._reflect(handler.stream_stream)

    def _check(self, inner: Any) -> Any:  # noqa: ANN401
        async def serve(requests: Requests, context: Context) -> Message | None:
            reply: Message | None = None
            try:
                with self._open_calls["brief"].entered():
                    reply = await inner(await self._message(requests), context)
            except MetacogError as error:
                await _abort(context, error)
            return reply

        return serve

    def _watch(self, inner: Any) -> Any:  # noqa: ANN401
        async def serve(requests: Requests, context: Context) -> None:
            try:
                with self._open_calls["lasting"].entered():
                    await inner(await self._message(requests), context)
            except MetacogError as error:
                await _abort(context, error)

        return serve

    def _reflect(self, inner: Any) -> Any:  # noqa: ANN401
        async def serve(requests: Requests, context: Context) -> AsyncIterator[Message]:
            try:
                self._admit(context)
                with self._open_calls["lasting"].entered():
                    async for reply in inner(_readable(requests), context):
                        yield reply
            except MetacogError as error:
                await _abort(context, error)

        return serve

    async def _message(self, requests: Requests) -> Message:
        """Return the one message of a call.

        Raises:
            RequestTimeout: When it does not arrive in time.
            MalformedRequest: When there is none, or it cannot be read.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await anext(_readable(requests))
        except TimeoutError:
            seconds = f"{self._timeout_s:g}"
            raise RequestTimeout(f"the message did not arrive within {seconds} s", timeout_s=seconds) from None
        except StopAsyncIteration:
            raise MalformedRequest("the call has no message", field="message") from None

    def _admit(self, context: Context) -> None:
        """Note whose call it is.

        Raises:
            Unauthenticated, OwnerNotAllowed, MalformedRequest: As `caller` does.
        """
        CALLER_KEY.set(caller(context, self._keyring).name)


async def _readable(requests: Requests) -> Requests:
    """Yield the messages of a call.

    Raises:
        MalformedRequest: When one cannot be read.
    """
    try:
        async for message in requests:
            yield message
    except DecodeError as error:
        raise MalformedRequest(f"the message is not one of this call: {error}", field="message") from error


async def _abort(context: Context, error: MetacogError) -> None:
    """End a call with an error."""
    await context.abort_with_status(rpc_status.to_status(status_of(error)))


class _watched:  # noqa: N801 - used as a statement
    """This context sets span, metrics and the caller's deadline around one call."""

    def __init__(self, op: str, context: Context) -> None:
        self._op = op
        self._span = span(op, SpanKind.SERVER, _metadata(context))
        self._began = time.perf_counter()
        self._waits = context.time_remaining()
        self.error: MetacogError | None = None

    def __enter__(self) -> "_watched":
        child(IN_FLIGHT, "grpc").inc()
        CALLER_WAITS_UNTIL.set(None if self._waits is None else time.monotonic() + self._waits)
        self._span.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:  # noqa: ANN401
        self._span.__exit__(kind, error, trace)
        child(IN_FLIGHT, "grpc").dec()
        child(REQUEST_SECONDS, "grpc", self._op).observe(time.perf_counter() - self._began)
        child(REQUESTS, "grpc", self._op, self._code(error)).inc()

    def _code(self, error: BaseException | None) -> str:
        if error is not None:
            return Code.CANCELLED.name
        return self.error.code.name if self.error else "OK"
