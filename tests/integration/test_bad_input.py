"""What is wrong gets a named error on every API, and takes nothing else down."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc
from openai import AsyncOpenAI

from configuration.agents import AgentConfig
from services.assigner.compose import CONTRACT as ASSIGNER
from tests.support.apis import ApiError, Body, RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import LLAMACPP, VLLM, ScriptedLLM, Shape
from tests.support.stack import NO_SERVER, ROUTER, TROUBLED, At, RunningRouter, cast, failed_start, process, router_at

HELLO: Any = [{"role": "user", "content": "Say hello."}]
LONG: Any = [{"role": "user", "content": "word " * 3000}]
DOWN = At(f"http://{NO_SERVER}", "any")


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    scripted.answer = cast()
    async with router_at(scripted, database_url, tmp_path, max_body_bytes=4096, chat_max_body_bytes=4096) as running:
        yield running


def client_of(router: RunningRouter) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0)


async def read(client: AsyncOpenAI, *, stream: bool, **body: Any) -> None:  # noqa: ANN401
    """Ask, and read a stream to its end: an error may come after its first events."""
    answer: Any = await client.chat.completions.create(stream=stream, **body)
    if stream:
        _ = [chunk async for chunk in answer]


# Configuration


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("agents:\n  - id: ada\n  - id: ada\n", 3, "id 'ada' is used twice"),
        ("agents:\n  - id: ada\n    colour: red\n", 3, "colour"),
        ("agents:\n  - id: ada\n\tcapacity: 1\n", 3, "cannot start any token"),
        ("", None, "agents"),
    ],
)
def test_a_broken_agents_file_names_its_line_and_the_reason(
    tmp_path: Path, text: str, line: int | None, problem: str
) -> None:
    path = tmp_path / "agents.yaml"
    path.write_text(text)

    done = failed_start("assigner", METACOG_AGENTS_FILE=path, METACOG_INFERENCE_MODEL="any")

    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said.startswith("CONFIGURATION_INVALID: ")) == (2, True)
    assert f"{path}, line {line}: " in said if line else str(path) in said
    assert problem in said
    assert "Traceback" not in done.stderr


async def test_a_changed_agents_file_is_read_again_and_a_broken_one_is_not_taken(
    scripted: ScriptedLLM, tmp_path: Path
) -> None:
    scripted.answer = cast()
    path = tmp_path / "agents.yaml"
    write(path, "agents:\n  - id: ada\n")
    seats = {"METACOG_AGENTS_FILE": path, "METACOG_INFERENCE_URL": f"{scripted.url}/v1"}

    async with process("assigner", **seats) as running, httpx.AsyncClient(base_url=running.rest) as client:
        seated = [await taking_part(client)]
        write(path, "agents:\n  - id: ada\n  - id: ben\n")
        seated.append(await taking_part(client))
        write(path, "agents:\n  - id: ada\n  - id:\n")
        seated.append(await taking_part(client))
        ready = await client.get("/readyz")

    assert seated == [["ada"], ["ada", "ben"], ["ada", "ben"]]
    assert ready.status_code == 200
    assert f"{path}, line 3: " in ready.json()["parts"]["agents"]


def write(path: Path, text: str) -> None:
    path.write_text(text)


async def taking_part(client: httpx.AsyncClient) -> list[str]:
    """The agents of a deliberation."""
    reply = await client.post("/v1/deliberations", json={"question": "Is it so?"}, timeout=30)
    return [made["agent"] for made in reply.raise_for_status().json()["assessments"]]


# Backends


@pytest.mark.parametrize("model", ["metacog", "metacog/system1", "metacog/dialectic"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_backend_that_cannot_be_reached_is_named(
    database_url: str, tmp_path: Path, model: str, stream: bool
) -> None:
    async with router_at(DOWN, database_url, tmp_path) as router, client_of(router) as client:
        with pytest.raises(openai.APIError) as raised:
            await read(client, model=model, messages=HELLO, stream=stream)

    assert (raised.value.code, raised.value.type) == ("backend_unavailable", "server_error")
    assert DOWN.url in raised.value.message


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_a_backend_that_cannot_be_reached_is_named_on_our_own_apis(
    database_url: str, tmp_path: Path, api: str
) -> None:
    async with router_at(DOWN, database_url, tmp_path) as router:
        asked = RestApi(router.rest, ROUTER) if api == "rest" else RpcApi(router.grpc, ROUTER)
        with pytest.raises(ApiError) as raised:
            await asked.ask("Answer", question="Is it so?", strategy="system1")
        assessed = await asked.ask("Assess", question="Is it so?")

    assert (raised.value.code, raised.value.reason) == ("UNAVAILABLE", "BACKEND_UNAVAILABLE")
    assert assessed["msv"]["correctness"] is None
    assert assessed["msv"]["unknown_reasons"]["correctness"].startswith("BACKEND_UNAVAILABLE: ")


async def test_an_agent_whose_server_is_away_is_stood_in_for(scripted: ScriptedLLM) -> None:
    scripted.answer = cast()
    seated = [AgentConfig(id="ada"), AgentConfig(id="ben", model="any")]
    async with assigner_at(scripted, seated, others={"any": DOWN}) as running:
        finished = await RpcApi(running.grpc, ASSIGNER).ask("Deliberate", question="Is it so?")

    assert (finished["outcome"], finished["answer"], finished["degraded"]) == ("ANSWERED", "the synthesis", True)
    assert {stage["agent"] for stage in finished["stages"]} == {"ada"}
    states = {made["agent"]: made["msv"] for made in finished["assessments"]}
    assert states["ben"]["unknown_reasons"]["correctness"].startswith("BACKEND_UNAVAILABLE: ")


async def test_a_model_that_the_backend_does_not_serve_is_named(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with router_at(At(scripted.url, "llama-9"), database_url, tmp_path) as router, client_of(router) as client:
        with pytest.raises(openai.NotFoundError) as raised:
            await client.chat.completions.create(model="metacog/system1", messages=HELLO)
        async with httpx.AsyncClient(base_url=router.rest) as plain:
            ready = await plain.get("/readyz")

    assert raised.value.code == "model_not_found"
    assert "does not serve llama-9, but scripted" in raised.value.message
    assert (ready.status_code, "llama-9" in ready.json()["parts"]["inference"]) == (503, True)
    assert scripted.bodies == []


@pytest.fixture(params=[VLLM, LLAMACPP], ids=["vllm", "llamacpp"])
def shaped(request: pytest.FixtureRequest) -> Iterator[ScriptedLLM]:
    """A server that refuses long prompts in its own words."""
    shape: Shape = request.param
    with ScriptedLLM(shape) as llm:
        llm.answer = cast(TROUBLED)
        yield llm


@pytest.mark.parametrize("model", ["metacog", "metacog/system1", "metacog/dialectic"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_prompt_over_the_context_is_named(
    shaped: ScriptedLLM, database_url: str, tmp_path: Path, model: str, stream: bool
) -> None:
    async with (
        assigner_at(shaped) as assigner,
        router_at(shaped, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
        client_of(router) as client,
    ):
        with pytest.raises(openai.APIError) as raised:
            await read(client, model=model, messages=LONG, stream=stream, max_tokens=16)

    assert (raised.value.code, raised.value.type) == ("context_length_exceeded", "invalid_request_error")


# Bodies


@pytest.mark.parametrize("path", ["/v1/answers", "/v1/route", "/v1/chat/completions"])
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
async def test_a_body_that_is_too_large_is_rejected(router: RunningRouter, path: str, declared: bool) -> None:
    body = b'{"question": "' + b"x" * 5000 + b'"}'

    async with httpx.AsyncClient(base_url=router.rest, headers={"content-type": "application/json"}) as client:
        reply = await client.post(path, content=body if declared else pieces(body))
        after = await client.post("/v1/route", json={"msv": {"correctness": 1.0, "conflict": 0.0}})

    told = reply.json()
    reason = told["error"]["code"] if "chat" in path else told["reason"].lower()
    assert (reply.status_code, reason) == (413, "body_too_large")
    assert "4096 bytes" in (told["error"]["message"] if "chat" in path else told["detail"])
    assert after.status_code == 200


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


async def test_a_message_that_is_too_large_is_rejected(router: RunningRouter) -> None:
    request = router_pb2.RouteRequest(question="x" * (17 * 1024 * 1024))

    async with aio.insecure_channel(router.grpc) as channel:
        with pytest.raises(aio.AioRpcError) as raised:
            await router_pb2_grpc.RouterServiceStub(channel).Route(request)

    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "MALFORMED_REQUEST"),
        (b"{", "MALFORMED_REQUEST"),
        (b"[]", "MALFORMED_REQUEST"),
        (b'{"question": "\\ud800"}', "MALFORMED_REQUEST"),
        (b'{"question": "\xff"}', "MALFORMED_REQUEST"),
        (b'{"msv": {"conflict": NaN}}', "MALFORMED_REQUEST"),
        (b'{"msv": {"conflict": 1.01}}', "MSV_OUT_OF_RANGE"),
        (b'{"msv": {"conflict": -0.0001}}', "MSV_OUT_OF_RANGE"),
        (b'{"msv": {"conflict": "high"}}', "MALFORMED_REQUEST"),
        (b'{"msv": {"parts": {"urgency": 7}}}', "MSV_OUT_OF_RANGE"),
        (b'{"msv": {"unknown_reasons": {"mood": "?"}}}', "MSV_OUT_OF_RANGE"),
        (b'{"question": "?", "messages": [{"role": "user", "content": "?"}]}', "MALFORMED_REQUEST"),
        (b'{"question": "?", "envelope": {"max_generations": 4294967296}}', "INVALID_ENVELOPE"),
        (b'{"question": "?", "seed": 9223372036854775808}', "MALFORMED_REQUEST"),
        (b'{"question": "?", "seed": -1}', "MALFORMED_REQUEST"),
        (b'{"question": "?", "colour": "red"}', "MALFORMED_REQUEST"),
    ],
)
async def test_a_body_that_makes_no_request_is_rejected(router: RunningRouter, body: bytes, reason: str) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.post("/v1/route", content=body, headers={"content-type": "application/json"})

    assert (reply.status_code, reply.json()["reason"]) == (400, reason)
    assert reply.json()["detail"]


@pytest.mark.parametrize("api", ["rest", "rpc"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"max_tokens": 0}, "MALFORMED_REQUEST"),
        ({"stage_max_tokens": -1}, "MALFORMED_REQUEST"),
        ({"seed": -1}, "MALFORMED_REQUEST"),
        ({"temperature": 2.5}, "MALFORMED_REQUEST"),
        ({"request_id": "a\x00b"}, "MALFORMED_REQUEST"),
        ({"msv": {"importance": 1.5}}, "MSV_OUT_OF_RANGE"),
        ({"envelope": {"max_generated_tokens": 0}}, "INVALID_ENVELOPE"),
        ({"question": " "}, "MALFORMED_REQUEST"),
        ({"strategy": "debate"}, "UNKNOWN_STRATEGY"),
    ],
)
async def test_an_answer_with_a_wrong_parameter_is_rejected(
    router: RunningRouter, api: str, body: Body, reason: str
) -> None:
    asked = RestApi(router.rest, ROUTER) if api == "rest" else RpcApi(router.grpc, ROUTER)

    with pytest.raises(ApiError) as raised:
        await asked.ask("Answer", **{"question": "Is it so?", **body})

    assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", reason)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("/v1/runs/%00", 404),
        ("/v1/runs/nobody", 404),
        ("/v1/runs?page_size=0", 400),
        ("/v1/runs?page_size=many", 400),
        ("/v1/runs?page_token=next", 400),
        ("/v1/runs?system=SYSTEM_THREE", 400),
        ("/v1/runs?since=yesterday", 400),
        ("/v1/runs?colour=red", 400),
        ("/v1/runs?strategy=%00", 400),
        (f"/v1/runs?page_token={'%00' * 36}", 400),
    ],
)
async def test_a_question_for_runs_that_cannot_be_is_rejected(router: RunningRouter, query: str, status: int) -> None:
    async with httpx.AsyncClient(base_url=router.rest) as client:
        reply = await client.get(query)

    assert reply.status_code == status
