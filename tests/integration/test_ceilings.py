"""No request may spend more than the operator allows, whatever its envelope states, on every API of every service."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from metacog.arbiter.v1 import arbiter_pb2
from metacog.assigner.v1 import assigner_pb2
from metacog.delegation.v1 import delegation_pb2
from openai import BadRequestError

from kernel.envelope import Ceilings
from kernel.prices import Price
from tests.support.apis import Api, ApiError, RestApi, RpcApi, Running
from tests.support.arbiter import arbiter_at
from tests.support.assigner import assigner_at
from tests.support.delegating import delegation_at, delegation_settings
from tests.support.gateway import Suite, gateway
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import NO_SERVER, ROUTER, cast, process

CONTRACTS = {
    "router": ROUTER,
    "assigner": assigner_pb2.DESCRIPTOR.services_by_name["AssignerService"],
    "arbiter": arbiter_pb2.DESCRIPTOR.services_by_name["ArbiterService"],
    "delegation": delegation_pb2.DESCRIPTOR.services_by_name["DelegationService"],
}
CEILINGS = Ceilings(max_generations=50, max_generated_tokens=10_000, timeout_ms=90_000, max_cost=0.5)
OVER: dict[str, tuple[Any, str]] = {
    "max_generations": (51, "50"),
    "max_generated_tokens": (2**31 - 1, "10000"),
    "timeout_ms": (90_001, "90000"),
    "max_cost": (0.51, "0.5"),
}
PRICES = {"scripted": Price(prompt=1.0, completion=2.0)}
OPERATIONS = [
    ("router", "Answer"),
    ("router", "Assess"),
    ("router", "Route"),
    ("assigner", "Deliberate"),
    ("arbiter", "Arbitrate"),
    ("arbiter", "Vote"),
    ("delegation", "Process"),
    ("delegation", "SelfAssess"),
]


@pytest.fixture
async def services(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[dict[str, Running]]:
    """The four services with ceilings, prices and a scripted model."""
    scripted.answer = cast()
    more: dict[str, Any] = {"prices": PRICES, "ceilings": CEILINGS}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        yield {
            "router": (await enter(gateway(scripted, database_url, tmp_path, **more))).router,
            "assigner": await enter(assigner_at(scripted, **more)),
            "arbiter": await enter(arbiter_at(scripted, max_programs=10, **more)),
            "delegation": await enter(
                delegation_at(scripted, database_url, settings=delegation_settings(test_max_timeout_ms=10_000), **more)
            ),
        }


def apis(services: dict[str, Running], name: str) -> list[Api]:
    """Both APIs of a service."""
    running, contract = services[name], CONTRACTS[name]
    return [RestApi(running.rest, contract), RpcApi(running.grpc, contract)]


@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[operation for _, operation in OPERATIONS])
async def test_an_envelope_above_a_ceiling_is_an_error_that_names_the_field_and_the_ceiling(
    services: dict[str, Running], scripted: ScriptedLLM, name: str, operation: str
) -> None:
    for api in apis(services, name):
        for field, (limit, ceiling) in OVER.items():
            with pytest.raises(ApiError, match=f"{field} is .*at most {ceiling} here") as raised:
                await api.ask(operation, question="Is it so?", envelope={field: limit})
            assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "INVALID_ENVELOPE")
            assert (raised.value.metadata["field"], raised.value.metadata["ceiling"]) == (f"envelope.{field}", ceiling)

    assert scripted.bodies == []


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    """A gateway with ceilings and prices."""
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path, prices=PRICES, ceilings=CEILINGS) as suite:
        yield suite


@pytest.mark.parametrize("model", ["metacog", "metacog/system1", "metacog/dialectic", "scripted"])
async def test_a_chat_above_a_ceiling_is_an_error_too(suite: Suite, scripted: ScriptedLLM, model: str) -> None:
    for field, (limit, ceiling) in OVER.items():
        with pytest.raises(BadRequestError, match=f"at most {ceiling} here") as raised:
            await suite.ask(model, metacog={"envelope": {field: limit}})
        assert (raised.value.param, raised.value.code) == (f"metacog.envelope.{field}", "invalid_envelope")

    assert scripted.bodies == []


async def test_an_envelope_at_the_ceilings_is_accepted(suite: Suite) -> None:
    most = {"max_generations": 50, "max_generated_tokens": 10_000, "timeout_ms": 90_000, "max_cost": 0.5}

    run = (await RestApi(suite.router.rest, ROUTER).ask("Answer", question="Is it so?", envelope=most))["run"]

    assert run["envelope"] == most


async def test_what_a_request_leaves_out_is_below_the_ceilings_too(suite: Suite) -> None:
    api = RpcApi(suite.router.grpc, ROUTER)

    run = (await api.ask("Answer", question="Is it so?", strategy="vote", vote={"most": 64}, max_tokens=500))["run"]

    assert run["envelope"]["max_generations"] == 50
    assert run["envelope"]["max_generated_tokens"] == 10_000
    assert run["envelope"]["max_cost"] == 0.5


async def test_unit_tests_have_no_more_time_than_the_operator_allows(
    services: dict[str, Running], scripted: ScriptedLLM
) -> None:
    tests = {"code": "assert True", "timeout_ms": 10_001}

    for api in apis(services, "delegation"):
        with pytest.raises(ApiError, match="at most 10000 ms here") as raised:
            await api.ask("Process", question="Write f.", dimension="math_computation", unit_tests=tests)
        assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "REQUEST_OVER_LIMIT")
        assert raised.value.metadata["field"] == "unit_tests.timeout_ms"
        assert raised.value.metadata["ceiling"] == "10000"

    assert scripted.bodies == []


@pytest.mark.parametrize(
    "request_fields",
    [{"answer_type": "CODE", "tests": "assert True"}, {"sources": [{"mode": "PROGRAM"}]}],
    ids=["tests", "programs"],
)
async def test_a_vote_has_no_more_programs_run_than_the_operator_allows(
    services: dict[str, Running], scripted: ScriptedLLM, request_fields: dict[str, Any]
) -> None:
    for api in apis(services, "arbiter"):
        with pytest.raises(ApiError, match="at most 10 here") as raised:
            await api.ask("Vote", question="What is 2 + 2?", most=11, **request_fields)
        assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "REQUEST_OVER_LIMIT")
        assert (raised.value.metadata["field"], raised.value.metadata["ceiling"]) == ("most", "10")

    assert scripted.bodies == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("router", "/v1/answers"),
        ("assigner", "/v1/deliberations"),
        ("arbiter", "/v1/arbitrations"),
        ("delegation", "/v1/tasks"),
    ],
)
async def test_every_process_reads_the_ceilings_from_its_environment(name: str, path: str) -> None:
    settings = {
        "METACOG_INFERENCE_MODEL": "any",
        "METACOG_INFERENCE_URL": f"http://{NO_SERVER}/v1",
        "METACOG_DATABASE_URL": f"postgresql+psycopg://me@{NO_SERVER}/metacog",
        "METACOG_CEILING_TIMEOUT_MS": 1234,
    }
    body = {"question": "Is it so?", "dimension": "math_computation", "envelope": {"timeout_ms": 1235}}
    if name != "delegation":
        del body["dimension"]
    async with process(name, **settings) as running, httpx.AsyncClient(base_url=running.rest, timeout=60) as client:
        reply = await client.post(path, json=body)

    assert (reply.status_code, reply.json()["reason"]) == (400, "INVALID_ENVELOPE")
    assert reply.json()["metadata"]["setting"] == "METACOG_CEILING_TIMEOUT_MS"
