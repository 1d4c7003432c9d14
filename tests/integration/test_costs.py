"""What answers cost, and a limit on it over the whole fan-out, on every API."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError

from configuration.agents import AgentConfig
from kernel.prices import Price
from tests.support.apis import Api, ApiError, Body, RestApi, RpcApi
from tests.support.arbiter import ARBITER, Script, arbiter_at
from tests.support.assigner import NO_PRICES, assigner_at
from tests.support.delegating import ScriptedAgents, delegation_at
from tests.support.gateway import Suite, gateway, metacog_field, text_of
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import ROUTER, TROUBLED, cast, router_at

# 1e-6 for a token that is read, 2e-6 for one that is generated.
PRICES = {"scripted": Price(prompt=1.0, completion=2.0)}
MAJORITY = ["4"] * 10


def worth(usage: Body) -> float:
    """What the tokens of `usage` cost."""
    cost: float = round(usage["prompt_tokens"] * 1e-6 + usage["completion_tokens"] * 2e-6, 12)
    return cost


@pytest.fixture
async def suite(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[Suite]:
    """A gateway with an assigner behind it, both with prices."""
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path, prices=PRICES) as suite:
        yield suite


@pytest.fixture(params=["rest", "rpc"])
def api(suite: Suite, request: pytest.FixtureRequest) -> Api:
    """Each API in turn."""
    return RestApi(suite.router.rest, ROUTER) if request.param == "rest" else RpcApi(suite.router.grpc, ROUTER)


async def test_a_deliberation_costs_what_its_stages_cost(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)

    run = (await api.ask("Answer", question="Is it so?"))["run"]

    usage = run["usage"]
    assert {"assess", "thesis", "synthesis", "measure"} < set(usage["stages"])
    assert all(spent["cost"] == worth(spent) for spent in usage["stages"].values())
    assert (usage["cost"], usage["unknown_cost"]) == (worth(usage), 0.0)
    assert run["envelope"]["max_cost"] is None


@pytest.mark.parametrize("wrong", [0.0, -1.0, 2e9])
async def test_a_limit_that_is_no_amount_is_rejected(api: Api, scripted: ScriptedLLM, wrong: float) -> None:
    for operation in ("Answer", "Assess", "Route"):
        with pytest.raises(ApiError, match="max_cost") as raised:
            await api.ask(operation, question="Is it so?", envelope={"max_cost": wrong})
        assert raised.value.reason == "INVALID_ENVELOPE"
    assert scripted.bodies == []


# The prompts of 13 calls and more; money for some of them.
@pytest.mark.parametrize("max_cost", [0.004, 0.006])
async def test_a_limit_on_the_cost_ends_with_the_best_answer_so_far(
    api: Api, scripted: ScriptedLLM, max_cost: float
) -> None:
    scripted.answer = cast(TROUBLED)

    run = (await api.ask("Answer", question="Is it so?", strategy="dialectic", envelope={"max_cost": max_cost}))["run"]

    assert (run["outcome"], run["budget_exhausted"]) == ("ANSWERED", True)
    assert 0 < run["usage"]["cost"] == worth(run["usage"]) <= max_cost
    assert run["usage"]["unknown_cost"] == 0.0
    assert run["envelope"]["max_cost"] == max_cost


async def test_too_little_money_for_any_call_is_an_error_before_any_call(api: Api, scripted: ScriptedLLM) -> None:
    with pytest.raises(ApiError) as raised:
        await api.ask("Answer", question="Is it so?", strategy="system1", envelope={"max_cost": 0.0001})

    assert (raised.value.code, raised.value.reason) == ("RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED")
    assert raised.value.metadata["cost_left"] == "0.0001"
    assert scripted.bodies == []


async def test_money_for_a_single_pass_call_only_gets_one(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = cast(TROUBLED)
    limit = {"max_cost": 0.00042}  # a prompt of some 350 tokens at most, and 30 generated ones

    run = (await api.ask("Answer", question="Is it so?", envelope=limit))["run"]

    assert (run["strategy"], len(scripted.bodies)) == ("system1", 1)
    assert run["usage"]["cost"] <= 0.00042


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_reports_its_cost_and_limits_it(suite: Suite, scripted: ScriptedLLM, stream: bool) -> None:
    limit = {"envelope": {"max_cost": 0.0005}}

    if stream:
        chunks = await suite.chunks("metacog/system1", metacog=limit, max_tokens=8)
        answer, usage = text_of(chunks), metacog_field(chunks[-1])["usage"]
    else:
        whole = await suite.ask("metacog/system1", metacog=limit, max_tokens=8)
        answer, usage = whole.choices[0].message.content, metacog_field(whole)["usage"]

    assert answer == "the system1"
    assert 0 < usage["cost"] == worth(usage)
    assert usage["stages"]["system1"]["cost"] == usage["cost"]


async def test_a_model_without_a_price_cannot_be_limited(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    scripted.answer = cast()
    async with gateway(scripted, database_url, tmp_path) as suite:
        for api in (RestApi(suite.router.rest, ROUTER), RpcApi(suite.router.grpc, ROUTER)):
            for operation in ("Answer", "Assess", "Route"):
                with pytest.raises(ApiError, match="'scripted' has no price; state it") as raised:
                    await api.ask(operation, question="Is it so?", envelope={"max_cost": 1.0})
                assert (raised.value.code, raised.value.reason) == ("INVALID_ARGUMENT", "INVALID_ENVELOPE")
                assert raised.value.metadata["model"] == "scripted"
        with pytest.raises(BadRequestError) as bad:
            await suite.ask("metacog", metacog={"envelope": {"max_cost": 1.0}})
        assert (bad.value.code, scripted.bodies) == ("invalid_envelope", [])

        run = (await api.ask("Answer", question="Is it so?", strategy="system1"))["run"]
        assert (run["usage"]["cost"], run["usage"]["unknown_cost"]) == (None, None)


@pytest.mark.parametrize("named", ["", "dialectic"])
async def test_an_agents_model_without_a_price_is_rejected_and_has_no_fallback(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, named: str
) -> None:
    scripted.answer = cast(TROUBLED)
    agents = [AgentConfig(id=f"a{place}", model="dear" if place == 4 else "") for place in range(5)]
    with ScriptedLLM(model="dear") as dear:
        async with (
            assigner_at(scripted, agents, prices=PRICES, others={"dear": dear}) as assigner,
            router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}, prices=PRICES) as router,
        ):
            with pytest.raises(ApiError, match="the model 'dear' has no price") as raised:
                await RpcApi(router.grpc, ROUTER).ask(
                    "Answer", question="Why is it so?", strategy=named, envelope={"max_cost": 1.0}
                )

    assert raised.value.reason == "INVALID_ENVELOPE"
    assert len(scripted.bodies) == (0 if named else 2)  # the assessment, and the draft


async def arbitrated(llm: ScriptedLLM, prices: Any = PRICES, **request: Any) -> Body:  # noqa: ANN401
    llm.answer = Script(MAJORITY, MAJORITY)
    async with arbiter_at(llm, prices=prices) as arbiter:
        return await RpcApi(arbiter.grpc, ARBITER).ask("Arbitrate", question="What is 2 + 2?", **request)


async def test_an_arbitration_stays_inside_its_cost(scripted: ScriptedLLM) -> None:
    whole = await arbitrated(scripted, mode="PAPER", arbitration_samples=4)
    cut = await arbitrated(scripted, mode="PAPER", arbitration_samples=4, envelope={"max_cost": 0.002})

    assert whole["usage"]["cost"] == worth(whole["usage"])
    assert (whole["budget_exhausted"], cut["budget_exhausted"]) == (False, True)
    assert (cut["outcome"], cut["answer"]) == ("ANSWERED", "4")
    assert cut["usage"]["cost"] == worth(cut["usage"]) <= 0.002
    assert cut["usage"]["generations"] < whole["usage"]["generations"]


async def test_an_arbiter_without_prices_rejects_a_limit(scripted: ScriptedLLM) -> None:
    with pytest.raises(ApiError, match="'scripted' has no price") as raised:
        await arbitrated(scripted, NO_PRICES, envelope={"max_cost": 1.0})

    assert (raised.value.reason, scripted.bodies) == ("INVALID_ENVELOPE", [])


async def test_a_delegated_task_stays_inside_its_cost(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> None:
    scripted.answer = ScriptedAgents(rated={}, answers={})
    async with (
        delegation_at(scripted, database_url, prices=PRICES) as service,
        router_at(scripted, database_url, tmp_path, others={"delegation": service.grpc}, prices=PRICES) as router,
    ):
        api = RpcApi(router.grpc, ROUTER)
        request = {"question": "What is 2 + 2?", "strategy": "delegation", "fallback": False}
        whole = (await api.ask("Answer", **request))["run"]
        cut = (await api.ask("Answer", **request, envelope={"max_cost": 0.0015}))["run"]

    assert whole["usage"]["cost"] == worth(whole["usage"])
    assert (cut["outcome"], cut["budget_exhausted"], whole["budget_exhausted"]) == ("ANSWERED", True, False)
    assert 0 < cut["usage"]["cost"] == worth(cut["usage"]) <= 0.0015
