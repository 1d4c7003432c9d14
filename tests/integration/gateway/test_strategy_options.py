"""Options of the dialectic and of delegation reach them through the router, by chats and by both of its own APIs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.apis import Api, ApiError, RestApi, RpcApi
from tests.support.assigner import assigner_at
from tests.support.delegating import ScriptedAgents, delegation_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, Body, RunningRouter, cast, router_at

QUESTION = "What is 2 + 2?"
TASK: Body = {"dimension": "math_computation", "agents": ["alpha", "beta"], "expected": {"answer": "4"}}


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    async with (
        assigner_at(scripted) as assigner,
        delegation_at(scripted, database_url) as delegation,
        router_at(
            scripted,
            database_url,
            tmp_path,
            others={"assigner": assigner.grpc, "delegation": delegation.grpc},
        ) as running,
    ):
        yield running


async def _chat(router: RunningRouter, strategy: str, **options: Any) -> httpx.Response:  # noqa: ANN401
    messages = [{"role": "user", "content": QUESTION}]
    async with httpx.AsyncClient(base_url=router.rest, timeout=60) as client:
        body = {"model": f"metacog/{strategy}", "messages": messages, "metacog": options}
        return await client.post("/v1/chat/completions", json=body)


async def _run_of_chat(router: RunningRouter, strategy: str, **options: Any) -> Body:  # noqa: ANN401
    reply = await _chat(router, strategy, **options)
    assert reply.status_code == 200, reply.text
    await router.journal.flush(10)
    run: Body = (await RestApi(router.rest, ROUTER).ask("GetRun", run_id=reply.json()["metacog"]["run_id"]))["run"]
    return run


def _api(router: RunningRouter, name: str) -> Api:
    return RestApi(router.rest, ROUTER) if name == "rest" else RpcApi(router.grpc, ROUTER)


def _check_task(run: Body, account: Body) -> None:
    assert [each["dimension"] for each in account["dimensions"]] == ["math_computation"]
    assert {each["agent"] for each in account["assessments"]} <= {"alpha", "beta"}
    assert (account["label"]["correct"], account["label"]["checker"]) == (True, "EXPECTED")
    assert run["answer"] == "Final Answer: 4"


async def test_delegation_gets_dimension_agents_and_the_expected_answer_of_a_chat(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    scripted.answer = ScriptedAgents(rated={"alpha": 90}, answers=dict.fromkeys(("alpha", "beta"), "Final Answer: 4"))

    run = await _run_of_chat(router, "delegation", delegation=TASK)

    _check_task(run, run["deliberation"])


@pytest.mark.parametrize(("api", "account"), [("rest", "deliberation"), ("rpc", "task")])
async def test_delegation_gets_them_by_both_apis(
    router: RunningRouter, scripted: ScriptedLLM, api: str, account: str
) -> None:
    scripted.answer = ScriptedAgents(rated={"alpha": 90}, answers=dict.fromkeys(("alpha", "beta"), "Final Answer: 4"))

    run = (await _api(router, api).ask("Answer", question=QUESTION, strategy="delegation", delegation=TASK))["run"]

    _check_task(run, run[account])


async def test_a_judge_of_a_chat_judges(router: RunningRouter, scripted: ScriptedLLM) -> None:
    scripted.answer = ScriptedAgents(rated={"alpha": 90}, answers={"alpha": "Final Answer: 4"}, judge=95)

    options = {"dimension": "math_computation", "agents": ["alpha"], "judge": {"agent": "gamma"}}
    run = await _run_of_chat(router, "delegation", delegation=options)

    assert run["deliberation"]["label"]["checker"] == "JUDGE"


async def test_the_dialectic_has_the_agents_of_a_chat(router: RunningRouter, scripted: ScriptedLLM) -> None:
    scripted.answer = cast()

    run = await _run_of_chat(router, "dialectic", dialectic={"agents": ["ada", "ben"], "measure_stages": False})

    assert {each["agent"] for each in run["deliberation"]["assessments"]} == {"ada", "ben"}
    assert {stage["agent"] for stage in run["deliberation"]["stages"]} <= {"ada", "ben"}
    assert run["deliberation"]["measurements"] == []


@pytest.mark.parametrize(
    ("strategy", "options", "param"),
    [
        ("dialectic", {"dialectic": {"agents": ["nobody"]}}, "metacog.dialectic.agents"),
        ("delegation", {"delegation": {"dimension": "cookery"}}, "metacog.delegation.dimension"),
        ("delegation", {"delegation": {"agents": ["nobody"]}}, "metacog.delegation.agents"),
        ("delegation", {"delegation": {"expected": {"answer": ""}}}, "metacog.delegation.expected.answer"),
        ("delegation", {"delegation": {"judge": {}, "expected": {"answer": "4"}}}, "metacog.delegation.judge"),
        ("delegation", {"delegation": {"colour": "red"}}, "metacog.delegation.colour"),
        ("dialectic", {"msv": {"correctness": 2}}, "metacog.msv.correctness"),
        ("dialectic", {"envelope": {"timeout_ms": 0}}, "metacog.envelope.timeout_ms"),
        ("dialectic", {"envelope": {"max_tokens": 9}}, "metacog.envelope.max_tokens"),
        ("system1", {"envelope": {"max_generations": 5000}}, "metacog.envelope.max_generations"),
    ],
)
async def test_what_the_service_rejects_is_a_400_that_names_the_field(
    router: RunningRouter, scripted: ScriptedLLM, strategy: str, options: Body, param: str
) -> None:
    scripted.answer = cast()

    reply = await _chat(router, strategy, **options)

    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text


@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_both_apis_name_the_field_of_the_option(router: RunningRouter, scripted: ScriptedLLM, api: str) -> None:
    scripted.answer = cast()

    with pytest.raises(ApiError) as raised:
        await _api(router, api).ask(
            "Answer", question=QUESTION, strategy="delegation", delegation={"dimension": "cookery"}
        )

    assert (raised.value.code, [field for field, _ in raised.value.violations]) == (
        "INVALID_ARGUMENT",
        ["delegation.dimension"],
    )
