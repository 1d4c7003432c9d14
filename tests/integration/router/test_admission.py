"""Too much load: a request over the bound is rejected at once, by every API, with a time to retry."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from services.router.service.answering.admission import Admission
from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.gateway import HELLO, Suite, gateway, metacog_field
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM, Stall
from tests.support.stack import LONG, ROUTER, TROUBLED, cast, process

DEEP = {"question": "Is it so?", "strategy": "dialectic"}


@dataclass(frozen=True)
class Full:
    """A gateway with two places for requests, one of them for a deliberation, on a backend that stalls when told to."""

    suite: Suite
    llm: ScriptedLLM
    admission: Admission

    def api(self, name: str) -> Api:
        """One API of the router."""
        router = self.suite.router
        return RestApi(router.rest, ROUTER) if name == "rest" else RpcApi(router.grpc, ROUTER)

    async def holding(self, requests: int, model: str = "metacog/system1") -> list["asyncio.Task[Any]"]:
        """Requests that hold their places until they are cancelled."""
        self.llm.fault(*[Stall()] * requests)
        began = len(self.llm.bodies)
        tasks = [asyncio.create_task(self.suite.ask(model)) for _ in range(requests)]
        await self.llm.until(lambda it: len(it.bodies) == began + requests)
        return tasks

    async def let_go(self, tasks: list["asyncio.Task[Any]"]) -> None:
        """End those requests by hanging up."""
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.until_free()

    async def until_free(self) -> None:
        """Wait until no place is held; how long is bounded by the test's own limit."""
        while self.admission.requests.in_flight:  # noqa: ASYNC110 - the router notices by itself
            await asyncio.sleep(0.005)


@pytest.fixture
async def full(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Full]:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path, max_in_flight=2, max_deliberations=1) as suite:
        yield Full(suite, scripted, suite.router.admission)


@pytest.mark.parametrize("name", ["rest", "rpc"])
@pytest.mark.parametrize("operation", ["Answer", "Assess", "Route"])
async def test_one_request_too_many_is_rejected_at_once(full: Full, name: str, operation: str) -> None:
    held = await full.holding(2)

    with pytest.raises(ApiError) as raised:
        await full.api(name).ask(operation, question="Is it so?")

    assert (raised.value.code, raised.value.reason) == ("RESOURCE_EXHAUSTED", "OVERLOADED")
    assert raised.value.metadata == {"kind": "requests", "in_flight": "2", "retry_after_s": "1"}
    assert len(full.llm.bodies) == 2
    await full.let_go(held)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_openai_client_gets_a_rate_limit_error(full: Full, stream: bool) -> None:
    held = await full.holding(2)

    with pytest.raises(openai.RateLimitError) as raised:
        await full.suite.ask("metacog/system1", stream=stream)

    assert (raised.value.code, raised.value.type) == ("overloaded", "rate_limit_error")
    assert raised.value.response.headers["retry-after"] == "1"
    await full.let_go(held)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_an_error_by_rest_contains_when_to_retry(full: Full, accept: str) -> None:
    held = await full.holding(2)

    async with httpx.AsyncClient(base_url=full.suite.router.rest, headers={"accept": accept}) as client:
        reply = await client.post("/v1/answers", json={"question": "Is it so?"})

    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert reply.headers["content-type"] == "application/problem+json"
    await full.let_go(held)


async def test_reading_requests_are_never_rejected(full: Full) -> None:
    held = await full.holding(2)

    async with httpx.AsyncClient(base_url=full.suite.router.rest) as client:
        paths = ["/healthz", "/readyz", "/metrics", "/v1/models", "/v1/runs"]
        seen = [(await client.get(path)).status_code for path in paths]

    assert seen == [200] * 5
    await full.let_go(held)


@pytest.mark.parametrize("ending", ["answered", "rejected", "hung up", "stream read", "stream left"])
async def test_a_place_is_free_again_however_its_request_ends(full: Full, ending: str) -> None:
    for _ in range(3):
        match ending:
            case "answered":
                await full.suite.ask("metacog/system1")
            case "rejected":
                full.llm.fault(ErrorReply(400, "no"))
                with pytest.raises(openai.BadRequestError):
                    await full.suite.ask("metacog/system1")
            case "hung up":
                await full.let_go(await full.holding(2))
            case "stream read":
                await full.suite.chunks("metacog/system1")
            case "stream left":
                full.llm.answer = cast(system1="word " * 200)
                full.llm.token_delay_s = 0.01
                stream = await full.suite.ask("metacog/system1", stream=True)
                await anext(aiter(stream))
                assert full.admission.requests.in_flight == 1
                await stream.close()
                await full.llm.until(lambda it: it.in_flight == 0)
        await full.until_free()


