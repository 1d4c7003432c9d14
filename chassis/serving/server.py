"""This module serves both APIs of a service in one process and one loop, with a clean start and a clean stop."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass

import grpc
import uvicorn
import uvloop
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection, reflection_pb2

from chassis import telemetry
from chassis.errors import ConfigurationInvalid
from chassis.log import logger
from chassis.serving.auth import Keyring
from chassis.serving.connections import http_config
from chassis.serving.health import Health
from chassis.serving.origins import AllowedHosts
from chassis.serving.rest import Application
from chassis.serving.rpc import MAX_OPEN_CALLS, Context, RpcEdge
from chassis.settings import ApiSettings, HttpSettings
from kernel.errors import MetacogError

# What a gRPC server accepts unless its settings say otherwise; what it sends may be larger, such as a page of runs.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_SENT_BYTES = 16 * 1024 * 1024
MAX_CALLS = 1024
MESSAGE_TIMEOUT_S = 60.0

# Clients look an address up anew when a connection ends: so replicas added later get calls too. Calls under way go on.
MAX_CONNECTION_AGE_MS = 300_000

# The stable name of reflection, which newer clients ask for first; the library serves the earlier one only.
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"

_log = logger(__name__)


class PortTaken(ConfigurationInvalid):
    """A port that the service should listen on is in use."""

    reason = "PORT_TAKEN"


class _Uvicorn(uvicorn.Server):
    """This server leaves signals to us: uvicorn re-raises SIGTERM and would skip the grace of the gRPC API."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a service to its end; an error at start is one clear line and exit status 2."""
    try:
        uvloop.run(main())
    except MetacogError as error:
        sys.stderr.write(f"{error.reason}: {error.message}\n")
        raise SystemExit(2) from None


def bound_socket(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket on `host`:`port`.

    Raises:
        PortTaken: When the port is in use; names the setting that changes it.
        ConfigurationInvalid: When the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        if error.errno in (98, 48):
            raise PortTaken(
                f"port {port} on {host} is taken; stop what uses it, or set {setting}", port=str(port), setting=setting
            ) from error
        raise ConfigurationInvalid(f"cannot listen on {host}:{port}: {error.strerror}", setting=setting) from error
    return sock


def grpc_server(
    keyring: Keyring,
    *,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    max_calls: int = MAX_CALLS,
    message_timeout_s: float = MESSAGE_TIMEOUT_S,
) -> aio.Server:
    """Return a gRPC server with the common edge; register servicers on it.

    Args:
        keyring: Keys that are accepted.
        max_message_bytes: Largest message accepted [bytes].
        max_calls: Calls at a time.
        message_timeout_s: Time within which the message of a call must arrive [s].
    """
    return aio.server(
        interceptors=[RpcEdge(keyring, max_calls=max_calls, message_timeout_s=message_timeout_s)],
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", MAX_SENT_BYTES),
            ("grpc.max_concurrent_streams", max_calls + MAX_OPEN_CALLS),
            ("grpc.http2.bdp_probe", 0),  # else the transport takes megabytes of a message that no handler reads
            ("grpc.max_connection_age_ms", MAX_CONNECTION_AGE_MS),
        ],
    )


def grpc_server_of(settings: ApiSettings, keyring: Keyring) -> aio.Server:
    """Return the gRPC server of a service with `settings`."""
    return grpc_server(
        keyring,
        max_message_bytes=settings.max_message_bytes,
        max_calls=settings.max_calls,
        message_timeout_s=settings.message_timeout_s,
    )


def _start_nothing() -> None:
    pass


@dataclass(frozen=True)
class Service:
    """A service holds everything that serving needs.

    Attributes:
        name: Name of the service, e.g. `router`.
        app: REST API.
        rpc: gRPC API, with its servicers registered.
        grpc_names: Full names of the gRPC services, for health and reflection.
        settings: Where to listen.
        health: Readiness of the service.
        close: Called last: flushes queues, closes connections.
        start: Called first: starts background workers.
    """

    name: str
    app: Application
    rpc: aio.Server
    grpc_names: Sequence[str]
    settings: ApiSettings
    health: Health
    close: Callable[[], Awaitable[None]]
    start: Callable[[], None] = _start_nothing


