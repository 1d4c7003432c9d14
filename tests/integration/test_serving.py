"""Services as processes: how they start, how they say what is wrong, and how they stop."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chassis.serving.peer import Peer
from tests.support.apis import RpcApi
from tests.support.models.scripted_llm import ScriptedLLM, Stall
from tests.support.stack import ROUTER, Process, cast, failed_start, free_port, process, until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
CHAT: Any = {"model": "metacog/system1", "messages": [{"role": "user", "content": "Is it a secret?"}]}


def settings(llm: ScriptedLLM, database_url: str, spool: Path, **more: object) -> dict[str, object]:
    return {
        "METACOG_INFERENCE_URL": f"{llm.url}/v1",
        "METACOG_DATABASE_URL": database_url,
        "METACOG_ROUTER_SPOOL_DIR": spool,
        **more,
    }


def health_of(channel: aio.Channel) -> health_pb2_grpc.HealthStub:
    return health_pb2_grpc.HealthStub(channel)


async def status_is(client: httpx.AsyncClient, path: str, status: int) -> bool:
    return (await client.get(path)).status_code == status


# While it runs


async def test_a_router_is_ready_when_system_one_can_answer(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        process("router", **settings(scripted, database_url, tmp_path)) as router,
        httpx.AsyncClient(base_url=router.rest) as client,
    ):
        alone = await client.get("/readyz")
        scripted.ready = False
        await until(lambda: status_is(client, "/readyz", 503))  # readiness is checked once a second at most
        without_model = await client.get("/readyz")
        alive = await client.get("/healthz")

    assert (alone.status_code, alone.json()["ready"]) == (200, True)
    parts = alone.json()["parts"]
    assert (parts["inference"], parts["database"], parts["journal"]) == ("ok", "ok", "ok")
    assert all("cannot be reached" in parts[name] for name in ("assigner", "arbiter", "delegation"))
    assert (without_model.status_code, without_model.json()["ready"]) == (503, False)
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})


async def test_the_whole_suite_answers_on_system_two(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = cast()
    prices = {"METACOG_PRICES": '{"*": {"prompt": 0, "completion": 1.5}}'}
    common = {**settings(scripted, database_url, tmp_path), **prices}
    async with process("assigner", **common) as assigner:
        more = {"METACOG_ASSIGNER_ADDRESS": assigner.grpc, "METACOG_ROUTER_MODEL_ALIASES": '{"gpt-4o": "metacog"}'}
        async with process("router", **common, **more) as router, httpx.AsyncClient(base_url=router.rest) as client:
            ready = (await client.get("/readyz")).json()
            reply = await client.post("/v1/chat/completions", json={**CHAT, "model": "metacog/dialectic"})
            listed = (await client.get("/v1/models")).json()
            metrics = (await client.get("/metrics")).text

    assert ready["parts"]["assigner"] == "ok"
    assert reply.json()["choices"][0]["message"]["content"] == "the synthesis"
    assert len(reply.json()["metacog"]["stages"]) == 4
    assert "gpt-4o" in [model["id"] for model in listed["data"]]
    assert 'metacog_routed_total{reason="requested",strategy="dialectic",system="SYSTEM_TWO"} 1.0' in metrics
    assert 'metacog_tokens_total{kind="completion",stage="synthesis"} 2.0' in metrics
    assert 'metacog_cost_total{stage="synthesis"} 3e-06' in metrics
    usage = reply.json()["metacog"]["usage"]
    assert usage["cost"] == round(usage["completion_tokens"] * 1.5e-6, 12)


@pytest.mark.parametrize("service", ["router", "assigner"])
async def test_health_and_reflection_are_served(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, service: str
) -> None:
    name = f"metacog.{service}.v1.{service.capitalize()}Service"
    async with (
        process(service, **settings(scripted, database_url, tmp_path)) as running,
        aio.insecure_channel(running.grpc) as channel,
    ):
        health = await health_of(channel).Check(health_pb2.HealthCheckRequest(service=name))
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        [listed] = [
            reply
            async for reply in stub.ServerReflectionInfo(
                iter([reflection_pb2.ServerReflectionRequest(list_services="")])
            )
        ]
        peer = Peer(service, running.grpc)
        await peer.check()
        await peer.close()

    assert health.status == SERVING
    assert {entry.name for entry in listed.list_services_response.service} >= {name, "grpc.health.v1.Health"}


async def test_logs_are_json_without_what_was_asked(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = cast()
    async with process("router", **settings(scripted, database_url, tmp_path)) as router:
        async with httpx.AsyncClient(base_url=router.rest) as client:
            await client.post("/v1/chat/completions", json={**CHAT, "model": "metacog/arbiter"})
        router.terminate()
        said = await router.until_said("stopped")

    assert (said["service"], said["level"]) == ("router", "info")
    assert "fell back" in [line["message"] for line in router.lines]
    assert "secret" not in json.dumps(router.lines)


# Stopping


async def test_a_request_under_way_is_finished_when_the_service_stops(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(system1="word " * 40)
    scripted.token_delay_s = 0.02
    async with process("router", **settings(scripted, database_url, tmp_path)) as router:
        async with httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
            by_rest = asyncio.create_task(client.post("/v1/chat/completions", json={**CHAT, "stream": True}))
            by_rpc = asyncio.create_task(
                RpcApi(router.grpc, ROUTER).ask("Answer", question="Is it so?", strategy="system1")
            )
            await scripted.until(lambda llm: len(llm.bodies) == 2)
            router.terminate()
            await router.until_said("stopping")
            await asyncio.wait({by_rest, by_rpc})
        status = await router.ended()

    assert by_rest.result().text.endswith("data: [DONE]\n\n")
    assert by_rest.result().text.count("word") == 40
    assert by_rpc.result()["run"]["answer"].count("word") == 40
    assert (status, scripted.disconnects) == (0, 0)


async def test_a_watcher_hears_that_the_service_stops_and_does_not_hold_it_up(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        process("router", **settings(scripted, database_url, tmp_path)) as router,
        aio.insecure_channel(router.grpc) as channel,
    ):
        watch = health_of(channel).Watch(health_pb2.HealthCheckRequest(service=ROUTER.full_name))
        heard = [await watch.read()]
        router.terminate()
        heard.append(await watch.read())
        async with asyncio.timeout(10):  # far less than the grace of 20 s
            status = await router.ended()

    assert [told.status for told in heard] == [SERVING, NOT_SERVING]
    assert status == 0


async def test_a_request_that_outlasts_the_grace_is_given_up(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.fault(Stall(), Stall())
    more = {"METACOG_ROUTER_GRACE_S": 1}
    async with process("router", **settings(scripted, database_url, tmp_path, **more)) as router:
        async with httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
            by_rest = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT))
            by_rpc = asyncio.create_task(
                RpcApi(router.grpc, ROUTER).ask("Answer", question="Is it so?", strategy="system1")
            )
            await scripted.until(lambda llm: len(llm.bodies) == 2)
            router.terminate()
            status = await router.ended()
            await asyncio.wait({by_rest, by_rpc})
        await scripted.until(lambda llm: llm.disconnects == 2)

    assert status == 0


async def test_new_requests_are_rejected_while_the_service_stops(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast(system1="word " * 50)
    scripted.token_delay_s = 0.02
    async with (
        process("router", **settings(scripted, database_url, tmp_path)) as router,
        httpx.AsyncClient(base_url=router.rest, timeout=30) as client,
    ):
        first = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT))
        await scripted.until(lambda llm: len(llm.bodies) == 1)
        router.terminate()
        await until(lambda: _refuses(router))
        await asyncio.wait({first})

    assert first.result().status_code == 200


async def _refuses(router: Process) -> bool:
    # A connection taken in the moment before the door closes ends without a reply: refused as well.
    try:
        async with httpx.AsyncClient(base_url=router.rest) as client:
            await client.get("/healthz")
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        return True
    return False


# Refusing to start


@contextmanager
def taken_port() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.mark.parametrize("api", ["REST", "GRPC"])
@pytest.mark.parametrize("service", ["router", "arbiter"])
def test_a_port_that_is_taken_is_a_clear_message(service: str, api: str, tmp_path: Path) -> None:
    other = "GRPC" if api == "REST" else "REST"
    with taken_port() as port:
        prefix = f"METACOG_{service.upper()}"
        ports = {f"{prefix}_{api}_PORT": port, f"{prefix}_{other}_PORT": free_port()}
        done = failed_start(
            service, METACOG_INFERENCE_MODEL="any", METACOG_ROUTER_SPOOL_DIR=tmp_path / "spool", **ports
        )

    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said == f"PORT_TAKEN: port {port} on 127.0.0.1 is taken; stop what uses it, or set {prefix}_{api}_PORT"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "text", "said"),
    [
        ("METACOG_ROUTER_REST_PORT", "eighty", "METACOG_ROUTER_REST_PORT"),
        ("METACOG_ROUTER_MODEL_ALIASES", "gpt", "METACOG_ROUTER_MODEL_ALIASES"),
        ("METACOG_ROUTER_WEIGHT_CONFLICT", "0.9", "INVALID_WEIGHTS: activation weights must be >= 0 and sum to 1"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(setting: str, text: str, said: str) -> None:
    done = failed_start("router", METACOG_INFERENCE_MODEL="any", **{setting: text})

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("service", ["router", "assigner"])
def test_without_a_model_name_the_backend_must_tell_one(service: str) -> None:
    done = failed_start(service, METACOG_INFERENCE_URL="http://127.0.0.1:1/v1")

    assert done.returncode == 2
    assert "CONFIGURATION_INVALID: METACOG_INFERENCE_MODEL is not set" in done.stderr
    assert "http://127.0.0.1:1/v1" in done.stderr
    assert "Traceback" not in done.stderr
