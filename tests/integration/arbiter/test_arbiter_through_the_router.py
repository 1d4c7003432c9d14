"""`metacog/arbiter`: the router hands a question to the arbiter, with all that a caller may choose of it."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from configuration.agents import AgentConfig
from kernel.envelope import Limits
from tests.support.apis import ApiError, RestApi, RpcApi
from tests.support.arbiter import Script, arbiter_at, stage_of
from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ErrorReply, ScriptedLLM
from tests.support.stack import ROUTER, RunningRouter, router_at

TORN = ["4", "4", "5", "4", "4", "5", "5", "4", None, "5"]
ARBITRATION = ["4"] * 30 + ["5"] * 20
LIMITS = Limits(max_generations=104, max_generated_tokens=26_624, timeout_ms=60_000)
REQUEST = {"question": "What is 2 + 2?", "strategy": "arbiter", "seed": 5}


@pytest.fixture
async def router(scripted: ScriptedLLM, database_url: str, tmp_path: Path) -> AsyncIterator[RunningRouter]:
    """A router with an arbiter behind it."""
    scripted.answer = Script(TORN, ARBITRATION)
    async with (
        arbiter_at(scripted, agents=[AgentConfig(id="ada", temperature=1.5)]) as arbiter,
        router_at(scripted, database_url, tmp_path, others={"arbiter": arbiter.grpc}, limits=LIMITS) as running,
    ):
        yield running


def drawn(llm: ScriptedLLM) -> dict[str, list[int]]:
    """Samples of each call, by stage."""
    by_stage: dict[str, list[int]] = {}
    for body in llm.bodies:
        by_stage.setdefault(stage_of(body), []).append(body.get("n", 1))
    return by_stage


@pytest.mark.parametrize("api", ["rpc", "rest"])
async def test_mode_variant_and_samples_are_the_callers(router: RunningRouter, scripted: ScriptedLLM, api: str) -> None:
    wanted = {"mode": "PAPER", "solvers": 3, "solver_samples": 2, "arbitration_samples": 4, "critique_max_tokens": 7}
    client = RpcApi(router.grpc, ROUTER) if api == "rpc" else RestApi(router.rest, ROUTER)

    run = (await client.ask("Answer", **REQUEST, arbitration=wanted))["run"]

    whole = (await RestApi(router.rest, ROUTER).ask("GetRun", run_id=run["run_id"]))["run"]
    assert drawn(scripted) == {"solve": [2, 2, 2], "critique": [1, 1, 1], "arbitrate": [4]}
    assert (whole["deliberation"]["mode"], run["usage"]["generations"], run["degraded"]) == ("PAPER", 13, False)
    assert {body["max_tokens"] for body in scripted.bodies if stage_of(body) == "critique"} == {7}


async def test_both_apis_report_the_arbitration_during_the_run_and_afterwards(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    request = {**REQUEST, "arbitration": {"mode": "PAPER"}}

    by_rpc = await RpcApi(router.grpc, ROUTER).events("Answer", **request)
    scripted.answer = Script(TORN, ARBITRATION)
    by_rest = await RestApi(router.rest, ROUTER).events("Answer", **request)

    names = Counter(name for name, _ in by_rpc)
    assert names == Counter(name for name, _ in by_rest)
    assert {"samples_drawn", "solvers_finished", "critique_finished", "answer_settled"} <= names.keys()
    (one, mine), (other, its) = by_rpc[-1], by_rest[-1]
    assert one == other == "run_finished"
    account = mine["run"]["arbitration"]
    assert account["arbiter"] == its["run"]["deliberation"]["arbiter"] == {"4": 30, "5": 20}
    stored = (await RpcApi(router.grpc, ROUTER).ask("GetRun", run_id=mine["run"]["run_id"]))["run"]
    assert sum(sample["solver"] is None for sample in stored["arbitration"]["samples"]) == 50
    assert stored["deliberation"] is None


async def test_the_stock_client_chooses_them_in_the_metacog_object(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    options = {"variant": "MAJORITY_VOTE", "solver_temperature": 0.9, "adaptive": {"stop": "NONE"}}

    answer = await openai(router).chat.completions.create(
        model="metacog/arbiter",
        messages=[{"role": "user", "content": "What is 2 + 2?"}],
        temperature=0.1,
        extra_body={"metacog": {"arbitration": options}},
    )

    assert drawn(scripted) == {"solve": [5, 5]}
    assert {body["temperature"] for body in scripted.bodies} == {0.9}  # and not the request's own
    assert (answer.model_extra or {})["metacog"]["strategy"] == "arbiter"


@pytest.mark.parametrize(("max_tokens", "reason"), [(8, "length"), (100, "stop")])
async def test_a_sample_that_the_token_limit_cut_reports_it(
    router: RunningRouter, scripted: ScriptedLLM, max_tokens: int, reason: str
) -> None:
    script = Script(TORN, ARBITRATION)
    scripted.answer = lambda body: [f"{text} for sure" for text in script(body)]

    answer = await openai(router).chat.completions.create(
        model="metacog/arbiter",
        messages=[{"role": "user", "content": "What is 2 + 2?"}],
        max_tokens=max_tokens,
        extra_body={"metacog": {"answer_type": "NUMBER"}},
    )

    assert (answer.choices[0].message.content or "").endswith("4" if reason == "length" else "4 for sure")
    assert answer.choices[0].finish_reason == reason


async def test_more_samples_than_usual_fit_the_envelope_of_a_request_that_states_none(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    api = RpcApi(router.grpc, ROUTER)

    run = (await api.ask("Answer", **REQUEST, arbitration={"mode": "PAPER", "arbitration_samples": 120}))["run"]

    assert sum(drawn(scripted)["arbitrate"]) == 120
    assert (run["budget_exhausted"], run["usage"]["generations"]) == (False, 132)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"solvers": 0}, "MALFORMED_REQUEST"),
        ({"mode": "FAST"}, "MALFORMED_REQUEST"),
        ({"solver_agents": ["unknown"]}, "UNKNOWN_AGENT"),
        ({"arbitration_samples": 100_000}, "REQUEST_OVER_LIMIT"),
    ],
)
async def test_a_request_that_the_arbiter_cannot_serve_is_an_error_without_a_fallback(
    router: RunningRouter, scripted: ScriptedLLM, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ApiError) as raised:
        await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST, arbitration=options)

    assert raised.value.reason == reason
    assert scripted.bodies == []


async def test_a_wrong_option_is_named_to_the_stock_client(router: RunningRouter) -> None:
    with pytest.raises(BadRequestError) as raised:
        await openai(router).chat.completions.create(
            model="metacog/arbiter",
            messages=[{"role": "user", "content": "What is 2 + 2?"}],
            extra_body={"metacog": {"arbitration": {"solver_sample": 3}}},
        )

    assert raised.value.param == "metacog.arbitration.solver_sample"


def openai(router: RunningRouter) -> AsyncOpenAI:
    """The stock client."""
    return AsyncOpenAI(base_url=f"{router.rest}/v1", api_key="none", max_retries=0)


async def test_where_every_strategy_fails_the_reason_is_the_first_cause_and_not_the_envelope(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path
) -> None:
    async with (
        assigner_at(scripted) as assigner,
        arbiter_at(scripted) as arbiter,
        router_at(
            scripted, database_url, tmp_path, others={"assigner": assigner.grpc, "arbiter": arbiter.grpc}
        ) as running,
    ):
        scripted.fault(*[ErrorReply(503, "loading")] * 200)
        envelope = {"max_generations": 16, "max_generated_tokens": 240, "timeout_ms": 60_000}
        with pytest.raises(ApiError) as raised:
            await RestApi(running.rest, ROUTER).ask("Answer", **REQUEST, envelope=envelope)

    assert raised.value.reason == "BACKEND_UNAVAILABLE"


async def test_an_envelope_of_one_generation_gives_a_single_pass_answer_and_reports_the_limit(
    router: RunningRouter, scripted: ScriptedLLM
) -> None:
    run = (await RestApi(router.rest, ROUTER).ask("Answer", **REQUEST, envelope={"max_generations": 1}))["run"]

    assert (run["strategy"], run["usage"]["generations"], len(scripted.bodies)) == ("system1", 1, 1)
    assert (run["degraded"], run["budget_exhausted"]) == (True, True)
