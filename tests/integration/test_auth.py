"""API keys: on both APIs, and no service beyond loopback without them."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
import yaml
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from openai import AsyncOpenAI
from structlog.testing import capture_logs

from chassis.serving.auth import ApiKey, Keyring
from configuration.services import SERVICES
from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, RunningRouter, cast, failed_start, process, router_at, until

HELLO: Any = [{"role": "user", "content": "Say hello."}]


def key(name: str) -> ApiKey:
    """The key `secret-of-<name>`."""
    return ApiKey(name=name, sha256=sha256(f"secret-of-{name}".encode()).hexdigest())


RING = Keyring([key("ann"), key("bob")])


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, database_url, tmp_path, keyring=RING) as running:
        yield running


def api_of(router: RunningRouter, name: str, secret: str) -> Api:
    """An API that is called with a key."""
    bearer = f"Bearer {secret}"
    if name == "rest":
        return RestApi(router.rest, ROUTER, headers={"authorization": bearer} if secret else {})
    return RpcApi(router.grpc, ROUTER, metadata=(("authorization", bearer),) if secret else ())


@pytest.mark.parametrize("api", ["rest", "rpc"])
@pytest.mark.parametrize("secret", ["", "guess", "secret-of-ann2"])
@pytest.mark.parametrize("operation", ["Route", "Answer", "GetRun", "SubmitFeedback"])
async def test_without_a_known_key_every_operation_is_rejected(
    router: RunningRouter, scripted: ScriptedLLM, api: str, secret: str, operation: str
) -> None:
    body = {"run_id": "x"} if operation == "GetRun" else {"question": "?"} if operation in ("Route", "Answer") else {}

    with pytest.raises(ApiError) as raised:
        await api_of(router, api, secret).ask(operation, **body)

    assert (raised.value.code, raised.value.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert scripted.bodies == []


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_with_a_key_the_run_names_its_holder(router: RunningRouter, api: str) -> None:
    run = (await api_of(router, api, "secret-of-ann").ask("Answer", question="?", strategy="system1"))["run"]

    assert (run["key_name"], run["answer"]) == ("ann", "the system1")


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_a_run_is_for_its_own_key_alone(router: RunningRouter, api: str) -> None:
    ann, bob = (api_of(router, api, f"secret-of-{holder}") for holder in ("ann", "bob"))
    asked = (await ann.ask("Answer", question="?", strategy="system1"))["run"]["run_id"]
    await until(lambda: listed(ann, asked))

    with pytest.raises(ApiError) as raised:
        await bob.ask("GetRun", run_id=asked)

    assert raised.value.reason == "RUN_NOT_FOUND"
    assert not await listed(bob, asked)


async def listed(api: Api, run_id: str) -> bool:
    """Whether a run is among those that the holder of a key is shown."""
    return run_id in [run["run_id"] for run in (await api.ask("ListRuns", page_size=50))["runs"]]


async def test_the_name_of_a_request_belongs_to_its_key(router: RunningRouter, tmp_path: Path) -> None:
    names = [
        (await api_of(router, "rest", f"secret-of-{holder}").ask("Answer", question="?", request_id=tmp_path.name))[
            "run"
        ]
        for holder in ("ann", "bob", "ann")
    ]

    assert names[0]["run_id"] == names[2]["run_id"] != names[1]["run_id"]


async def test_the_openai_client_presents_its_key(router: RunningRouter) -> None:
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="secret-of-bob") as client:
        answer = await client.chat.completions.create(model="metacog/system1", messages=HELLO)

    assert answer.choices[0].message.content == "the system1"


async def test_a_wrong_key_is_rejected_in_openais_shape(router: RunningRouter) -> None:
    async with AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="guess") as client:
        with pytest.raises(openai.AuthenticationError) as raised:
            await client.chat.completions.create(model="metacog/system1", messages=HELLO)

    assert (raised.value.type, raised.value.code) == ("authentication_error", "invalid_api_key")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/metacog", "/v1/models/metacog/system1"])
async def test_the_models_are_rejected_in_openais_shape_too(router: RunningRouter, path: str) -> None:
    async with httpx.AsyncClient(base_url=router.rest, headers={"authorization": "Bearer guess"}) as client:
        replies = [await client.get(path), await client.delete(path)]

    assert [reply.json()["error"]["type"] for reply in replies] == ["authentication_error"] * 2


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/docs", 401)])
async def test_health_alone_needs_no_key(router: RunningRouter, path: str, status: int) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.get(path)

    assert reply.status_code == status


async def test_between_services_the_suites_own_key_is_presented(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        assigner_at(scripted, keyring=RING) as assigner,
        router_at(
            scripted, database_url, tmp_path / "a", others={"assigner": assigner.grpc}, peer_key="secret-of-bob"
        ) as known,
        router_at(scripted, database_url, tmp_path / "b", others={"assigner": assigner.grpc}) as stranger,
    ):
        by_known = await RpcApi(known.grpc, ROUTER).ask("Answer", question="?", strategy="dialectic")
        by_stranger = await RpcApi(stranger.grpc, ROUTER).ask("Answer", question="?", strategy="dialectic")

    assert (by_known["run"]["strategy"], by_known["run"]["degraded"]) == ("dialectic", False)
    assert [fallback["reason"] for fallback in by_stranger["run"]["fallbacks"]] == ["UNAUTHENTICATED"]


# As processes


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.yaml"
    path.write_text(yaml.safe_dump({"keys": [{"name": "ann", "sha256": key("ann").sha256}]}))
    return path


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_listens_beyond_loopback_without_keys(service: str) -> None:
    host = f"METACOG_{service.upper()}_HOST"

    done = failed_start(service, **{host: "0.0.0.0", "METACOG_INFERENCE_MODEL": "any"})

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"CONFIGURATION_INVALID: {host} is 0.0.0.0, which others can reach")
    assert "METACOG_KEYS_FILE" in done.stderr


async def test_with_a_keys_file_a_service_listens_anywhere_and_asks_for_a_key(keys_file: Path) -> None:
    settings = {
        "METACOG_INFERENCE_MODEL": "any",
        "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
    }
    keyed = {"METACOG_KEYS_FILE": keys_file, "METACOG_DELEGATION_HOST": "0.0.0.0"}
    async with process("delegation", **settings, **keyed) as running:
        async with httpx.AsyncClient(base_url=running.rest) as client:
            answers = [
                (await client.get("/v1/agents", headers=headers)).status_code
                for headers in ({}, {"authorization": "Bearer secret-of-ann"})
            ]
            alive = await client.get("/healthz")
        async with aio.insecure_channel(running.grpc) as channel:
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            listing: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/metacog.delegation.v1.DelegationService/ListAgents"
            )
            with pytest.raises(aio.AioRpcError) as raised:
                await listing(b"")

    assert (answers, alive.status_code) == ([401, 503], 200)
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_reflection_needs_a_key_where_keys_are_configured(keys_file: Path) -> None:
    settings = {
        "METACOG_INFERENCE_MODEL": "any",
        "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
    }
    async with (
        process("delegation", **settings, METACOG_KEYS_FILE=keys_file) as running,
        aio.insecure_channel(running.grpc) as channel,
    ):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        listing = [reflection_pb2.ServerReflectionRequest(list_services="")]
        for secret in ("", "Bearer guess"):
            with pytest.raises(aio.AioRpcError) as raised:
                _ = [reply async for reply in stub.ServerReflectionInfo(iter(listing), metadata=authorized(secret))]
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
        known = authorized("Bearer secret-of-ann")
        [reply] = [reply async for reply in stub.ServerReflectionInfo(iter(listing), metadata=known)]

    assert "metacog.delegation.v1.DelegationService" in [one.name for one in reply.list_services_response.service]


def authorized(header: str) -> tuple[tuple[str, str], ...]:
    """Metadata with a key; none for an empty header."""
    return (("authorization", header),) if header else ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keys: [{name: ann, sha256: abc}]", "ann has no sha256 of 64 hexadecimal digits"),
        ("keys: [{name: ann}]", "sha256"),
        ("keys: {", "keys.yaml"),
    ],
)
def test_a_keys_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)

    done = failed_start("arbiter", METACOG_KEYS_FILE=path)

    assert done.returncode == 2
    assert f"CONFIGURATION_INVALID: keys file {path}" in done.stderr
    assert problem in done.stderr


@pytest.mark.parametrize("service", ["router", "assigner"])
def test_a_service_does_not_start_with_a_peer_key_that_may_not_act_for_others(service: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    entry = {"name": "metacog-services", "sha256": sha256(b"between-services").hexdigest()}
    file.write_text(yaml.safe_dump({"keys": [entry]}))

    done = failed_start(
        service,
        METACOG_KEYS_FILE=file,
        METACOG_PEER_KEY="between-services",
        METACOG_INFERENCE_MODEL="any",
        METACOG_INFERENCE_URL=f"http://{NO_SERVER}/v1",
    )

    assert "CONFIGURATION_INVALID: METACOG_PEER_KEY is the key of 'metacog-services'" in done.stderr
    assert "set `acts_for_others: true` for it" in done.stderr


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_a_key_where_none_is_configured_is_reported_once_and_the_request_works(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, api: str
) -> None:
    scripted.answer = cast()
    with capture_logs() as logged:
        async with router_at(scripted, database_url, tmp_path) as router:
            for _ in range(2):
                run = (await api_of(router, api, "secret-of-ann").ask("Answer", question="?", strategy="system1"))[
                    "run"
                ]

    reports = [line for line in logged if "METACOG_KEYS_FILE" in line["event"]]
    assert (run["answer"], len(reports)) == ("the system1", 1)
    assert "secret-of-ann" not in str(logged)


async def test_a_reply_says_that_its_key_was_not_checked(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with (
        router_at(scripted, database_url, tmp_path / "open") as open_router,
        router_at(scripted, database_url, tmp_path / "guarded", keyring=RING) as guarded,
        httpx.AsyncClient() as client,
    ):
        bearer = {"authorization": "Bearer secret-of-ann"}
        with_key = await client.get(f"{open_router.rest}/v1/models", headers=bearer)
        without = await client.get(f"{open_router.rest}/v1/models")
        checked = await client.get(f"{guarded.rest}/v1/models", headers=bearer)

    assert [each.status_code for each in (with_key, without, checked)] == [200, 200, 200]
    assert [each.headers.get("x-metacog-key") for each in (with_key, without, checked)] == ["not checked", None, None]
