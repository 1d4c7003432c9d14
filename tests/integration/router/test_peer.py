"""Calls between services: what travels along, and what comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import DoubleValue, StringValue
from grpc import aio
from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from chassis.errors import PeerError, PeerUnavailable
from chassis.serving.auth import Keyring
from chassis.serving.peer import Peer
from chassis.serving.server import grpc_server
from chassis.serving.wire import to_proto
from kernel.errors import Code, MetacogError
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ScriptedLLM, Stall
from tests.support.stack import NO_SERVER, cast

ECHO = "/test.v1.EchoService/"


class TooLoud(MetacogError):
    """The other side's own refusal."""

    code = Code.OUT_OF_RANGE
    reason = "TOO_LOUD"


class Echo:
    """A service that shows what reaches the other side."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.most = 0
        self.cancelled = asyncio.Event()
        self.begun = asyncio.Event()
        self.three = asyncio.Barrier(3)
        self.metadata: dict[str, str] = {}

    async def say(self, request: StringValue, context: Any) -> StringValue:  # noqa: ANN401
        """The same text; waits for others, refuses, fails or never ends as the text wants it."""
        self.metadata = dict(context.invocation_metadata())
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await self._do(request.value)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.in_flight -= 1
        return request

    async def count(self, request: StringValue, context: Any) -> AsyncIterator[StringValue]:  # noqa: ANN401
        """The text again and again."""
        try:
            while True:
                yield request
                await asyncio.sleep(0)
        finally:
            self.cancelled.set()

    async def time_left(self, _: StringValue, context: Any) -> DoubleValue:  # noqa: ANN401
        """Time that the caller still waits [s]."""
        return DoubleValue(value=context.time_remaining())

    async def _do(self, text: str) -> None:
        self.begun.set()
        if text == "meet":
            await self.three.wait()
        if text == "stall":
            await asyncio.Event().wait()
        if text == "shout":
            raise TooLoud("that was too loud", level="11")
        if text == "break":
            raise RuntimeError("a bug")


def echoing(echo: Echo) -> aio.Server:
    """A server with `echo`."""
    read, written = StringValue.FromString, StringValue.SerializeToString
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Say": grpc.unary_unary_rpc_method_handler(echo.say, read, written),
        "TimeLeft": grpc.unary_unary_rpc_method_handler(echo.time_left, read, DoubleValue.SerializeToString),
        "Count": grpc.unary_stream_rpc_method_handler(echo.count, read, written),
    }
    server = grpc_server(Keyring())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.v1.EchoService", methods),))
    return server


@asynccontextmanager
async def peered(echo: Echo, **more: Any) -> AsyncIterator[Peer]:  # noqa: ANN401
    """A peer of a server with `echo`."""
    server = echoing(echo)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peer = Peer("echo", f"127.0.0.1:{port}", **more)
    yield peer
    await peer.close()
    await server.stop(0)


def unary(peer: Peer, name: str, reply: Any = StringValue) -> Any:  # noqa: ANN401
    """A method of the echo service."""
    return peer.channel.unary_unary(f"{ECHO}{name}", StringValue.SerializeToString, reply.FromString)


async def test_the_time_that_is_left_is_known_at_the_other_side() -> None:
    async with peered(Echo()) as peer:
        left = await peer.call(unary(peer, "TimeLeft", DoubleValue), StringValue(), timeout_s=7)

    # gRPC sends the time left rounded up to its own units.
    assert 6 < left.value < 7.1


async def test_a_deadline_ends_the_call_here_and_there() -> None:
    echo = Echo()
    async with peered(echo) as peer:
        with pytest.raises(PeerError) as raised:
            await peer.call(unary(peer, "Say"), StringValue(value="stall"), timeout_s=0.2)
        await echo.cancelled.wait()

    assert (raised.value.code, raised.value.reason) == (Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED")


async def test_cancelling_a_call_reaches_the_other_side() -> None:
    echo = Echo()
    async with peered(echo) as peer:
        calling = asyncio.create_task(peer.call(unary(peer, "Say"), StringValue(value="stall"), timeout_s=60))
        await echo.begun.wait()
        calling.cancel()
        await echo.cancelled.wait()
        await asyncio.wait({calling})

    assert calling.cancelled()


async def test_leaving_a_stream_reaches_the_other_side() -> None:
    echo = Echo()
    async with peered(echo) as peer:
        count = peer.channel.unary_stream(f"{ECHO}Count", StringValue.SerializeToString, StringValue.FromString)
        async with aclosing(peer.stream(count, StringValue(value="x"), timeout_s=60)) as replies:
            first = await anext(replies)
        await echo.cancelled.wait()

    assert first.value == "x"


async def test_an_error_keeps_its_code_and_its_reason() -> None:
    async with peered(Echo()) as peer:
        with pytest.raises(PeerError) as raised:
            await peer.call(unary(peer, "Say"), StringValue(value="shout"), timeout_s=10)

    assert (raised.value.code, raised.value.reason) == (Code.OUT_OF_RANGE, "TOO_LOUD")
    assert (raised.value.message, raised.value.metadata) == ("echo: that was too loud", {"level": "11"})


async def test_a_bug_at_the_other_side_is_not_the_callers_fault() -> None:
    async with peered(Echo()) as peer:
        with pytest.raises(PeerError) as raised:
            await peer.call(unary(peer, "Say"), StringValue(value="break"), timeout_s=10)

    assert raised.value.code in (Code.UNKNOWN, Code.INTERNAL)


async def test_a_service_that_cannot_be_reached_is_named() -> None:
    peer = Peer("assigner", NO_SERVER)

    with pytest.raises(PeerUnavailable) as raised:
        await peer.call(unary(peer, "Say"), StringValue(), timeout_s=10)

    assert raised.value.message.startswith(f"assigner at {NO_SERVER} cannot be reached")
    assert raised.value.metadata == {"peer": "assigner", "address": NO_SERVER}
    await peer.close()


async def test_a_service_that_comes_back_is_reached_again() -> None:
    echo = Echo()
    async with peered(echo) as first:
        address = first.address
    peer = Peer("echo", address)
    with pytest.raises(PeerUnavailable):
        await peer.call(unary(peer, "Say"), StringValue(), timeout_s=10)

    server = echoing(echo)
    server.add_insecure_port(address)
    await server.start()
    while peer.channel.get_state(try_to_connect=True) is not grpc.ChannelConnectivity.READY:
        await peer.channel.wait_for_state_change(peer.channel.get_state())

    assert (await peer.call(unary(peer, "Say"), StringValue(value="again"), timeout_s=10)).value == "again"
    await peer.close()
    await server.stop(0)


async def test_two_thousand_calls_at_once_all_succeed() -> None:
    async with peered(Echo()) as peer:
        say = unary(peer, "Say")
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(peer.call(say, StringValue(value=str(number)), timeout_s=120))
                for number in range(2000)
            ]

    assert [call.result().value for call in calls] == [str(number) for number in range(2000)]


async def test_calls_under_way_are_bounded() -> None:
    echo = Echo()
    async with peered(echo, max_in_flight=3) as peer, asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(peer.call(unary(peer, "Say"), StringValue(value="meet"), timeout_s=60))

    assert echo.most == 3


async def test_waiting_for_a_place_counts_against_the_deadline() -> None:
    echo = Echo()
    async with peered(echo, max_in_flight=1) as peer:
        first = asyncio.create_task(peer.call(unary(peer, "Say"), StringValue(value="stall"), timeout_s=60))
        await echo.begun.wait()
        with pytest.raises(PeerError) as raised:
            await peer.call(unary(peer, "Say"), StringValue(value="x"), timeout_s=0.1)
        first.cancel()
        await asyncio.wait({first})

    assert raised.value.code is Code.DEADLINE_EXCEEDED


async def test_the_key_and_the_trace_travel_along() -> None:
    echo, traced = Echo(), SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with peered(echo, key="secret") as peer:
        with trace.use_span(NonRecordingSpan(traced)):
            await peer.call(unary(peer, "Say"), StringValue(value="x"), timeout_s=10)

    assert echo.metadata["authorization"] == "Bearer secret"
    assert echo.metadata["traceparent"].split("-")[1] == f"{0xABC:032x}"


# Through a real service, down to the model


@asynccontextmanager
async def assigner(llm: ScriptedLLM) -> AsyncIterator[Peer]:
    llm.answer = cast()
    async with assigner_at(llm) as running:
        peer = Peer("assigner", running.grpc)
        yield peer
        await peer.close()


QUESTION = assigner_pb2.DeliberateRequest(question="Is it so?")


async def test_a_trace_reaches_the_model(scripted: ScriptedLLM) -> None:
    traced = SpanContext(0xFEED, 0xDEF, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with assigner(scripted) as peer:
        stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
        with trace.use_span(NonRecordingSpan(traced)):
            replies = [reply async for reply in peer.stream(stub.Deliberate, QUESTION, timeout_s=30)]

    assert replies
    assert {request.headers["traceparent"].split("-")[1] for request in scripted.requests} == {f"{0xFEED:032x}"}


async def test_leaving_a_deliberation_stops_its_models(scripted: ScriptedLLM) -> None:
    scripted.fault(*[None] * 5, Stall())
    async with assigner(scripted) as peer:
        stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
        async with aclosing(peer.stream(stub.Deliberate, QUESTION, timeout_s=30)) as replies:
            async for reply in replies:
                if reply.WhichOneof("event") == "stage_started":
                    break
            await scripted.until(lambda llm: len(llm.bodies) == 6)
        await scripted.until(lambda llm: llm.disconnects == 1)


async def test_the_callers_deadline_is_the_deliberations(scripted: ScriptedLLM) -> None:
    scripted.fault(*[Stall()] * 20)
    async with assigner(scripted) as peer:
        stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
        with pytest.raises(PeerError) as raised:
            _ = [reply async for reply in peer.stream(stub.Deliberate, QUESTION, timeout_s=0.5)]
        await scripted.until(lambda llm: llm.in_flight == 0 and llm.disconnects == len(llm.bodies))

    assert raised.value.code is Code.DEADLINE_EXCEEDED


async def test_a_real_error_comes_back_whole(scripted: ScriptedLLM) -> None:
    async with assigner(scripted) as peer:
        stub = assigner_pb2_grpc.AssignerServiceStub(peer.channel)
        request = to_proto({"agents": [{"id": "a", "msv": {"conflict": 2.0}}]}, assigner_pb2.AssignRequest)
        with pytest.raises(PeerError) as raised:
            await peer.call(stub.Assign, request, timeout_s=10)

    assert (raised.value.code, raised.value.reason) == (Code.INVALID_ARGUMENT, "MSV_OUT_OF_RANGE")
    assert raised.value.metadata == {"component": "conflict", "value": "2.0"}


async def test_a_peer_that_is_away_does_not_serve() -> None:
    gone = Peer("assigner", NO_SERVER)

    with pytest.raises(PeerUnavailable):
        await gone.check()

    await gone.close()