async def serve(service: Service, http: HttpSettings) -> None:
    """Start the service and serve both APIs until SIGTERM or SIGINT, then stop cleanly.

    Stopping: health turns to not-serving while requests are still taken, for the lame-duck time of the settings, so
    that those who send requests here can learn of it; then the ports are closed, requests in flight get the grace of
    the settings to finish, and `close` runs.

    Args:
        service: The service.
        http: Limits of its HTTP connections, and the hosts that it answers to.

    Raises:
        PortTaken: When a port is in use.
    """
    settings, prefix = service.settings, f"METACOG_{service.name.upper()}"
    stop = _stop_signal()
    service.app.edge.allowed_hosts = AllowedHosts(http.hosts)
    try:
        service.start()
        rest_socket = bound_socket(settings.host, settings.rest_port, f"{prefix}_REST_PORT")
        bound_socket(settings.host, settings.grpc_port, f"{prefix}_GRPC_PORT").close()
        grpc_health = await _add_health(service.rpc, service.grpc_names)
        grpc_port = service.rpc.add_insecure_port(_address(settings.host, settings.grpc_port))
        web = _web_server(service, http)
        await service.rpc.start()
        serving = asyncio.create_task(web.serve(sockets=[rest_socket]))
        _freeze_garbage_collector()
        _log.info("serving", host=settings.host, rest_port=rest_socket.getsockname()[1], grpc_port=grpc_port)
        await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
        service.health.stopping = True
        await grpc_health.enter_graceful_shutdown()
        await _lame_duck(serving, settings.lame_duck_s)
        await _drain(web, serving, service)
    finally:
        await service.close()
        telemetry.flush()
        _log.info("stopped")


async def _lame_duck(serving: "asyncio.Task[None]", seconds: float) -> None:
    """Take requests for some more time, unready."""
    if seconds > 0 and not serving.done():
        _log.info("unready, and still taking requests", lame_duck_s=seconds)
        await asyncio.wait({serving}, timeout=seconds)


async def _drain(web: _Uvicorn, serving: "asyncio.Task[None]", service: Service) -> None:
    _log.info("stopping", grace_s=service.settings.grace_s)
    web.should_exit = True
    async with asyncio.TaskGroup() as group:
        group.create_task(_done(serving))
        group.create_task(service.rpc.stop(service.settings.grace_s))


def _web_server(service: Service, http: HttpSettings) -> _Uvicorn:
    grace = max(1, int(service.settings.grace_s))
    error_response = service.app.error_response
    return _Uvicorn(
        http_config(service.app, http, error_response=error_response, lifespan="off", timeout_graceful_shutdown=grace)
    )


class _Health(health_aio.HealthServicer):  # type: ignore[misc]  # grpc_health has no types
    """This health service ends the streams of its watchers when the service stops, so that they do not delay it."""

    def __init__(self) -> None:
        super().__init__()
        self._stopping = asyncio.Event()

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:  # noqa: N802
        """Send the status now, and once more when the service stops: it changes at no other time."""
        status = self._server_status.get(request.service, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        await context.write(health_pb2.HealthCheckResponse(status=status))
        await self._stopping.wait()
        stopped = self._server_status.get(request.service, status)
        await context.write(health_pb2.HealthCheckResponse(status=stopped))

    async def enter_graceful_shutdown(self) -> None:
        """Turn to not-serving, for good."""
        await super().enter_graceful_shutdown()
        self._stopping.set()


async def _add_health(rpc: aio.Server, service_names: Sequence[str]) -> _Health:
    servicer = _Health()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, rpc)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", *service_names):
        await servicer.set(service, serving)
    _add_reflection(rpc, (*service_names, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name))
    return servicer


def _add_reflection(rpc: aio.Server, service_names: Sequence[str]) -> None:
    """Add reflection under both of its names; its messages are the same in both versions."""
    names = (*service_names, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, rpc)
    handler = grpc.stream_stream_rpc_method_handler(
        reflection.aio.ReflectionServicer(names).ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = {"ServerReflectionInfo": handler}
    rpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(REFLECTION_V1, handlers),))


def _stop_signal() -> "asyncio.Future[None]":
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _settle, stop)
    return stop


def _settle(stop: "asyncio.Future[None]") -> None:
    if not stop.done():
        stop.set_result(None)


def _freeze_garbage_collector() -> None:
    """Leave what was loaded at start out of every later collection: it cuts the p99 under load to a quarter."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


async def _done(task: "asyncio.Task[None]") -> None:
    await task


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def closing(*closers: Callable[[], Awaitable[None]]) -> None:
    """Run all `closers`, in order, even when one of them fails."""
    async with contextlib.AsyncExitStack() as stack:
        for closer in reversed(closers):
            stack.push_async_callback(closer)