async def test_a_rejected_request_is_no_run(full: Full) -> None:
    held = await full.holding(2)
    with pytest.raises(openai.RateLimitError) as raised:
        await full.suite.ask("metacog/system1")
    await full.let_go(held)

    assert "x-metacog-run-id" not in raised.value.response.headers


# Deliberations


async def test_a_deliberation_too_many_becomes_a_single_pass_answer_and_reports_it(full: Full) -> None:
    full.llm.answer = cast(TROUBLED, system1=LONG)
    held = await _one_deliberating(full)

    answer = await full.suite.ask("metacog")

    field = metacog_field(answer)
    assert (field["system"], field["strategy"], field["degraded"]) == ("SYSTEM_TWO", "system1", True)
    assert field["degraded_reasons"][0].startswith("dialectic: OVERLOADED: 1 deliberations are in flight")
    await full.let_go(held)


@pytest.mark.parametrize("name", ["rest", "rpc"])
@pytest.mark.parametrize("body", [DEEP, {"question": "Is it so?", "fallback": False}], ids=["named", "no fallback"])
async def test_a_deliberation_too_many_is_rejected_where_the_caller_named_it(
    full: Full, name: str, body: dict[str, Any]
) -> None:
    full.llm.answer = cast(TROUBLED)
    held = await _one_deliberating(full)

    with pytest.raises(ApiError) as raised:
        await full.api(name).ask("Answer", **body)

    assert (raised.value.code, raised.value.reason) == ("RESOURCE_EXHAUSTED", "OVERLOADED")
    assert (raised.value.metadata["kind"], "run_id" in raised.value.metadata) == ("deliberations", True)
    await full.let_go(held)


async def test_the_next_deliberation_is_let_in_when_one_has_ended(full: Full) -> None:
    for _ in range(2):
        answer = await full.suite.ask("metacog/dialectic")
        assert metacog_field(answer)["strategy"] == "dialectic"
    assert full.admission.deliberations.in_flight == 0


async def _one_deliberating(full: Full) -> list["asyncio.Task[Any]"]:
    """A deliberation that hangs in its thesis."""
    full.llm.fault(*[None] * 5, Stall())
    held = asyncio.create_task(full.suite.ask("metacog/dialectic"))
    await full.llm.until(lambda it: len(it.bodies) == 6)
    return [held]


# A backend that is full


@pytest.mark.parametrize("name", ["rest", "rpc"])
async def test_a_full_backend_that_names_no_time_gets_one(full: Full, name: str) -> None:
    full.llm.fault(*[ErrorReply(429, "busy")] * 4)

    with pytest.raises(ApiError) as raised:
        await full.api(name).ask("Answer", question="Is it so?", strategy="system1")

    assert (raised.value.code, raised.value.reason) == ("RESOURCE_EXHAUSTED", "BACKEND_OVERLOADED")
    assert raised.value.metadata["retry_after_s"] == "1"


# The process


async def test_bounds_are_settings_and_rejections_are_counted(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.fault(Stall())
    settings: dict[str, object] = {
        "METACOG_INFERENCE_URL": f"{scripted.url}/v1",
        "METACOG_DATABASE_URL": database_url,
        "METACOG_ROUTER_SPOOL_DIR": tmp_path,
        "METACOG_ROUTER_MAX_IN_FLIGHT": 1,
    }
    body = {"model": "metacog/system1", "messages": HELLO}
    async with process("router", **settings) as router, httpx.AsyncClient(base_url=router.rest, timeout=30) as client:
        first = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await scripted.until(lambda llm: len(llm.bodies) == 1)
        rejected = [(await client.post("/v1/chat/completions", json=body)).status_code for _ in range(3)]
        metrics = (await client.get("/metrics")).text
        first.cancel()
        await asyncio.wait({first})
        await scripted.until(lambda llm: llm.disconnects == 1)
        again = await client.post("/v1/chat/completions", json=body)

    assert (rejected, again.status_code) == ([429] * 3, 200)
    assert 'metacog_admitted_in_flight{kind="requests"} 1.0' in metrics
    assert 'metacog_overloaded_total{kind="requests"} 3.0' in metrics
