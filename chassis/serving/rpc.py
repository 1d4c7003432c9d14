"""Every service has this gRPC API: keys, trace, metrics, and errors as `google.rpc.Status` with `ErrorInfo`."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from chassis.clock import CALLER_WAITS_UNTIL
from chassis.serving.auth import ANYONE, ApiKey, Keyring
from chassis.serving.named_errors import named_error
from chassis.telemetry import IN_FLIGHT, REQUEST_SECONDS, REQUESTS, child, span
from kernel.errors import Code, MetacogError

DOMAIN = "metacog"
OPEN_SERVICES = ("/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/")

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]]
Context = aio.ServicerContext[Any, Any]
T = TypeVar("T")

if TYPE_CHECKING:  # generic in its stubs only
    Handler = grpc.RpcMethodHandler[Any, Any]


def status_of(error: MetacogError) -> status_pb2.Status:
    """Return the rich status of an error: code, message, and an `ErrorInfo` with reason and metadata."""
    detail = AnyMessage()
    detail.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata))
    return status_pb2.Status(code=code_pb2.Code.ValueType(error.code.grpc), message=error.message, details=[detail])


def caller(context: Context, keyring: Keyring) -> ApiKey:
    """Return the key of a call."""
    return keyring.holder(_metadata(context).get("authorization", ""))


def _metadata(context: Context) -> dict[str, str]:
    return {str(key): str(text) for key, text in context.invocation_metadata() or ()}


class RpcEdge(aio.ServerInterceptor):
    """The edge is the outermost layer of a gRPC API."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    async def intercept_service(self, continuation: Continuation, details: grpc.HandlerCallDetails) -> "Handler | None":
        """Wrap the handler of one method."""
        handler = await continuation(details)
        if handler is None or details.method.startswith(OPEN_SERVICES):
            return handler
        op = details.method.rsplit("/", 1)[-1]
        wrapped: Handler
        if handler.unary_unary:
            wrapped = grpc.unary_unary_rpc_method_handler(
                self._unary(handler.unary_unary, op), handler.request_deserializer, handler.response_serializer
            )
        else:
            wrapped = grpc.unary_stream_rpc_method_handler(
                self._stream(handler.unary_stream, op), handler.request_deserializer, handler.response_serializer
            )
        return wrapped

    def _unary(self, inner: Any, op: str) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        async def serve(request: Message, context: Context) -> Message | None:
            reply: Message | None = None
            with _watched(op, context) as watched:
                try:
                    self._admit(context)
                    reply = await inner(request, context)
                except Exception as error:  # noqa: BLE001 - the edge: any other exception is a bug, logged and named
                    watched.error = named_error(error, op=op)
            if watched.error is not None:
                await context.abort_with_status(rpc_status.to_status(status_of(watched.error)))
            return reply

        return serve

    def _stream(self, inner: Any, op: str) -> Any:  # noqa: ANN401 - grpc's handlers are untyped
        async def serve(request: Message, context: Context) -> AsyncIterator[Message]:
            with _watched(op, context) as watched:
                try:
                    self._admit(context)
                    async with aclosing(inner(request, context)) as replies:
                        async for reply in replies:
                            yield reply
                except Exception as error:  # noqa: BLE001 - the edge: any other exception is a bug, logged and named
                    watched.error = named_error(error, op=op)
            if watched.error is not None:
                await context.abort_with_status(rpc_status.to_status(status_of(watched.error)))

        return serve

    def _admit(self, context: Context) -> ApiKey:
        return caller(context, self._keyring) if self._keyring else ANYONE


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
