"""gRPC callers who have no key, who send too much, who send nothing, or who are too many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import grpc
import pytest
import yaml
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.apis import ApiError, api_error
from tests.support.hostile.raw_http import peak_mib, resident_mib
from tests.support.stack import NO_SERVER, Process, process

ALONE: dict[str, object] = {
    "METACOG_INFERENCE_MODEL": "any",
    "METACOG_INFERENCE_URL": f"http://{NO_SERVER}/v1",
    "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
}
MEASURE = "/metacog.arbiter.v1.ArbiterService/Measure"
ANSWER = "/metacog.router.v1.RouterService/Answer"
CHECK = "/grpc.health.v1.Health/Check"
KEY = (("authorization", "Bearer secret"),)


@asynccontextmanager
async def keyed(service: str, folder: Path, **settings: object) -> AsyncIterator[Process]:
    """A service that wants a key."""
    keys = folder / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": sha256(b"secret").hexdigest()}]}))
    async with process(service, **ALONE, METACOG_KEYS_FILE=keys, **settings) as running:
        yield running


async def error_of(call: aio.UnaryUnaryCall[bytes, bytes]) -> ApiError | None:
    """The error of a call; None if it succeeds."""
    try:
        await call
    except aio.AioRpcError as error:
        return api_error(error)
    return None


async def test_without_a_key_no_message_is_read(tmp_path: Path) -> None:
    async with keyed("router", tmp_path) as router, aio.insecure_channel(router.grpc) as channel:
        before = resident_mib(router.inner.pid)
        message = bytes(15 << 20)
        asked: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ANSWER.replace("Answer", "Route"))

        errors = [await error_of(call) for call in [asked(message, timeout=30) for _ in range(24)]]
        peak = peak_mib(router.inner.pid)

    assert {error.reason for error in errors if error} == {"UNAUTHENTICATED"}
    assert None not in errors
    assert peak - before < 50  # 24 messages would take 360 MiB


async def test_a_call_whose_message_does_not_arrive_ends() -> None:
    async with (
        process("arbiter", **ALONE, METACOG_ARBITER_MESSAGE_TIMEOUT_S=0.3) as arbiter,
        aio.insecure_channel(arbiter.grpc) as channel,
    ):
        reasons = []
        for method in (MEASURE, CHECK):
            # As a hostile client does: the call is opened as a stream, and no message follows.
            call: aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary(method)(timeout=60)
            with pytest.raises(aio.AioRpcError) as raised:
                await call
            reasons.append(api_error(raised.value).reason)

    assert reasons == ["REQUEST_TIMEOUT", "REQUEST_TIMEOUT"]


async def test_a_call_too_many_is_rejected_at_once_and_health_still_answers() -> None:
    async with (
        process("arbiter", **ALONE, METACOG_ARBITER_MAX_CALLS=3) as arbiter,
        aio.insecure_channel(arbiter.grpc) as held,
        aio.insecure_channel(arbiter.grpc) as channel,
    ):
        open_calls: list[aio.StreamUnaryCall[bytes, bytes]] = [held.stream_unary(MEASURE)() for _ in range(3)]
        asked: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(MEASURE)
        too_many = None
        while too_many is None or too_many.reason != "TOO_MANY_CALLERS":  # until the three are open
            too_many = await error_of(asked(b"", timeout=30))
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        for call in open_calls:
            call.cancel()
        freed: ApiError | None = too_many
        while freed is not None and freed.reason == "TOO_MANY_CALLERS":
            freed = await error_of(asked(b"", timeout=30))

    assert (too_many.code, too_many.metadata) == ("UNAVAILABLE", {"most": "3", "retry_after_s": "1"})
    assert health.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    ("service", "method", "mib", "code"),
    [
        ("arbiter", MEASURE, 5, grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("router", "/metacog.router.v1.RouterService/AddKnowledge", 5, grpc.StatusCode.INVALID_ARGUMENT),
        ("router", "/metacog.router.v1.RouterService/AddKnowledge", 17, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_only_the_service_that_takes_documents_takes_large_messages(
    service: str, method: str, mib: int, code: grpc.StatusCode
) -> None:
    async with process(service, **ALONE) as running, aio.insecure_channel(running.grpc) as channel:
        asked: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(method)
        with pytest.raises(aio.AioRpcError) as raised:
            async for _ in asked(b"\xff" * (mib << 20), timeout=60):  # no message of this call
                pass

    assert raised.value.code() is code


async def test_a_message_that_cannot_be_read_is_named() -> None:
    async with process("arbiter", **ALONE) as arbiter, aio.insecure_channel(arbiter.grpc) as channel:
        asked: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(MEASURE)
        error = await error_of(asked(b"\xff\xff", timeout=30))
        arbiter.terminate()
        await arbiter.until_said("stopped")

    assert error is not None
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert not [line for line in arbiter.lines if line.get("level") == "error"]


async def test_many_half_open_calls_of_a_caller_without_a_key_take_nothing(tmp_path: Path) -> None:
    async with keyed("arbiter", tmp_path) as arbiter, aio.insecure_channel(arbiter.grpc) as channel:
        calls: list[aio.StreamUnaryCall[bytes, bytes]] = [channel.stream_unary(MEASURE)() for _ in range(300)]
        codes = set()
        for call in calls:
            async with asyncio.timeout(30):
                codes.add(await call.code())
        asked: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(MEASURE)
        with_key = await error_of(asked(b"", metadata=KEY, timeout=30))

    assert codes == {grpc.StatusCode.UNAUTHENTICATED}
    assert with_key is None or with_key.reason not in ("TOO_MANY_CALLERS", "UNAUTHENTICATED")
