"""A service that gets SIGTERM is unready first, and closes its ports later."""

import asyncio
import socket
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.apis import RpcApi
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, Process, cast, process

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def settings(scripted: ScriptedLLM, folder: Path, lame_duck_s: float) -> dict[str, object]:
    return {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
        "METACOG_HOME": folder,
        "METACOG_ROUTER_LAME_DUCK_S": lame_duck_s,
    }


def is_open(router: Process) -> bool:
    """Whether new connections to the REST port are accepted."""
    place = urlsplit(router.rest)
    try:
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=5):
            return True
    except OSError:
        return False


async def test_a_stopping_service_is_unready_and_still_answers(scripted: ScriptedLLM, tmp_path: Path) -> None:
    scripted.answer = cast()
    async with process("router", **settings(scripted, tmp_path, 4)) as router:
        async with (
            httpx.AsyncClient(base_url=router.rest, timeout=30) as client,
            aio.insecure_channel(router.grpc) as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            before = (
                (await client.get("/readyz")).status_code,
                (await health.Check(health_pb2.HealthCheckRequest())).status,
            )
            router.terminate()
            await router.until_said("unready, and still taking requests")
            while_stopping = await client.get("/readyz")
            has_port = is_open(router)
            grpc_status = (await health.Check(health_pb2.HealthCheckRequest())).status
            async with httpx.AsyncClient(base_url=router.rest, timeout=30) as newcomer:  # on a connection of its own
                answered = await newcomer.post("/v1/answers", json={"question": "Is it so?", "strategy": "system1"})
            by_rpc = await RpcApi(router.grpc, ROUTER).ask("Answer", question="Is it so?", strategy="system1")
        status = await router.ended()

    assert before == (200, SERVING)
    assert (while_stopping.status_code, while_stopping.json()["parts"]["service"]) == (503, "stopping")
    assert (has_port, grpc_status) == (True, NOT_SERVING)
    assert (answered.status_code, answered.json()["run"]["answer"]) == (200, "the system1")
    assert by_rpc["run"]["answer"] == "the system1"
    assert status == 0
    assert not is_open(router)


async def test_without_a_lame_duck_time_a_service_stops_at_once(scripted: ScriptedLLM, tmp_path: Path) -> None:
    async with process("router", **settings(scripted, tmp_path, 0)) as router:
        router.terminate()
        async with asyncio.timeout(30):
            status = await router.ended()

    assert status == 0
    assert "unready, and still taking requests" not in [line["message"] for line in router.lines]


@pytest.mark.parametrize("lame_duck_s", [1])
async def test_a_request_that_came_in_the_lame_duck_time_is_finished_after_it(
    scripted: ScriptedLLM, tmp_path: Path, lame_duck_s: float
) -> None:
    scripted.answer = cast(system1="word " * 100)
    scripted.token_delay_s = 0.02  # 2 s in all
    async with process("router", **settings(scripted, tmp_path, lame_duck_s)) as router:
        async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
            router.terminate()
            await router.until_said("unready, and still taking requests")
            chat = {"model": "metacog/system1", "messages": [{"role": "user", "content": "?"}], "stream": True}
            reply = await client.post("/v1/chat/completions", json=chat)
        status = await router.ended()

    assert reply.text.count("word") == 100
    assert reply.text.rstrip().endswith("data: [DONE]")
    assert status == 0
